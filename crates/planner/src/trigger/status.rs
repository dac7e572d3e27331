//! The status of a trigger after a plan was carried out, as every release of the operator wrote it.
//!
//! Both notations are kept: the first releases' `latestEvent` and single condition, the last ones'
//! blocks. What could not be started leaves the memory of what was, so that it is tried again.

mod ready;
mod signals;

use api::{
    Condition,
    tekton::Progress,
    trigger::{
        BranchState, Branches, GitRepositoryState, ImagePolicyState, PipelineTriggerStatus,
        TriggerSourceKind,
    },
};

use super::{
    Plan,
    conditions::{self, Pen, last, withdraw},
    event::{Event, Subject},
    lane::{Lane, Verdict},
    memory::branch_key,
    seen::Seen,
    words::Outcome,
};

pub use signals::{Signal, signals};

/// Under this name the operator noted errors of a PullRequest that has no branches yet.
const NO_BRANCH: &str = "null";
/// Branches that went away are remembered, because their source forgets and recalls them.
const REMEMBERED_BRANCHES: usize = 100;

/// The status after a plan was carried out.
pub fn status(seen: &Seen<'_>, plan: &Plan, outcome: &Outcome) -> PipelineTriggerStatus {
    let mut status = seen.trigger.status.clone().unwrap_or_default();
    let scribe = Scribe {
        seen,
        plan,
        outcome,
        pen: Pen {
            generation: seen.trigger.metadata.generation,
            now: seen.now,
        },
    };
    status.observed_generation = seen.trigger.metadata.generation;
    scribe.leave_other_kinds(&mut status);
    scribe.note_lanes(&mut status);
    scribe.follow_runs(&mut status);
    scribe.note_trouble(&mut status);
    scribe.forget_branches(&mut status);
    if plan.request.is_some() && scribe.request_is_done() {
        status.last_handled_reconcile_at.clone_from(&plan.request);
    }
    ready::sum_up(&scribe, &mut status);
    status
}

struct Scribe<'a> {
    seen: &'a Seen<'a>,
    plan: &'a Plan,
    outcome: &'a Outcome,
    pen: Pen,
}

impl Scribe<'_> {
    fn kind(&self) -> TriggerSourceKind {
        self.seen.trigger.spec.source.kind
    }

    fn leave_other_kinds(&self, status: &mut PipelineTriggerStatus) {
        if self.kind() != TriggerSourceKind::GitRepository {
            status.git_repository = None;
        }
        if self.kind() != TriggerSourceKind::ImagePolicy {
            status.image_policy = None;
        }
        if self.kind() != TriggerSourceKind::PullRequest {
            status.branches = None;
        }
    }

    fn note_lanes(&self, status: &mut PipelineTriggerStatus) {
        let before = status.clone();
        for lane in &self.plan.lanes {
            match &lane.verdict {
                Verdict::Start { run, retry, .. } => match self.outcome.failure(run) {
                    None => {
                        self.note_run(status, &before, lane, run);
                        status.current_pipeline_retry = self.shows_retries().then_some(*retry);
                    }
                    Some(because) => self.note_error(status, &before, lane, because),
                },
                Verdict::Follow { run: Some(run) } => self.note_run(status, &before, lane, run),
                Verdict::Refuse { message } => self.note_error(status, &before, lane, message),
                Verdict::Follow { run: None } | Verdict::Hold { .. } => {
                    withdraw(self.conditions(status, &before, lane), conditions::ERROR);
                }
            }
        }
    }

    fn shows_retries(&self) -> bool {
        let pipeline = self.seen.trigger.spec.pipeline.as_ref();
        pipeline.is_some_and(|pipeline| pipeline.retries.is_some())
    }

    /// The event has this run; the list of conditions starts anew unless it is about that run.
    fn note_run(
        &self,
        status: &mut PipelineTriggerStatus,
        before: &PipelineTriggerStatus,
        lane: &Lane,
        run: &str,
    ) {
        let event = &lane.event;
        let is_known = noted_run(before, event, &self.events()).as_deref() == Some(run);
        let started = matches!(lane.verdict, Verdict::Start { .. });
        if started || event.lane().is_none() {
            status.latest_event = Some(event.text.clone());
            status.latest_pipeline_run = Some(run.to_owned());
        }
        self.note_identity(status, before, event, run);
        let list = self.conditions(status, before, lane);
        withdraw(list, conditions::ERROR);
        if !is_known || list.is_empty() {
            self.pen.submitted(list);
        }
    }

    fn note_identity(
        &self,
        status: &mut PipelineTriggerStatus,
        before: &PipelineTriggerStatus,
        event: &Event,
        run: &str,
    ) {
        match &event.subject {
            Subject::Artifact { repository, .. } => {
                // Only a GitRepository has a block; what other kinds are at is `latestEvent`.
                if self.kind() == TriggerSourceKind::GitRepository {
                    let block = status.git_repository.get_or_insert_default();
                    *block = git_state(event, repository, run, &mut block.conditions);
                }
            }
            Subject::Image { .. } => {
                let block = status.image_policy.get_or_insert_default();
                *block = image_state(event, run, &mut block.conditions);
            }
            Subject::PullRequest { branch, commit, .. } => {
                let key = branch_key(before, event, &self.events()).unwrap_or_default();
                let Branches { branch: entries } = status.branches.get_or_insert_default();
                let entry = entries.entry(key).or_default();
                entry.name.clone_from(branch);
                entry.commit = given(commit);
                entry.latest_pipeline_run = given(run);
                entry.details = None;
            }
        }
    }

    fn note_error(
        &self,
        status: &mut PipelineTriggerStatus,
        before: &PipelineTriggerStatus,
        lane: &Lane,
        because: &str,
    ) {
        self.pen
            .error(self.conditions(status, before, lane), because);
    }

    /// Where the conditions of a lane are: in the block of the source's kind, at the top without one.
    fn conditions<'s>(
        &self,
        status: &'s mut PipelineTriggerStatus,
        before: &PipelineTriggerStatus,
        lane: &Lane,
    ) -> &'s mut Vec<Condition> {
        match self.kind() {
            TriggerSourceKind::GitRepository => {
                &mut status.git_repository.get_or_insert_default().conditions
            }
            TriggerSourceKind::ImagePolicy => {
                &mut status.image_policy.get_or_insert_default().conditions
            }
            TriggerSourceKind::PullRequest => {
                let key = branch_key(before, &lane.event, &self.events()).unwrap_or_default();
                let branches = &mut status.branches.get_or_insert_default().branch;
                let entry = branches.entry(key).or_default();
                if entry.name.is_empty() {
                    entry.name = lane.event.lane().unwrap_or_default().to_owned();
                }
                &mut entry.conditions
            }
            _ => &mut status.conditions,
        }
    }

    fn events(&self) -> Vec<Event> {
        self.plan
            .lanes
            .iter()
            .map(|lane| lane.event.clone())
            .collect()
    }

    /// Mirrors the progress of the runs that the status names.
    fn follow_runs(&self, status: &mut PipelineTriggerStatus) {
        let has_block = matches!(
            self.kind(),
            TriggerSourceKind::GitRepository
                | TriggerSourceKind::ImagePolicy
                | TriggerSourceKind::PullRequest
        );
        if let Some(block) = &mut status.git_repository {
            self.follow(block.latest_pipeline_run.as_deref(), &mut block.conditions);
        }
        if let Some(block) = &mut status.image_policy {
            self.follow(block.latest_pipeline_run.as_deref(), &mut block.conditions);
        }
        for branch in status
            .branches
            .iter_mut()
            .flat_map(|all| all.branch.values_mut())
        {
            self.follow(
                branch.latest_pipeline_run.as_deref(),
                &mut branch.conditions,
            );
        }
        if !has_block {
            let run = status.latest_pipeline_run.clone();
            self.follow(run.as_deref(), &mut status.conditions);
        }
    }

    fn follow(&self, run: Option<&str>, list: &mut Vec<Condition>) {
        if let Some(progress) = self.progress(run) {
            // What the operator said when it could not read a run's status.
            withdraw(list, "False");
            self.pen.progress(list, &progress);
        }
    }

    fn progress(&self, run: Option<&str>) -> Option<Progress> {
        let runs = &mut self.seen.runs.iter();
        let run = runs.find(|known| Some(known.name.as_str()) == run)?;
        Some(run.progress.clone())
    }

    fn note_trouble(&self, status: &mut PipelineTriggerStatus) {
        if let Some(all) = &mut status.branches {
            all.branch.remove(NO_BRANCH);
        }
        let Some(trouble) = &self.plan.trouble else {
            return self.withdraw_trouble(status);
        };
        let message = trouble.message.as_str();
        match self.kind() {
            TriggerSourceKind::GitRepository => {
                let block = status.git_repository.get_or_insert_default();
                self.pen.error(&mut block.conditions, message);
            }
            TriggerSourceKind::ImagePolicy => {
                let block = status.image_policy.get_or_insert_default();
                self.pen.error(&mut block.conditions, message);
            }
            TriggerSourceKind::PullRequest => {
                let branches = &mut status.branches.get_or_insert_default().branch;
                if branches.is_empty() {
                    branches.insert(NO_BRANCH.to_owned(), BranchState::default());
                }
                for branch in branches.values_mut() {
                    self.pen.error(&mut branch.conditions, message);
                }
            }
            _ => self.pen.error(&mut status.conditions, message),
        }
    }

    /// Branches that the source does not show now have no lane to withdraw their error.
    fn withdraw_trouble(&self, status: &mut PipelineTriggerStatus) {
        for branch in status
            .branches
            .iter_mut()
            .flat_map(|all| all.branch.values_mut())
        {
            let is_shown = self
                .plan
                .lanes
                .iter()
                .any(|lane| lane.event.lane() == Some(&branch.name));
            if !is_shown {
                withdraw(&mut branch.conditions, conditions::ERROR);
            }
        }
    }

    /// Keeps what the source shows and the newest of the rest.
    fn forget_branches(&self, status: &mut PipelineTriggerStatus) {
        let Some(all) = &mut status.branches else {
            return;
        };
        let is_shown = |state: &BranchState| {
            let mut lanes = self.plan.lanes.iter();
            lanes.any(|lane| lane.event.lane() == Some(&state.name))
        };
        let age = |state: &BranchState| last(&state.conditions).map(|c| c.last_transition_time.0);
        let mut gone: Vec<_> = all
            .branch
            .iter()
            .filter(|(_, state)| !is_shown(state))
            .collect();
        gone.sort_by_key(|(key, state)| (age(state), (*key).clone()));
        let surplus = gone.len().saturating_sub(REMEMBERED_BRANCHES);
        let surplus: Vec<String> = gone[..surplus]
            .iter()
            .map(|(key, _)| (*key).clone())
            .collect();
        all.branch.retain(|key, _| !surplus.contains(key));
    }

    /// A request is dealt with once every event has its run or can never have one.
    fn request_is_done(&self) -> bool {
        let is_done = |lane: &Lane| match &lane.verdict {
            Verdict::Start { run, .. } => self.outcome.failure(run).is_none(),
            Verdict::Follow { .. } | Verdict::Refuse { .. } => true,
            Verdict::Hold { reason, .. } => *reason == "Filtered",
        };
        !self.plan.lanes.is_empty() && self.plan.lanes.iter().all(is_done)
    }
}

/// The run that the status names for an event's lane.
fn noted_run(status: &PipelineTriggerStatus, event: &Event, all: &[Event]) -> Option<String> {
    match &event.subject {
        Subject::PullRequest { .. } => {
            let key = branch_key(status, event, all)?;
            let entry = status.branches.as_ref()?.branch.get(&key)?;
            entry.latest_pipeline_run.clone()
        }
        Subject::Image { .. } => status.image_policy.as_ref()?.latest_pipeline_run.clone(),
        Subject::Artifact { .. } => match &status.git_repository {
            Some(block) => block.latest_pipeline_run.clone(),
            None => status.latest_pipeline_run.clone(),
        },
    }
}

fn given(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn git_state(
    event: &Event,
    repository: &str,
    run: &str,
    conditions: &mut Vec<Condition>,
) -> GitRepositoryState {
    GitRepositoryState {
        branch_name: event.branch().and_then(given),
        commit_id: event.commit().and_then(given),
        repository_name: given(repository),
        latest_pipeline_run: given(run),
        details: event.details(),
        conditions: std::mem::take(conditions),
    }
}

fn image_state(event: &Event, run: &str, conditions: &mut Vec<Condition>) -> ImagePolicyState {
    let Subject::Image {
        image,
        name,
        repository,
    } = &event.subject
    else {
        return ImagePolicyState::default();
    };
    ImagePolicyState {
        repository_name: given(repository),
        image_name: given(name),
        image_version: image.tag().and_then(given),
        latest_pipeline_run: given(run),
        details: event.details(),
        conditions: std::mem::take(conditions),
    }
}
