//! What the caller may do with pipelines in the namespace.

use api::{Pipeline, Promotion};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, Resource, api::PostParams};

use super::{
    super::{cluster::Cluster, cluster_error::cluster_error},
    Check,
};

/// What each command needs: verb, resource, and a name for people.
const RIGHTS: [(&str, &str, &str); 5] = [
    ("list", "pipelines", "see pipelines"),
    ("list", "promotions", "see promotions"),
    ("approve", "pipelines", "approve"),
    ("promote", "pipelines", "promote and roll back"),
    ("suspend", "pipelines", "suspend"),
];

pub(super) async fn check(cluster: &Cluster, namespace: &str) -> anyhow::Result<Vec<Check>> {
    let (mut may, mut may_not) = (Vec::new(), Vec::new());
    for (verb, resource, text) in RIGHTS {
        match is_allowed(cluster, namespace, verb, resource).await? {
            true => may.push(text),
            false => may_not.push(text),
        }
    }
    let user = cluster.caller().await?;
    let subject = format!("rights of {user} in namespace {namespace}");
    let may = match may.is_empty() {
        true => "nothing".to_owned(),
        false => may.join(", "),
    };
    if may_not.is_empty() {
        return Ok(vec![Check::passed(subject, format!("may {may}"))]);
    }
    let text = format!(
        "may {may}; may not {}; ask for one of the ClusterRoles pipeline-controller-viewer, -approver or \
         -editor",
        may_not.join(", ")
    );
    Ok(vec![Check::warning(subject, text)])
}

async fn is_allowed(
    cluster: &Cluster,
    namespace: &str,
    verb: &str,
    resource: &str,
) -> anyhow::Result<bool> {
    let group = match resource {
        "promotions" => Promotion::group(&()),
        _ => Pipeline::group(&()),
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                namespace: Some(namespace.to_owned()),
                verb: Some(verb.to_owned()),
                group: Some(group.into_owned()),
                resource: Some(resource.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(cluster.client.clone());
    let review = reviews.create(&PostParams::default(), &review).await;
    let review = review.map_err(|error| cluster_error("check your rights", error))?;
    Ok(review.status.is_some_and(|status| status.allowed))
}
