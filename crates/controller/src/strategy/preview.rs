//! Computes what a promotion would propose, by the same rules, without carrying it out.

use api::{
    Pipeline, Promotion,
    names::PromotionSite,
    pipeline::{ClusterAppReference, ClusterReference, TargetStatus},
    promotion::{PromotionSpec, PromotionTarget},
};
use git::propose::Proposal;
use planner::Failure;

use super::{
    PromotionTask,
    promotion_proposal::{PromotionProposal, RepositoryStrategy},
};

/// The URL of the repository, and what a promotion of a revision and its version would change there.
/// `None` where the strategy changes no repository. Targets that are not in the status yet are taken
/// from the spec.
pub fn preview_proposal(
    pipeline: &Pipeline,
    place: &PromotionSite,
    (revision, version): (&str, &str),
) -> Option<Result<(String, Proposal), Failure>> {
    let settings = pipeline.spec.promotion_into(&place.environment)?;
    let strategy = RepositoryStrategy::of(&settings.strategy)?;
    let mut pipeline = pipeline.clone();
    add_targets_of_spec(&mut pipeline);
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
    let task = PromotionTask::new(&pipeline, &promotion);
    let preview = PromotionProposal::of(task, &strategy);
    Some(preview.map(|preview| (strategy.url.to_owned(), preview.proposal)))
}

/// Adds the targets of the spec to environments whose status has none.
fn add_targets_of_spec(pipeline: &mut Pipeline) {
    let names: Vec<String> = pipeline
        .spec
        .environments
        .iter()
        .map(|it| it.name.clone())
        .collect();
    for name in names {
        let targets = planner::targets_of(pipeline, &name).into_iter();
        let targets = targets.map(|(cluster, namespace)| TargetStatus {
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
        let status = pipeline.status.get_or_insert_default();
        let environment = status.environments.entry(name).or_default();
        if environment.targets.is_empty() {
            environment.targets = targets.collect();
        }
    }
}
