//! Who may look at what.

/// Why a pipeline may not use a cluster; `None` if it may.
///
/// A cluster can be used from its own namespace. Its annotation may list others (`*` for all);
/// without one it is open to all unless `only_own` says otherwise.
pub fn refuse_cluster(
    cluster_namespace: &str,
    allowed: Option<&str>,
    pipeline_namespace: &str,
    only_own: bool,
) -> Option<String> {
    if cluster_namespace == pipeline_namespace {
        return None;
    }
    let is_listed = |list: &str| {
        let mut names = list.split(',').map(str::trim);
        names.any(|name| name == "*" || name == pipeline_namespace)
    };
    match allowed {
        Some(list) if is_listed(list) => None,
        Some(_) => Some(format!(
            "the cluster does not allow pipelines of namespace {pipeline_namespace}"
        )),
        None if only_own => Some(format!(
            "clusters of namespace {cluster_namespace} may not be used from namespace {pipeline_namespace}"
        )),
        None => None,
    }
}

/// Why apps of an API group are not looked at; `None` if they are.
///
/// The core group holds Secrets, and no app lives there.
pub fn refuse_group(group: &str) -> Option<String> {
    group
        .is_empty()
        .then(|| "objects of the core group are not read as apps".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_open_unless_somebody_closes_them() {
        let refused =
            |allowed, only_own| refuse_cluster("flux", allowed, "team", only_own).is_some();
        assert!(!refused(None, false));
        assert!(refused(None, true));
        assert!(!refused(Some("other, team"), true));
        assert!(!refused(Some("*"), true));
        assert!(refused(Some("other"), false));
        assert!(refused(Some(""), false));
        assert!(refuse_cluster("team", Some("other"), "team", true).is_none());
    }
}
