//! The sites that promotions lead into, and their names and keys.

use api::{
    Pipeline,
    names::PromotionSite,
    pipeline::{ClusterReference, Scope, TargetStatus},
    promotion::{PromotionSpec, PromotionTarget},
};

/// The key in `status.reports` of what CI proposes to a pipeline whose source is `Hook`. No
/// target's key looks like it: those hold two slashes.
pub const RELEASE_REPORT: &str = "/release";

/// The key of a cluster: its name, with its namespace where that differs from the pipeline's.
pub fn cluster_key(cluster: &ClusterReference, pipeline_namespace: &str) -> String {
    match cluster.namespace.as_deref() {
        Some(namespace) if !namespace.is_empty() && namespace != pipeline_namespace => {
            format!("{namespace}.{}", cluster.name)
        }
        _ => cluster.name.clone(),
    }
}

/// The key in `status.reports` for one target.
pub fn target_report_key(
    environment: &str,
    cluster: Option<&ClusterReference>,
    namespace: &str,
    pipeline_namespace: &str,
) -> String {
    let cluster = cluster.map(|cluster| cluster_key(cluster, pipeline_namespace));
    PromotionSite::target(environment, cluster.as_deref(), namespace).key()
}

/// The key in `status.reports` for what cannot be attributed to one target.
pub fn environment_report_key(environment: &str) -> String {
    PromotionSite::environment(environment).key()
}

/// Whether a key in `status.reports` is of an environment or of one of its targets.
pub(crate) fn is_report_of(key: &str, environment: &str) -> bool {
    let own = environment_report_key(environment);
    let rest = key.strip_prefix(&own);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The site that a promotion leads into.
pub fn site_of(promotion: &PromotionSpec, pipeline_namespace: &str) -> PromotionSite {
    let Some(target) = &promotion.target else {
        return PromotionSite::environment(&promotion.environment);
    };
    let cluster = cluster_of(target).map(|cluster| cluster_key(&cluster, pipeline_namespace));
    PromotionSite::target(
        &promotion.environment,
        cluster.as_deref(),
        &target.namespace,
    )
}

fn cluster_of(target: &PromotionTarget) -> Option<ClusterReference> {
    Some(ClusterReference {
        name: target.cluster.clone()?,
        namespace: target.cluster_namespace.clone(),
        kind: "GitopsCluster".to_owned(),
        api_version: None,
    })
}

/// The cluster a stored target is on.
pub(crate) fn cluster_of_status(target: &TargetStatus) -> Option<&ClusterReference> {
    target.cluster_app_ref.as_ref()?.cluster_ref.as_ref()
}

/// The key of a target within its environment: `cluster/namespace`, with `-` for the hub.
pub fn target_key(target: &TargetStatus, pipeline_namespace: &str) -> String {
    let cluster = cluster_of_status(target).map(|it| cluster_key(it, pipeline_namespace));
    let namespace = target.namespace.as_deref().unwrap_or_default();
    format!("{}/{namespace}", cluster.as_deref().unwrap_or(HUB))
}

/// The site of a target by its key.
pub(crate) fn site_of_key(environment: &str, key: &str) -> PromotionSite {
    let (cluster, namespace) = key.rsplit_once('/').unwrap_or((HUB, key));
    let cluster = Some(cluster).filter(|cluster| *cluster != HUB);
    PromotionSite::target(environment, cluster, namespace)
}

/// What stands for the hub where a cluster is named.
pub(crate) const HUB: &str = "-";

/// The target as people read it: `cluster/namespace`, or the namespace alone on the hub.
pub fn target_name(target: &TargetStatus) -> String {
    let namespace = target.namespace.as_deref().unwrap_or("-");
    match cluster_of_status(target) {
        Some(cluster) => format!("{}/{namespace}", cluster.name),
        None => namespace.to_owned(),
    }
}

/// Cluster and namespace of an environment's targets: as observed, or as in the spec where nothing has
/// been observed yet. Selectors of the spec are left out.
pub fn targets_of(pipeline: &Pipeline, environment: &str) -> Vec<(Option<String>, String)> {
    let home = pipeline.metadata.namespace.as_deref().unwrap_or_default();
    let key = |cluster: Option<&ClusterReference>| cluster.map(|it| cluster_key(it, home));
    let status = pipeline.status.as_ref();
    let found = status.and_then(|status| status.environments.get(environment));
    let found = found
        .map(|found| found.targets.as_slice())
        .unwrap_or_default();
    if !found.is_empty() {
        let namespace = |target: &TargetStatus| target.namespace.clone().unwrap_or_default();
        let found = found.iter();
        return found
            .map(|target| (key(cluster_of_status(target)), namespace(target)))
            .collect();
    }
    let environments = pipeline.spec.environments.iter();
    let written = environments.filter(|it| it.name == environment);
    let written = written.flat_map(|it| &it.targets);
    let written = written.filter(|target| target.cluster_selector.is_none());
    written
        .map(|target| (key(target.cluster_ref.as_ref()), target.namespace.clone()))
        .collect()
}

/// The sites of an environment.
pub fn sites(pipeline: &Pipeline, environment: &str) -> Vec<PromotionSite> {
    let settings = pipeline.spec.promotion_into(environment);
    if settings.and_then(|settings| settings.scope) != Some(Scope::Target) {
        return vec![PromotionSite::environment(environment)];
    }
    let targets = targets_of(pipeline, environment).into_iter();
    targets
        .map(|(cluster, namespace)| {
            PromotionSite::target(environment, cluster.as_deref(), &namespace)
        })
        .collect()
}

/// The marker of the values in git that a promotion into a site sets.
pub fn marker(namespace: &str, pipeline: &str, site: &PromotionSite) -> String {
    let start = format!("{namespace}:{pipeline}:{}", site.environment);
    match &site.target {
        Some((cluster, namespace)) => {
            let cluster = cluster.as_deref().unwrap_or("-");
            format!("{start}:{cluster}/{namespace}")
        }
        None => start,
    }
}

/// `GitopsCluster/namespace/name`, the namespace only where the reference has one.
pub(crate) fn cluster_text(cluster: &ClusterReference) -> String {
    match cluster.namespace.as_deref() {
        Some(namespace) if !namespace.is_empty() => {
            format!("GitopsCluster/{namespace}/{}", cluster.name)
        }
        _ => format!("GitopsCluster/{}", cluster.name),
    }
}
