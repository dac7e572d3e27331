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

/// What people do, with the verb and the resource that it needs everywhere.
const RIGHTS: [(&str, &str, &str, Command); 5] = [
    ("list", "pipelines", "see pipelines", Command::Reads),
    ("list", "promotions", "see promotions", Command::Reads),
    ("approve", "pipelines", "approve", Command::EditsPromotion),
    (
        "promote",
        "pipelines",
        "promote and roll back",
        Command::EditsPipeline,
    ),
    ("suspend", "pipelines", "suspend", Command::EditsPipeline),
];

/// How a command does it. Dashboard and REST edit objects with an account of their own.
#[derive(Clone, Copy, PartialEq)]
enum Command {
    Reads,
    EditsPromotion,
    EditsPipeline,
}

impl Command {
    /// The resource that it patches.
    fn patches(self) -> Option<&'static str> {
        match self {
            Self::Reads => None,
            Self::EditsPromotion => Some("promotions"),
            Self::EditsPipeline => Some("pipelines"),
        }
    }
}

/// What the caller may do.
#[derive(Default)]
struct Rights {
    may: Vec<&'static str>,
    /// On the dashboard and by REST, but not with commands.
    elsewhere: Vec<&'static str>,
    may_not: Vec<&'static str>,
}

pub(super) async fn check(cluster: &Cluster, namespace: &str) -> anyhow::Result<Vec<Check>> {
    let mut rights = Rights::default();
    for (verb, resource, text, command) in RIGHTS {
        if !is_allowed(cluster, namespace, verb, resource).await? {
            rights.may_not.push(text);
            continue;
        }
        let may_edit = match command.patches() {
            None => true,
            Some(resource) => is_allowed(cluster, namespace, "patch", resource).await?,
        };
        match may_edit {
            true => rights.may.push(text),
            false => rights.elsewhere.push(text),
        }
    }
    let user = cluster.caller().await?;
    let subject = format!("rights of {user} in namespace {namespace}");
    Ok(vec![match rights.text() {
        (true, text) => Check::passed(subject, text),
        (false, text) => Check::warning(subject, text),
    }])
}

impl Rights {
    /// Whether that is everything, and what it is.
    fn text(&self) -> (bool, String) {
        let may = match self.may.is_empty() {
            true => "nothing".to_owned(),
            false => self.may.join(", "),
        };
        let mut text = format!("may {may}");
        if !self.elsewhere.is_empty() {
            text += &format!(
                "; may {} on the dashboard and by REST only: the commands edit the Pipeline or \
                 the Promotion, which needs the right to patch it",
                self.elsewhere.join(", ")
            );
        }
        if !self.may_not.is_empty() {
            text += &format!(
                "; may not {}; ask for one of the ClusterRoles pipeline-controller-viewer, -approver or -editor",
                self.may_not.join(", ")
            );
        }
        (self.elsewhere.is_empty() && self.may_not.is_empty(), text)
    }
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
