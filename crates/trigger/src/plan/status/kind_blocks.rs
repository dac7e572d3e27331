//! The block of the status that each source kind has: what it records of an event and its run.

use api::{
    Condition,
    trigger::{GitRepositoryState, ImagePolicyState, PipelineTriggerStatus, TriggerSourceKind},
};

use super::super::{
    event::{EventSubject, SourceEvent},
    event_record::branch_key,
};

/// Whether a source kind has a block of its own in the status.
pub(super) fn has_block(kind: TriggerSourceKind) -> bool {
    matches!(
        kind,
        TriggerSourceKind::GitRepository
            | TriggerSourceKind::ImagePolicy
            | TriggerSourceKind::PullRequest
    )
}

/// The run that the status records for an event's source or branch.
pub(super) fn recorded_run(
    status: &PipelineTriggerStatus,
    event: &SourceEvent,
    all: &[SourceEvent],
) -> Option<String> {
    match &event.subject {
        EventSubject::PullRequest { .. } => {
            let key = branch_key(status, event, all)?;
            let entry = status.branches.as_ref()?.branch.get(&key)?;
            entry.latest_pipeline_run.clone()
        }
        EventSubject::Image { .. } => status.image_policy.as_ref()?.latest_pipeline_run.clone(),
        EventSubject::Artifact { .. } => match &status.git_repository {
            Some(block) => block.latest_pipeline_run.clone(),
            None => status.latest_pipeline_run.clone(),
        },
    }
}

pub(super) fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

pub(super) fn git_state(
    event: &SourceEvent,
    repository: &str,
    run: &str,
    conditions: &mut Vec<Condition>,
) -> GitRepositoryState {
    GitRepositoryState {
        branch_name: event.branch().and_then(non_empty),
        commit_id: event.commit().and_then(non_empty),
        repository_name: non_empty(repository),
        latest_pipeline_run: non_empty(run),
        details: event.details(),
        conditions: std::mem::take(conditions),
    }
}

pub(super) fn image_state(
    event: &SourceEvent,
    run: &str,
    conditions: &mut Vec<Condition>,
) -> ImagePolicyState {
    let EventSubject::Image {
        image,
        name,
        repository,
    } = &event.subject
    else {
        return ImagePolicyState::default();
    };
    ImagePolicyState {
        repository_name: non_empty(repository),
        image_name: non_empty(name),
        image_version: image.tag().and_then(non_empty),
        latest_pipeline_run: non_empty(run),
        details: event.details(),
        conditions: std::mem::take(conditions),
    }
}
