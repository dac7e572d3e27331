//! Reads from a trigger's status whether an event was handled, and by which run.
//!
//! Understands what any release of the trigger operator wrote: `latestEvent` of the first releases,
//! the block per source kind of the last ones, and both together.

use api::{
    image::Image,
    revision::SourceRevision,
    trigger::{PipelineTriggerStatus, TriggerSourceKind},
};

use super::event::{EventSubject, SourceEvent};

/// What the first releases wrote as the run's name between recording an event and starting its run.
const NO_RUN_YET: &str = "Unknown";
/// The condition types that are written only after a run was started.
const RUN_CONDITION_TYPES: [&str; 3] = ["Unknown", "InProgress", "Success"];

/// What a status records about an event, or about the one before it of the same pull request branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventRecord {
    /// Whether the event itself was handled.
    pub(crate) is_handled: bool,
    /// The newest run.
    pub(crate) run: Option<String>,
    /// The revision that run was started for.
    pub(crate) revision: Option<String>,
}

/// What a status records about one of the events that the source has now.
pub(crate) fn record_of(
    kind: TriggerSourceKind,
    status: &PipelineTriggerStatus,
    event: &SourceEvent,
    all: &[SourceEvent],
) -> EventRecord {
    match kind {
        TriggerSourceKind::PullRequest => recorded_branch(status, event, all),
        TriggerSourceKind::GitRepository if has_git_record(status) => recorded_git(status, event),
        TriggerSourceKind::ImagePolicy if has_image_record(status) => recorded_image(status, event),
        _ => recorded_latest(status, event),
    }
}

/// A block may hold nothing but an error; then `latestEvent` of the first releases still counts.
fn has_git_record(status: &PipelineTriggerStatus) -> bool {
    let block = status.git_repository.as_ref();
    block.is_some_and(|block| block.branch_name.is_some() || block.commit_id.is_some())
}

fn has_image_record(status: &PipelineTriggerStatus) -> bool {
    let block = status.image_policy.as_ref();
    block.is_some_and(|block| block.image_name.is_some())
}

/// The key of a pull request branch in `status.branches`. Branches of different forks may have the
/// same name; the second one's key contains its commit.
pub(crate) fn branch_key(
    status: &PipelineTriggerStatus,
    event: &SourceEvent,
    all: &[SourceEvent],
) -> Option<String> {
    let branch = event.pull_request_branch()?;
    let existing = status.branches.iter().flat_map(|all| &all.branch);
    let mut same = existing
        .filter(|(_, state)| state.name == branch && state.commit.as_deref() == event.commit())
        .map(|(key, _)| key.clone());
    if let Some(key) = same.next_back() {
        return Some(key);
    }
    let entry = status
        .branches
        .as_ref()
        .and_then(|all| all.branch.get(branch));
    let holder = entry.and_then(|entry| entry.commit.as_deref());
    let others = || {
        all.iter()
            .filter(|other| other.pull_request_branch() == Some(branch))
    };
    let is_taken = others().any(|other| holder.is_some() && other.commit() == holder)
        || others().next().is_some_and(|first| first.key != event.key);
    let short = event.short_commit().unwrap_or_default();
    Some(if is_taken {
        format!("{branch}@{short}")
    } else {
        branch.to_owned()
    })
}

fn recorded_branch(
    status: &PipelineTriggerStatus,
    event: &SourceEvent,
    all: &[SourceEvent],
) -> EventRecord {
    let entry = branch_key(status, event, all)
        .and_then(|key| status.branches.as_ref()?.branch.get(&key))
        .cloned();
    let Some(entry) = entry else {
        return EventRecord::default();
    };
    let is_same = entry.commit.as_deref() == event.commit();
    let types = entry.conditions.iter().map(|condition| &condition.type_);
    let run = started(entry.latest_pipeline_run.as_deref());
    EventRecord {
        is_handled: is_same && was_started(run.as_deref(), types),
        revision: entry.commit.clone(),
        run,
    }
}

fn recorded_git(status: &PipelineTriggerStatus, event: &SourceEvent) -> EventRecord {
    let block = status.git_repository.clone().unwrap_or_default();
    let EventSubject::Artifact { repository, .. } = &event.subject else {
        return EventRecord::default();
    };
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let is_same = text(&block.branch_name) == event.branch().unwrap_or_default()
        && text(&block.commit_id) == event.commit().unwrap_or_default()
        && text(&block.repository_name) == *repository;
    let types = block.conditions.iter().map(|condition| &condition.type_);
    let run = started(block.latest_pipeline_run.as_deref());
    EventRecord {
        is_handled: is_same && was_started(run.as_deref(), types),
        revision: status.latest_event.clone(),
        run,
    }
}

fn recorded_image(status: &PipelineTriggerStatus, event: &SourceEvent) -> EventRecord {
    let block = status.image_policy.clone().unwrap_or_default();
    let EventSubject::Image {
        image,
        name,
        repository,
    } = &event.subject
    else {
        return EventRecord::default();
    };
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let is_same = text(&block.image_name) == *name
        && text(&block.repository_name) == *repository
        && text(&block.image_version) == image.tag().unwrap_or_default();
    // A digest that is known now but was not recorded before is no new event.
    let latest = status.latest_event.as_deref().and_then(Image::parse);
    let before = latest.as_ref().and_then(Image::digest);
    let is_repushed = before.is_some() && image.digest().is_some() && before != image.digest();
    let types = block.conditions.iter().map(|condition| &condition.type_);
    let run = started(block.latest_pipeline_run.as_deref());
    EventRecord {
        is_handled: is_same && !is_repushed && was_started(run.as_deref(), types),
        revision: status.latest_event.clone(),
        run,
    }
}

fn recorded_latest(status: &PipelineTriggerStatus, event: &SourceEvent) -> EventRecord {
    let latest = status.latest_event.as_deref().unwrap_or_default();
    let is_same = match &event.subject {
        EventSubject::Artifact { .. } => SourceRevision::parse(latest).to_string() == event.key,
        _ => latest == event.key,
    };
    let run = started(status.latest_pipeline_run.as_deref());
    EventRecord {
        is_handled: is_same && run.is_some(),
        revision: status.latest_event.clone(),
        run,
    }
}

fn started(run: Option<&str>) -> Option<String> {
    run.filter(|run| !run.is_empty() && *run != NO_RUN_YET)
        .map(str::to_owned)
}

/// The last releases of the operator could record an event without the name of its run.
fn was_started<'a>(run: Option<&str>, mut types: impl Iterator<Item = &'a String>) -> bool {
    run.is_some() || types.any(|type_| RUN_CONDITION_TYPES.contains(&type_.as_str()))
}
