//! What a promotion would propose, by the same rules, without carrying anything out.

use api::{
    Pipeline, Promotion,
    app::Kind,
    names::Place,
    pipeline::{ClusterAppReference, ClusterReference, TargetStatus},
    promotion::{PromotionSpec, PromotionTarget},
    revision::SourceRevision,
};
use git::propose::Proposal;
use planner::Failure;

use super::{
    Task,
    words::{Change, Words},
};

/// The repository, and the change that a promotion of a revision into a place would make there.
/// Nothing where the strategy changes no repository. Targets that nobody has observed yet count as
/// they are written.
pub fn proposal(
    pipeline: &Pipeline,
    place: &Place,
    revision: &str,
) -> Option<Result<(String, Proposal), Failure>> {
    let settings = pipeline.spec.promotion_into(&place.environment)?;
    let change = Change::of(&settings.strategy)?;
    let mut pipeline = pipeline.clone();
    assume_targets(&mut pipeline);
    let target = place.target.clone();
    let promotion = Promotion {
        spec: PromotionSpec {
            environment: place.environment.clone(),
            version: version(&pipeline, revision),
            revision: revision.to_owned(),
            target: target.map(|(cluster, namespace)| PromotionTarget {
                cluster,
                namespace,
                cluster_namespace: None,
            }),
            ..PromotionSpec::default()
        },
        ..Promotion::default()
    };
    let task = Task {
        pipeline: &pipeline,
        promotion: &promotion,
    };
    Some(Words::of(task, &change).map(|words| (change.url.to_owned(), words.proposal)))
}

/// What would be written for a revision: for one of a source its tag, else its commit or digest.
fn version(pipeline: &Pipeline, revision: &str) -> String {
    let app = pipeline.spec.app_ref.clone().unwrap_or_default();
    let is_source = Kind::of(&app.api_version, &app.kind) == Kind::Kustomization;
    let source = SourceRevision::parse(revision);
    let is_content = source.digest().is_some_and(|it| it.starts_with("sha256:"));
    let version = match is_content {
        true => source.oci_version(),
        false => source.git_version().map(str::to_owned),
    };
    let version = version.filter(|_| is_source && pipeline.spec.track.is_none());
    version.unwrap_or_else(|| revision.to_owned())
}

/// Has every environment list its targets.
fn assume_targets(pipeline: &mut Pipeline) {
    let names: Vec<String> = pipeline
        .spec
        .environments
        .iter()
        .map(|it| it.name.clone())
        .collect();
    for name in names {
        let targets = planner::targets_of(pipeline, &name).into_iter();
        let assumed = targets.map(|(cluster, namespace)| TargetStatus {
            cluster_app_ref: Some(ClusterAppReference {
                cluster_ref: cluster.map(|name| ClusterReference {
                    name,
                    ..ClusterReference::default()
                }),
                ..ClusterAppReference::default()
            }),
            namespace: Some(namespace),
            ..TargetStatus::default()
        });
        let assumed: Vec<TargetStatus> = assumed.collect();
        let status = pipeline.status.get_or_insert_default();
        let environment = status.environments.entry(name).or_default();
        if environment.targets.is_empty() {
            environment.targets = assumed;
        }
    }
}
