//! What a promotion would propose, by the same rules, without carrying anything out.

use api::{
    Pipeline, Promotion,
    names::Place,
    pipeline::{ClusterAppReference, ClusterReference, TargetStatus},
    promotion::{PromotionSpec, PromotionTarget},
};
use git::propose::Proposal;
use planner::Failure;

use super::{
    Task,
    words::{Change, Words},
};

/// The repository, and the change that a promotion of a revision and its version into a place would
/// make there. Nothing where the strategy changes no repository. Targets that nobody has observed yet
/// count as they are written.
pub fn proposal(
    pipeline: &Pipeline,
    place: &Place,
    (revision, version): (&str, &str),
) -> Option<Result<(String, Proposal), Failure>> {
    let settings = pipeline.spec.promotion_into(&place.environment)?;
    let change = Change::of(&settings.strategy)?;
    let mut pipeline = pipeline.clone();
    assume_targets(&mut pipeline);
    let target = place.target.clone();
    let promotion = Promotion {
        spec: PromotionSpec {
            environment: place.environment.clone(),
            version: version.to_owned(),
            revision: api::revision::identity(revision).to_owned(),
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
