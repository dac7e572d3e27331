//! For every hold the way out that it names, taken in the simulation.

use std::time::Duration;

use api::pipeline::RequestKind;
use planner::{EnvironmentPlan, Hold, HoldReason};

use crate::simulation::Simulation;

/// More holds than this in a row are holds without an end.
const MOST: usize = 40;

impl Simulation {
    /// Takes the way out of each hold, one after the other, until nothing is held. Each must help.
    pub(crate) fn take_every_way_out(&mut self) {
        let mut taken = Vec::new();
        for _ in 0..MOST {
            self.settle();
            let Some((hold, revision)) = first_hold(&self.says()) else {
                return;
            };
            self.take_way_out(&hold, &revision);
            self.now += Duration::from_secs(1);
            self.settle();
            let still = first_hold(&self.says());
            let is_held = still.is_some_and(|(still, _)| still == hold);
            assert!(
                !is_held,
                "{revision} is still held: {hold:?}, after {taken:?}"
            );
            taken.push(hold);
        }
        panic!("holds without end: {taken:?}");
    }

    fn settle(&mut self) {
        self.plan(false);
        self.attempt(false);
        self.attempt(false);
        self.plan(false);
    }

    fn says(&self) -> EnvironmentPlan {
        let (pipeline, promotions) = (&self.world.pipeline, &self.world.promotions);
        let plan = planner::plan(pipeline, &self.world.model(), promotions, self.now);
        plan.environments["prod"].clone()
    }

    fn take_way_out(&mut self, hold: &Hold, revision: &str) {
        match hold.reason {
            HoldReason::Suspended => self.world.pipeline.spec.suspend = false,
            HoldReason::TargetUnreachable => self.reach_all("prod"),
            HoldReason::SourceNotDeployed
            | HoldReason::SourceTargetsDiffer
            | HoldReason::SourceNotReady => self.mend_sources(),
            HoldReason::NoCommonRevision => self.agree_on("8.0.0"),
            HoldReason::Soaking => self.now = hold.opens_at.unwrap(),
            HoldReason::Frozen => match hold.opens_at {
                Some(opens_at) => self.now = opens_at,
                None => self.thaw(),
            },
            HoldReason::RequestUnderWay
            | HoldReason::ApprovedUnderWay
            | HoldReason::WaitingForPredecessor => self.end_what_is_under_way(),
            HoldReason::PromotionFailed
            | HoldReason::SourceFailed
            | HoldReason::OlderThanRunning
            | HoldReason::AlreadyRan
            | HoldReason::Rejected => {
                // Without mending what failed there, the request fails as well.
                for truth in self.truth.get_mut("prod").unwrap() {
                    truth.failed = None;
                }
                self.request(RequestKind::Promote, revision);
            }
            HoldReason::SourceNotVerified => self.sign_in_sources(revision),
            HoldReason::Verifying | HoldReason::CheckPending => self.pass_checks(),
            HoldReason::VerificationFailed => self.request(RequestKind::Promote, revision),
            HoldReason::CheckFailed | HoldReason::RollbackNotPossible => {
                self.request(RequestKind::Retry, "");
            }
            HoldReason::AwaitingApproval => {
                let all = (0..4).flat_map(|nth| [(nth, 0), (nth, 1)]);
                all.for_each(|(nth, person)| self.approve(nth, person));
            }
            other => panic!("no way out of {other:?} is tried here: {hold:?}"),
        }
    }

    fn reach_all(&mut self, environment: &str) {
        for truth in self.truth.get_mut(environment).unwrap() {
            truth.reachable = true;
        }
    }

    /// All targets of each source become ready at one revision.
    fn mend_sources(&mut self) {
        for source in self.sources("prod") {
            let targets = &self.truth[&source];
            let (revision, signed) = (targets[0].revision.clone(), targets[0].signed);
            self.mend(&source, &revision, signed);
        }
    }

    /// All sources become ready at the same revision.
    fn agree_on(&mut self, revision: &str) {
        for source in self.sources("prod") {
            self.mend(&source, revision, Some(true));
        }
    }

    fn mend(&mut self, environment: &str, revision: &str, signed: Option<bool>) {
        self.reach_all(environment);
        for truth in self.truth.get_mut(environment).unwrap() {
            revision.clone_into(&mut truth.revision);
            truth.signed = signed;
            truth.ready = true;
            truth.failed = None;
        }
    }

    /// What was proposed is merged and deployed.
    fn end_what_is_under_way(&mut self) {
        self.reach_all("prod");
        (0..4).for_each(|_| self.end_pull_request(0, "merged"));
        self.settle();
        self.sync(true);
    }
}

/// What keeps a revision out: first of the answers about what enters next, then of what comes after it.
fn first_hold(says: &EnvironmentPlan) -> Option<(Hold, String)> {
    let mut answers = says.gates.iter().filter_map(|answer| answer.hold());
    let hold = answers.next().or(says.hold.as_ref())?;
    // A hold may be about a later revision than the one that enters next; then it names it.
    let named = hold.resolved_by.rsplit_once("a request for ");
    let named = named.map(|(_, revision)| revision.to_owned());
    let revision = named.or_else(|| says.next.clone());
    Some((hold.clone(), revision.unwrap_or_default()))
}
