//! Computes the status of a trigger after a plan was carried out, in the formats of the trigger operator.
//!
//! Both formats are written: `latestEvent` and the single condition of the first releases, and the
//! block per source kind of the last ones. An event whose run could not be created is not recorded as
//! handled, so that it is retried.

mod condition_samples;
mod kind_blocks;
mod ready;

use api::{
    Condition,
    tekton::Progress,
    trigger::{BranchState, Branches, PipelineTriggerStatus, TriggerSourceKind},
};

use super::{
    TriggerPlan,
    conditions::{self, ConditionWriter, newest, remove_condition},
    decision::{PlannedEvent, RunDecision},
    event::{EventSubject, SourceEvent},
    event_record::branch_key,
    kubernetes_events::CreateFailures,
    observed::ObservedTrigger,
};

use kind_blocks::{git_state, has_block, image_state, non_empty, recorded_run};

pub use condition_samples::{ConditionSample, condition_samples};

/// The key under which the operator wrote errors of a PullRequest that has no branches yet.
const NO_BRANCH: &str = "null";
/// How many branches without a pull request stay recorded: sources drop branches temporarily.
const KEPT_CLOSED_BRANCHES: usize = 100;

/// The status after a plan was carried out.
pub fn status(
    observed: &ObservedTrigger<'_>,
    plan: &TriggerPlan,
    failures: &CreateFailures,
) -> PipelineTriggerStatus {
    let mut status = observed.trigger.status.clone().unwrap_or_default();
    let writer = TriggerStatusWriter {
        observed,
        plan,
        failures,
        condition_writer: ConditionWriter {
            generation: observed.trigger.metadata.generation,
            now: observed.now,
        },
    };
    status.observed_generation = observed.trigger.metadata.generation;
    writer.clear_other_kinds(&mut status);
    writer.write_events(&mut status);
    writer.write_progress(&mut status);
    writer.write_problem(&mut status);
    writer.drop_old_branches(&mut status);
    if plan.request.is_some() && writer.request_is_handled() {
        status.last_handled_reconcile_at.clone_from(&plan.request);
    }
    ready::write_top_conditions(&writer, &mut status);
    status
}

struct TriggerStatusWriter<'a> {
    observed: &'a ObservedTrigger<'a>,
    plan: &'a TriggerPlan,
    failures: &'a CreateFailures,
    condition_writer: ConditionWriter,
}

impl TriggerStatusWriter<'_> {
    fn kind(&self) -> TriggerSourceKind {
        self.observed.trigger.spec.source.kind
    }

    fn clear_other_kinds(&self, status: &mut PipelineTriggerStatus) {
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

    fn write_events(&self, status: &mut PipelineTriggerStatus) {
        let before = status.clone();
        for planned in &self.plan.planned_events {
            match &planned.decision {
                RunDecision::Start { run, retry, .. } => match self.failures.of(run) {
                    None => {
                        self.write_run(status, &before, planned, run);
                        status.current_pipeline_retry = self.shows_retries().then_some(*retry);
                    }
                    Some(because) => self.write_error(status, &before, planned, because),
                },
                RunDecision::Follow { run: Some(run) } => {
                    self.write_run(status, &before, planned, run)
                }
                RunDecision::Refuse { message } => {
                    self.write_error(status, &before, planned, message)
                }
                RunDecision::Follow { run: None } | RunDecision::Hold { .. } => {
                    remove_condition(self.conditions(status, &before, planned), conditions::ERROR);
                }
            }
        }
    }

    fn shows_retries(&self) -> bool {
        let pipeline = self.observed.trigger.spec.pipeline.as_ref();
        pipeline.is_some_and(|pipeline| pipeline.retries.is_some())
    }

    /// Records the run of an event. The conditions are replaced unless they are about that run.
    fn write_run(
        &self,
        status: &mut PipelineTriggerStatus,
        before: &PipelineTriggerStatus,
        planned: &PlannedEvent,
        run: &str,
    ) {
        let event = &planned.event;
        let is_known = recorded_run(before, event, &self.events()).as_deref() == Some(run);
        let started = matches!(planned.decision, RunDecision::Start { .. });
        if started || event.pull_request_branch().is_none() {
            status.latest_event = Some(event.text.clone());
            status.latest_pipeline_run = Some(run.to_owned());
        }
        self.write_identity(status, before, event, run);
        let list = self.conditions(status, before, planned);
        remove_condition(list, conditions::ERROR);
        if !is_known || list.is_empty() {
            self.condition_writer.submitted(list);
        }
    }

    fn write_identity(
        &self,
        status: &mut PipelineTriggerStatus,
        before: &PipelineTriggerStatus,
        event: &SourceEvent,
        run: &str,
    ) {
        match &event.subject {
            EventSubject::Artifact { repository, .. } => {
                // Of the kinds with artifacts only GitRepository has a block; others use `latestEvent`.
                if self.kind() == TriggerSourceKind::GitRepository {
                    let block = status.git_repository.get_or_insert_default();
                    *block = git_state(event, repository, run, &mut block.conditions);
                }
            }
            EventSubject::Image { .. } => {
                let block = status.image_policy.get_or_insert_default();
                *block = image_state(event, run, &mut block.conditions);
            }
            EventSubject::PullRequest { branch, commit, .. } => {
                let key = branch_key(before, event, &self.events()).unwrap_or_default();
                let Branches { branch: entries } = status.branches.get_or_insert_default();
                let entry = entries.entry(key).or_default();
                entry.name.clone_from(branch);
                entry.commit = non_empty(commit);
                entry.latest_pipeline_run = non_empty(run);
                entry.details = None;
            }
        }
    }

    fn write_error(
        &self,
        status: &mut PipelineTriggerStatus,
        before: &PipelineTriggerStatus,
        planned: &PlannedEvent,
        because: &str,
    ) {
        self.condition_writer
            .error(self.conditions(status, before, planned), because);
    }

    /// The conditions for an event: in the block of the source's kind, or top-level if it has none.
    fn conditions<'s>(
        &self,
        status: &'s mut PipelineTriggerStatus,
        before: &PipelineTriggerStatus,
        planned: &PlannedEvent,
    ) -> &'s mut Vec<Condition> {
        match self.kind() {
            TriggerSourceKind::GitRepository => {
                &mut status.git_repository.get_or_insert_default().conditions
            }
            TriggerSourceKind::ImagePolicy => {
                &mut status.image_policy.get_or_insert_default().conditions
            }
            TriggerSourceKind::PullRequest => {
                let key = branch_key(before, &planned.event, &self.events()).unwrap_or_default();
                let branches = &mut status.branches.get_or_insert_default().branch;
                let entry = branches.entry(key).or_default();
                if entry.name.is_empty() {
                    entry.name = planned
                        .event
                        .pull_request_branch()
                        .unwrap_or_default()
                        .to_owned();
                }
                &mut entry.conditions
            }
            _ => &mut status.conditions,
        }
    }

    fn events(&self) -> Vec<SourceEvent> {
        self.plan
            .planned_events
            .iter()
            .map(|planned| planned.event.clone())
            .collect()
    }

    /// Mirrors the progress of the runs that the status names.
    fn write_progress(&self, status: &mut PipelineTriggerStatus) {
        if let Some(block) = &mut status.git_repository {
            self.write_run_progress(block.latest_pipeline_run.as_deref(), &mut block.conditions);
        }
        if let Some(block) = &mut status.image_policy {
            self.write_run_progress(block.latest_pipeline_run.as_deref(), &mut block.conditions);
        }
        for branch in status
            .branches
            .iter_mut()
            .flat_map(|all| all.branch.values_mut())
        {
            self.write_run_progress(
                branch.latest_pipeline_run.as_deref(),
                &mut branch.conditions,
            );
        }
        if !has_block(self.kind()) {
            let run = status.latest_pipeline_run.clone();
            self.write_run_progress(run.as_deref(), &mut status.conditions);
        }
    }

    fn write_run_progress(&self, run: Option<&str>, list: &mut Vec<Condition>) {
        if let Some(progress) = self.progress(run) {
            // The operator set this type when it could not read the status of a run.
            remove_condition(list, "False");
            self.condition_writer.progress(list, &progress);
        }
    }

    fn progress(&self, run: Option<&str>) -> Option<Progress> {
        let runs = &mut self.observed.runs.iter();
        let run = runs.find(|existing| Some(existing.name.as_str()) == run)?;
        Some(run.progress.clone())
    }

    fn write_problem(&self, status: &mut PipelineTriggerStatus) {
        if let Some(all) = &mut status.branches {
            all.branch.remove(NO_BRANCH);
        }
        let Some(problem) = &self.plan.problem else {
            return self.remove_problem(status);
        };
        let message = problem.message.as_str();
        match self.kind() {
            TriggerSourceKind::GitRepository => {
                let block = status.git_repository.get_or_insert_default();
                self.condition_writer.error(&mut block.conditions, message);
            }
            TriggerSourceKind::ImagePolicy => {
                let block = status.image_policy.get_or_insert_default();
                self.condition_writer.error(&mut block.conditions, message);
            }
            TriggerSourceKind::PullRequest => {
                let branches = &mut status.branches.get_or_insert_default().branch;
                if branches.is_empty() {
                    branches.insert(NO_BRANCH.to_owned(), BranchState::default());
                }
                for branch in branches.values_mut() {
                    self.condition_writer.error(&mut branch.conditions, message);
                }
            }
            _ => self.condition_writer.error(&mut status.conditions, message),
        }
    }

    /// Removes errors of branches that the source no longer lists; those of listed ones are removed
    /// with their event.
    fn remove_problem(&self, status: &mut PipelineTriggerStatus) {
        for branch in status
            .branches
            .iter_mut()
            .flat_map(|all| all.branch.values_mut())
        {
            if !self.is_listed(branch) {
                remove_condition(&mut branch.conditions, conditions::ERROR);
            }
        }
    }

    /// Whether the source lists a branch.
    fn is_listed(&self, branch: &BranchState) -> bool {
        let mut planned_events = self.plan.planned_events.iter();
        planned_events.any(|planned| planned.event.pull_request_branch() == Some(&branch.name))
    }

    /// Keeps the branches that the source lists and the newest of the others.
    fn drop_old_branches(&self, status: &mut PipelineTriggerStatus) {
        let Some(all) = &mut status.branches else {
            return;
        };
        let age = |state: &BranchState| newest(&state.conditions).map(|c| c.last_transition_time.0);
        let mut gone: Vec<_> = all
            .branch
            .iter()
            .filter(|(_, state)| !self.is_listed(state))
            .collect();
        gone.sort_by_key(|(key, state)| (age(state), (*key).clone()));
        let surplus = gone.len().saturating_sub(KEPT_CLOSED_BRANCHES);
        let surplus: Vec<String> = gone[..surplus]
            .iter()
            .map(|(key, _)| (*key).clone())
            .collect();
        all.branch.retain(|key, _| !surplus.contains(key));
    }

    /// A request is handled once every event has its run or can never have one.
    fn request_is_handled(&self) -> bool {
        let is_handled = |planned: &PlannedEvent| match &planned.decision {
            RunDecision::Start { run, .. } => self.failures.of(run).is_none(),
            RunDecision::Follow { .. } | RunDecision::Refuse { .. } => true,
            RunDecision::Hold { reason, .. } => *reason == "Filtered",
        };
        !self.plan.planned_events.is_empty() && self.plan.planned_events.iter().all(is_handled)
    }
}
