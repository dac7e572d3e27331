//! What a trigger's status remembers about an event: whether it was dealt with, and by which run.
//!
//! Reads what any release wrote: the first one's `latestEvent`, the last one's blocks, and both.

use api::{
    image::Image,
    revision::SourceRevision,
    trigger::{PipelineTriggerStatus, TriggerSourceKind},
};

use super::event::{Event, Subject};

/// What the first releases wrote between recording an event and starting its run.
const NO_RUN_YET: &str = "Unknown";
/// Conditions that only a run that was started leaves behind.
const LEFT_BY_RUNS: [&str; 3] = ["Unknown", "InProgress", "Success"];

/// What is remembered about the lane of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Past {
    /// The event itself was dealt with.
    pub(crate) is_handled: bool,
    /// The lane's newest run.
    pub(crate) run: Option<String>,
    /// What the lane was at before, or is at now.
    pub(crate) revision: Option<String>,
}

/// What a status remembers about the lane of an event, one of all that the source has now.
pub(crate) fn recall(
    kind: TriggerSourceKind,
    status: &PipelineTriggerStatus,
    event: &Event,
    all: &[Event],
) -> Past {
    match kind {
        TriggerSourceKind::PullRequest => recall_branch(status, event, all),
        TriggerSourceKind::GitRepository if knows_git(status) => recall_git(status, event),
        TriggerSourceKind::ImagePolicy if knows_image(status) => recall_image(status, event),
        _ => recall_latest(status, event),
    }
}

/// A block may hold nothing but an error; then what the first releases wrote still counts.
fn knows_git(status: &PipelineTriggerStatus) -> bool {
    let block = status.git_repository.as_ref();
    block.is_some_and(|block| block.branch_name.is_some() || block.commit_id.is_some())
}

fn knows_image(status: &PipelineTriggerStatus) -> bool {
    let block = status.image_policy.as_ref();
    block.is_some_and(|block| block.image_name.is_some())
}

/// Where a branch of a pull request is remembered. Two requests from different forks may have
/// branches of the same name; the second is told apart by its commit.
pub(crate) fn branch_key(
    status: &PipelineTriggerStatus,
    event: &Event,
    all: &[Event],
) -> Option<String> {
    let branch = event.lane()?;
    let known = status.branches.iter().flat_map(|all| &all.branch);
    let mut same = known
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
    let others = || all.iter().filter(|other| other.lane() == Some(branch));
    let is_taken = others().any(|other| holder.is_some() && other.commit() == holder)
        || others().next().is_some_and(|first| first.key != event.key);
    let short = event.short_commit().unwrap_or_default();
    Some(if is_taken {
        format!("{branch}@{short}")
    } else {
        branch.to_owned()
    })
}

fn recall_branch(status: &PipelineTriggerStatus, event: &Event, all: &[Event]) -> Past {
    let entry = branch_key(status, event, all)
        .and_then(|key| status.branches.as_ref()?.branch.get(&key))
        .cloned();
    let Some(entry) = entry else {
        return Past::default();
    };
    let is_same = entry.commit.as_deref() == event.commit();
    let types = entry.conditions.iter().map(|condition| &condition.type_);
    let run = started(entry.latest_pipeline_run.as_deref());
    Past {
        is_handled: is_same && was_started(run.as_deref(), types),
        revision: entry.commit.clone(),
        run,
    }
}

fn recall_git(status: &PipelineTriggerStatus, event: &Event) -> Past {
    let block = status.git_repository.clone().unwrap_or_default();
    let Subject::Artifact { repository, .. } = &event.subject else {
        return Past::default();
    };
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let is_same = text(&block.branch_name) == event.branch().unwrap_or_default()
        && text(&block.commit_id) == event.commit().unwrap_or_default()
        && text(&block.repository_name) == *repository;
    let types = block.conditions.iter().map(|condition| &condition.type_);
    let run = started(block.latest_pipeline_run.as_deref());
    Past {
        is_handled: is_same && was_started(run.as_deref(), types),
        revision: status.latest_event.clone(),
        run,
    }
}

fn recall_image(status: &PipelineTriggerStatus, event: &Event) -> Past {
    let block = status.image_policy.clone().unwrap_or_default();
    let Subject::Image {
        image,
        name,
        repository,
    } = &event.subject
    else {
        return Past::default();
    };
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let is_same = text(&block.image_name) == *name
        && text(&block.repository_name) == *repository
        && text(&block.image_version) == image.tag().unwrap_or_default();
    // A digest counts where it was known before; otherwise knowing it is not news.
    let latest = status.latest_event.as_deref().and_then(Image::parse);
    let before = latest.as_ref().and_then(Image::digest);
    let is_repushed = before.is_some() && image.digest().is_some() && before != image.digest();
    let types = block.conditions.iter().map(|condition| &condition.type_);
    let run = started(block.latest_pipeline_run.as_deref());
    Past {
        is_handled: is_same && !is_repushed && was_started(run.as_deref(), types),
        revision: status.latest_event.clone(),
        run,
    }
}

fn recall_latest(status: &PipelineTriggerStatus, event: &Event) -> Past {
    let latest = status.latest_event.as_deref().unwrap_or_default();
    let is_same = match &event.subject {
        Subject::Artifact { .. } => SourceRevision::parse(latest).to_string() == event.key,
        _ => latest == event.key,
    };
    let run = started(status.latest_pipeline_run.as_deref());
    Past {
        is_handled: is_same && run.is_some(),
        revision: status.latest_event.clone(),
        run,
    }
}

fn started(run: Option<&str>) -> Option<String> {
    run.filter(|run| !run.is_empty() && *run != NO_RUN_YET)
        .map(str::to_owned)
}

/// The operator's last releases could record an event without its run's name.
fn was_started<'a>(run: Option<&str>, mut types: impl Iterator<Item = &'a String>) -> bool {
    run.is_some() || types.any(|type_| LEFT_BY_RUNS.contains(&type_.as_str()))
}
