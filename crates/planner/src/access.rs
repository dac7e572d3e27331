//! Which clusters, namespaces and API groups a pipeline may read.

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
    let refusal = refusal(cluster_namespace, allowed, pipeline_namespace, only_own)?;
    Some(match refusal {
        AccessRefusal::NotListed => {
            format!("the cluster does not allow pipelines of namespace {pipeline_namespace}")
        }
        AccessRefusal::NotOwn => format!(
            "clusters of namespace {cluster_namespace} may not be used from namespace {pipeline_namespace}"
        ),
    })
}

/// Why a pipeline may not have a target in a namespace of the hub; `None` if it may.
///
/// The same rule as for clusters, with the annotation on the Namespace: everybody who can read a pipeline
/// sees what its targets run.
pub fn refuse_hub_namespace(
    target_namespace: &str,
    allowed: Option<&str>,
    pipeline_namespace: &str,
    only_own: bool,
) -> Option<String> {
    let refusal = refusal(target_namespace, allowed, pipeline_namespace, only_own)?;
    Some(match refusal {
        AccessRefusal::NotListed => format!(
            "namespace {target_namespace} does not allow pipelines of namespace {pipeline_namespace}"
        ),
        AccessRefusal::NotOwn => format!(
            "apps of namespace {target_namespace} may not be looked at from namespace {pipeline_namespace}"
        ),
    })
}

enum AccessRefusal {
    /// The annotation does not list the namespace.
    NotListed,
    /// There is no annotation, and only a namespace's own pipelines are allowed.
    NotOwn,
}

fn refusal(
    namespace: &str,
    allowed: Option<&str>,
    pipeline_namespace: &str,
    only_own: bool,
) -> Option<AccessRefusal> {
    if namespace == pipeline_namespace {
        return None;
    }
    let is_listed = |list: &str| {
        let mut names = list.split(',').map(str::trim);
        names.any(|name| name == "*" || name == pipeline_namespace)
    };
    match allowed {
        Some(list) if is_listed(list) => None,
        Some(_) => Some(AccessRefusal::NotListed),
        None if only_own => Some(AccessRefusal::NotOwn),
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

    #[test]
    fn apps_have_an_api_group() {
        let core = "objects of the core group are not read as apps";
        assert_eq!(refuse_group("").as_deref(), Some(core));
        assert_eq!(refuse_group("apps"), None);
    }

    #[test]
    fn namespaces_of_the_hub_are_open_unless_somebody_closes_them() {
        let not_listed = "namespace team-a does not allow pipelines of namespace team-b";
        let not_own = "apps of namespace team-a may not be looked at from namespace team-b";
        for (allowed, only_own, expected) in [
            (None, false, None),
            (None, true, Some(not_own)),
            (Some("team-b"), true, None),
            (Some("x, *"), true, None),
            (Some("team-c"), false, Some(not_listed)),
            (Some(""), false, Some(not_listed)),
            (Some(""), true, Some(not_listed)),
        ] {
            let refused = refuse_hub_namespace("team-a", allowed, "team-b", only_own);
            assert_eq!(refused.as_deref(), expected, "{allowed:?} {only_own}");
        }
        assert_eq!(
            refuse_hub_namespace("team-b", Some(""), "team-b", true),
            None
        );
    }
}
