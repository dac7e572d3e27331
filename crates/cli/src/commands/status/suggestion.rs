//! The command that resolves the state of an environment.

use api::{Pipeline, Promotion, pipeline::PipelineStatus};
use planner::{SuggestedAction, SummaryState};

use super::super::cluster::{Cluster, key};

/// The promotions of a pipeline, and who reads about them: whoever has approved a promotion is not told to.
#[derive(Debug, Default)]
pub(in crate::commands) struct WaitingPromotions {
    promotions: Vec<Promotion>,
    /// None where the cluster does not say.
    user: Option<String>,
}

impl WaitingPromotions {
    /// Those of a pipeline, if one of them waits for approval.
    pub(in crate::commands) async fn of(cluster: &Cluster, pipeline: &Pipeline) -> Self {
        let model = pipeline.status.clone().unwrap_or_default();
        let mut names = pipeline.spec.environments.iter().map(|it| &it.name);
        let waits = |name: &String| {
            let state = planner::environment_state(pipeline, &model, name);
            state == SummaryState::AwaitingApproval
        };
        if !names.any(waits) {
            return Self::default();
        }
        // Without them, the command is suggested to everybody.
        let promotions = cluster.promotions(pipeline).await.unwrap_or_default();
        let user = cluster.caller().await.ok();
        Self { promotions, user }
    }

    /// Whether the promotions into an environment wait for somebody else.
    fn need_another_person(&self, pipeline: &Pipeline, environment: &str) -> bool {
        let (_, name) = key(pipeline);
        let waiting = planner::approvable(&self.promotions, name, environment);
        let is_others = |user: &String| {
            let mut waiting = waiting.iter();
            waiting.all(|it| planner::needs_another_person(it, pipeline, user))
        };
        !waiting.is_empty() && self.user.as_ref().is_some_and(is_others)
    }
}

/// The command that helps an environment, or who can. What failed or was rejected is named with that.
pub(in crate::commands) fn suggested_command(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    environment: &str,
    waiting: &WaitingPromotions,
) -> Option<String> {
    let (namespace, name) = key(pipeline);
    let mut intent = "try".to_owned();
    let command = match planner::suggested_action(pipeline, model, environment)? {
        SuggestedAction::Approve if waiting.need_another_person(pipeline, environment) => {
            return Some("another person must approve it".to_owned());
        }
        SuggestedAction::Approve => format!("approve {name} {environment}"),
        SuggestedAction::Resume => format!("resume {name} {environment}"),
        SuggestedAction::RollBack(earlier) => format!("rollback {name} {environment} {earlier}"),
        SuggestedAction::RequestNevertheless { revision, caution } => {
            intent = format!("to bring {revision} although it {caution}");
            format!("promote {name} {environment} {revision}")
        }
    };
    Some(format!("{intent}: sluice {command} -n {namespace}"))
}
