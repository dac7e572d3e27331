//! One environment: what is wanted there, and what its places make of it.

use api::{
    Promotion,
    flux::is_tag,
    pipeline::{Environment, PromotionSettings, PromotionSummary, TargetStatus},
    promotion::Phase,
};

use super::{
    EnvironmentPlan, Step,
    candidate::{Candidate, candidate},
    input::{PlanInput, SiteState, is_deploying, is_unmerged, name_of, phase_of},
    request,
    site::{SiteDecision, SitePlanner, WantedRevision},
};
use crate::{
    attempt::promotion_problem,
    fold::push_front,
    hold::{Hold, HoldReason},
    time::Timestamp,
    validity,
};

/// What is to be done and said about one environment.
#[derive(Default)]
pub(super) struct EnvironmentDecision {
    pub(super) steps: Vec<Step>,
    pub(super) says: EnvironmentPlan,
    pub(super) requeue_at: Option<Timestamp>,
}

pub(super) fn plan(world: &PlanInput<'_>, index: usize) -> EnvironmentDecision {
    let environment = &world.spec.environments[index];
    let mut outcome = EnvironmentDecision {
        says: unchanged(world, &environment.name),
        ..EnvironmentDecision::default()
    };
    let settings = match settings(world, index) {
        Ok(Some(settings)) => settings,
        Ok(None) => {
            request::refuse_where_nothing_is_promoted(world, environment, &mut outcome.says);
            return outcome;
        }
        Err(hold) => {
            outcome.says.hold = Some(hold);
            return outcome;
        }
    };
    if let Some(request) = request::pending(world.pipeline, world.model, &environment.name) {
        match request::wanted(world, &environment.name, &request) {
            Ok(wanted) => {
                let judge = SitePlanner::new(world, environment, settings);
                let sites = judge.decide_all(&wanted, &mut outcome);
                let is_handled =
                    request::conclude(world, &environment.name, &wanted, &sites, &mut outcome.says);
                if !is_handled || !outcome.steps.is_empty() {
                    return outcome;
                }
                outcome.says.hold = None;
            }
            Err(refusal) => outcome.says.last_request = Some(refusal),
        }
    }
    by_itself(world, index, settings, &mut outcome);
    outcome
}

/// What comes along without anybody asking.
fn by_itself(
    world: &PlanInput<'_>,
    index: usize,
    settings: &PromotionSettings,
    outcome: &mut EnvironmentDecision,
) {
    let environment = &world.spec.environments[index];
    match candidate(world, index, settings) {
        Ok(Some(candidate)) => follow(world, environment, settings, candidate, outcome),
        Ok(None) => SitePlanner::new(world, environment, settings).go_on(outcome),
        Err(hold) => {
            SitePlanner::new(world, environment, settings).go_on(outcome);
            outcome.requeue_at = hold.opens_at;
            outcome.says.hold = outcome.says.hold.take().or(Some(hold));
        }
    }
}

/// What stays as it is whatever is decided, and what promotions that ended say.
pub(super) fn unchanged(world: &PlanInput<'_>, name: &str) -> EnvironmentPlan {
    let status = world.status(name);
    let promotions = world.promotions.iter().copied();
    let here: Vec<_> = promotions
        .filter(|promotion| promotion.spec.environment == name)
        .collect();
    let mut rejected = status
        .map(|status| status.rejected.clone())
        .unwrap_or_default();
    // Not only the last of each place: a crash may have come between its successor and the status.
    for promotion in world.last_tries(name) {
        let revision = &promotion.spec.revision;
        let runs = |target: &TargetStatus| target.revision.as_ref() == Some(revision);
        let runs_here = status.is_some_and(|status| status.targets.iter().all(runs));
        let is_abandoned = phase_of(promotion) == Some(Phase::Abandoned);
        if is_abandoned && !runs_here && !rejected.contains(revision) {
            push_front(&mut rejected, revision);
        }
    }
    EnvironmentPlan {
        rejected,
        last_request: status.and_then(|status| status.last_request.clone()),
        promotion: most_telling(&here).map(summary),
        ..EnvironmentPlan::default()
    }
}

/// The promotion people want to see: one under way, else the last.
fn most_telling<'a>(here: &[&'a Promotion]) -> Option<&'a Promotion> {
    let under_way = |promotion: &&&Promotion| is_unmerged(promotion) || is_deploying(promotion);
    here.iter().rev().find(under_way).or(here.last()).copied()
}

/// Of the promotions to be started, the one that will come last in their order.
fn newest_start(steps: &[Step]) -> Option<&Promotion> {
    let starts = steps.iter().filter_map(|step| match step {
        Step::StartPromotion(promotion) => Some(&**promotion),
        _ => None,
    });
    starts.max_by_key(|promotion| (promotion.spec.ordinal, name_of(promotion)))
}

pub(super) fn summary(promotion: &Promotion) -> PromotionSummary {
    let status = promotion.status.as_ref();
    let problem = status.and_then(promotion_problem);
    PromotionSummary {
        name: name_of(promotion),
        revision: promotion.spec.revision.clone(),
        phase: phase_of(promotion),
        reason: problem.as_ref().map(|it| it.reason.clone()),
        message: problem.map(|it| it.message),
        url: status.and_then(|status| status.url.clone()),
    }
}

/// The settings for promotions into the environment: none where it is only shown.
fn settings<'a>(
    world: &PlanInput<'a>,
    index: usize,
) -> Result<Option<&'a PromotionSettings>, Hold> {
    let environment = &world.spec.environments[index];
    let name = environment.name.as_str();
    let Some(settings) = world.spec.promotion_into(name) else {
        return Ok(None);
    };
    if environment.targets.is_empty() {
        return Ok(None);
    }
    let is_own = environment.promotion.is_some();
    if validity::strategies(&settings.strategy).is_empty() {
        // Settings of the whole pipeline may hold nothing but the key for its reports.
        let sentence = format!("the promotion settings of {name} name no strategy");
        let lifted_by = "a strategy in the pipeline lifts this";
        let hold = Hold::new(HoldReason::NoStrategy, sentence, lifted_by);
        return if is_own { Err(hold) } else { Ok(None) };
    }
    let is_moved_by_others = world.source_of(index).is_none() && world.spec.source.is_none();
    if world.spec.app_ref.is_none() && !is_moved_by_others {
        let sentence = "without appRef the apps are shown but not promoted";
        let lifted_by = "an appRef in the pipeline lifts this";
        return Err(Hold::new(HoldReason::NoAppRef, sentence, lifted_by));
    }
    if let Some(namespace) = world.unmatched_selector(environment) {
        return Err(Hold::new(
            HoldReason::NoTargetsMatch,
            format!("no cluster matches the selector of {name} for namespace {namespace}"),
            "a cluster with matching labels lifts this",
        ));
    }
    Ok(Some(settings))
}

/// Brings a candidate to every place.
fn follow(
    world: &PlanInput<'_>,
    environment: &Environment,
    settings: &PromotionSettings,
    candidate: Candidate<'_>,
    outcome: &mut EnvironmentDecision,
) {
    let judge = SitePlanner::new(world, environment, settings);
    if let Some(hold) = shared_source(world, &judge.sites, &candidate) {
        outcome.says.hold = Some(hold);
        return;
    }
    let soaking = candidate.soaking;
    let wanted = WantedRevision {
        revision: candidate.revision,
        version: candidate.version,
        verified_at: candidate.verified_at,
        request: None,
    };
    judge.decide_all(&wanted, outcome);
    outcome.requeue_at = soaking.as_ref().and_then(|hold| hold.opens_at);
    // A younger revision on its way is what people wait for while the older one takes its course.
    outcome.says.hold = outcome.says.hold.take().or(soaking);
}

/// Where source and place follow the same thing, they change together by themselves. A tag that both
/// follow may never move, so it holds only what shows that it has moved.
fn shared_source(
    world: &PlanInput<'_>,
    sites: &[SiteState<'_>],
    candidate: &Candidate<'_>,
) -> Option<Hold> {
    if world.spec.track.is_some() {
        return None;
    }
    let here: Vec<_> = sites
        .iter()
        .flat_map(|site| &site.targets)
        .filter_map(|target| target.follows.as_deref())
        .collect();
    let is_settled = sites.iter().all(|site| site.runs(&candidate.revision));
    let shared = candidate
        .vouched_by
        .iter()
        .filter_map(|target| target.follows.as_deref())
        .find(|follows| here.contains(follows) && !(is_settled && is_tag(follows)))?;
    Some(Hold::new(
        HoldReason::SharedSource,
        format!("this environment and the one before it both follow {shared}"),
        "`track` with the image's name, or a source of its own, lifts this",
    ))
}

impl SitePlanner<'_> {
    /// Decides for every place and gathers what is to be done and said.
    fn decide_all(
        &self,
        wanted: &WantedRevision,
        outcome: &mut EnvironmentDecision,
    ) -> Vec<SiteDecision> {
        let rejected = outcome.says.rejected.clone();
        let mut decided = Vec::new();
        for site in &self.sites {
            let mut decision = self.decide(wanted, site, &rejected);
            outcome.steps.append(&mut decision.steps);
            self.say(&decision, outcome);
            decided.push(decision);
        }
        if let Some(newest) = newest_start(&outcome.steps) {
            outcome.says.promotion = Some(summary(newest));
        }
        if self.sites.is_empty() && outcome.says.hold.is_none() {
            outcome.says.hold = Some(self.not_observed());
        }
        decided
    }

    /// Without a candidate, what is under way goes on.
    fn go_on(&self, outcome: &mut EnvironmentDecision) {
        let rejected = outcome.says.rejected.clone();
        for site in &self.sites {
            let under_way = site.promotions.iter().rev().find(|it| {
                is_unmerged(it) || it.spec.request.is_some() && self.lacks_successor(it, site)
            });
            let Some(promotion) = under_way else { continue };
            let mut decision = self.goes_on_alone(promotion, site, &rejected);
            // What is withdrawn is over: why nothing else comes is said instead.
            let is_withdrawn = |step: &Step| matches!(step, Step::WithdrawPromotion { .. });
            if !decision.steps.iter().all(is_withdrawn) || decision.steps.is_empty() {
                self.say(&decision, outcome);
            }
            outcome.steps.append(&mut decision.steps);
        }
        if let Some(newest) = newest_start(&outcome.steps) {
            outcome.says.promotion = Some(summary(newest));
        }
    }

    fn say(&self, decision: &SiteDecision, outcome: &mut EnvironmentDecision) {
        let says = &mut outcome.says;
        says.hold = says.hold.take().or_else(|| decision.hold.clone());
        says.waiting_approval = says
            .waiting_approval
            .take()
            .or_else(|| decision.waiting_approval.clone());
    }
}
