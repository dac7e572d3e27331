//! Plans for one environment: which revision it should get, and what its sites make of that.

use api::{
    Promotion,
    pipeline::{Environment, PromotionSettings, PromotionSummary, RanRevision, Request},
    revision::shown,
};

use super::{
    EnvironmentPlan, Step, cancel,
    candidate::Candidate,
    gates::Answers,
    input::PlanInput,
    rejected::{rejected, was_taken_back},
    request, rollback, rollout_orders,
    site::{SiteDecision, SitePlanner, WantedRevision},
};
use crate::{
    attempt::promotion_problem,
    checks,
    gate::{self, CandidateQuestion, freeze::frozen_now, signature::is_signed, targets},
    hold::{Hold, HoldReason},
    promotion_phase::{
        is_deploying, is_rollback, is_unmerged, is_verifying, name_of, phase_of, was_merged,
    },
    rollout::rollout_summary,
    site_state::SiteState,
    sources::sources,
    validity,
};

/// The steps for one environment, and what the status says about it.
#[derive(Default)]
pub(super) struct EnvironmentDecision {
    pub(super) steps: Vec<Step>,
    pub(super) says: EnvironmentPlan,
    /// The answers of the gates, of all sites.
    pub(super) answers: Answers,
}

pub(super) fn plan(input: &PlanInput<'_>, environment: &Environment) -> EnvironmentDecision {
    let mut decision = EnvironmentDecision {
        says: unchanged(input, &environment.name),
        ..EnvironmentDecision::default()
    };
    if let Some((request, steps, text)) = checks::retry(input, environment) {
        let handled = request::handled(input, &environment.name, &request, (None, &text));
        decision.says.last_request = Some(handled);
        decision.steps = steps;
        return decision.finish();
    }
    let Some(settings) = settings(input, environment) else {
        request::refuse_where_nothing_is_promoted(input, environment, &mut decision.says);
        decision.says.hold = rollback::without_strategy(input, environment);
        return decision;
    };
    rollout_orders::take_up(input, &environment.name, &mut decision);
    cancel::take_back(input, &environment.name, &mut decision);
    if !decision.steps.is_empty() {
        return decision.finish();
    }
    let planner = SitePlanner::new(input, environment, settings);
    match gate::ask_environment(&planner.environment_question()).hold() {
        Some(hold) => {
            let next = planner.candidate.as_ref().or(planner.prospect.as_ref());
            planner.hold_all(hold, next, &mut decision);
        }
        None if planner.take_up_request(&mut decision) => {}
        None if planner.roll_back(&mut decision) => {}
        None => planner.follow_source(&mut decision),
    }
    decision.finish()
}

/// What the status says whatever is decided: kept fields, and what ended promotions add to them.
pub(super) fn unchanged(input: &PlanInput<'_>, name: &str) -> EnvironmentPlan {
    let status = input.status(name);
    let promotions = input.promotions.iter().copied();
    let here: Vec<_> = promotions
        .filter(|promotion| promotion.spec.environment == name)
        .collect();
    let mut ran = with_promotions(input, name, &here);
    if let Some(status) = status {
        checks::remember(&mut ran, input.spec, name, status, input.now);
    }
    EnvironmentPlan {
        ran,
        rejected: rejected(input, name, &[]),
        last_request: status.and_then(|status| status.last_request.clone()),
        overrides: status.map(|it| it.overrides.clone()).unwrap_or_default(),
        promotion: most_relevant(&here).map(summary),
        rollout: rollout_summary(
            input.pipeline,
            input.model,
            input.promotions.iter().copied(),
            name,
            input.now,
        ),
        rollout_orders: status.and_then(|status| status.rollout_orders.clone()),
        frozen: frozen_now(input.model, name, input.now),
        ..EnvironmentPlan::default()
    }
}

/// What ran, with the promotion that brought each revision. What Flux verified in every source environment
/// is verified.
fn with_promotions(input: &PlanInput<'_>, name: &str, here: &[&Promotion]) -> Vec<RanRevision> {
    let status = input.status(name);
    let sources = sources(input.spec, name);
    let was_signed = |revision: &str| {
        let is_signed_in = |it: &&Environment| {
            let status = input.status(&it.name);
            status.is_some_and(|status| is_signed(status, revision))
        };
        !sources.is_empty() && sources.iter().all(is_signed_in)
    };
    let mut ran = status.map(|status| status.ran.clone()).unwrap_or_default();
    for entry in ran.iter_mut().filter(|entry| entry.promotion.is_none()) {
        let mut newest_first = here.iter().rev();
        let stays = &entry.earlier_stays;
        let is_earlier = |name: &str| stays.iter().any(|it| it.promotion.as_deref() == Some(name));
        let brought = newest_first.find(|promotion| {
            let is_same = promotion.spec.revision == entry.revision && was_merged(promotion);
            is_same && !is_earlier(&name_of(promotion))
        });
        if let Some(promotion) = brought {
            entry.signed |= was_signed(&entry.revision);
            entry.approved |= promotion.spec.given_approvals().next().is_some();
            entry.promotion = Some(name_of(promotion));
        }
    }
    ran
}

/// The promotion to show: one under way, else the last.
fn most_relevant<'a>(here: &[&'a Promotion]) -> Option<&'a Promotion> {
    let under_way = |promotion: &&&Promotion| {
        is_unmerged(promotion) || is_deploying(promotion) || is_verifying(promotion)
    };
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
    let mut problem = status.and_then(promotion_problem);
    // Nothing is to be resolved where a person took a rollback back.
    if is_rollback(promotion) && was_taken_back(promotion) {
        let message = status.and_then(|status| status.message.clone());
        for (problem, message) in problem.iter_mut().zip(message) {
            problem.message = message;
        }
    }
    PromotionSummary {
        name: name_of(promotion),
        revision: promotion.spec.revision.clone(),
        phase: phase_of(promotion),
        reason: problem.as_ref().map(|it| it.reason.clone()),
        message: problem.map(|it| it.message),
        url: status.and_then(|status| status.url.clone()),
        caution: None,
    }
}

/// The settings for promotions into the environment; none where it is only shown. Settings of the
/// whole pipeline may hold nothing but the key for its reports.
pub(super) fn settings<'a>(
    input: &PlanInput<'a>,
    environment: &Environment,
) -> Option<&'a PromotionSettings> {
    let settings = input.spec.promotion_into(&environment.name)?;
    let is_own = environment.promotion.is_some();
    let has_strategy = !validity::strategies(&settings.strategy).is_empty();
    (!environment.targets.is_empty() && (is_own || has_strategy)).then_some(settings)
}

impl SitePlanner<'_> {
    /// Brings what a person requested. Returns whether nothing else is to be done now.
    fn take_up_request(&self, decision: &mut EnvironmentDecision) -> bool {
        let (input, name) = (self.input, &self.environment.name);
        let pending = request::pending(input.pipeline, input.model, name);
        let answered = decision.says.last_request.as_ref();
        // Orders about a rollout, and to cancel, are answered by now.
        let is_open = |it: &Request| !answered.is_some_and(|last| last.covers(&it.id));
        let Some(request) = pending.filter(is_open) else {
            return false;
        };
        let wanted = match request::wanted(input, name, &request) {
            Ok(wanted) => wanted,
            Err(text) => {
                let refusal = request::refused(input, name, &request, &text);
                decision.says.last_request = Some(refusal);
                return false;
            }
        };
        let sites = self.decide_all(&wanted, decision);
        let decided = (sites.as_slice(), decision.answers.first_hold());
        let is_handled = request::conclude(input, name, &wanted, decided, &mut decision.says);
        if !is_handled || !decision.steps.is_empty() {
            return true;
        }
        decision.says.hold = None;
        decision.answers = Answers::default();
        false
    }

    /// Promotes what the source environment or the pipeline's source has, without a request.
    pub(super) fn follow_source(&self, decision: &mut EnvironmentDecision) {
        let hold = gate::ask_source(&self.source).hold();
        let hold = hold.filter(|hold| !self.is_settled(hold));
        match self.candidate.as_ref().filter(|_| hold.is_none()) {
            Some(candidate) => self.follow(candidate, decision),
            None => self.go_on(decision),
        }
        self.hold_newer(hold, decision);
    }

    /// Whether a hold is about the checks or the soak of a revision that every site has.
    fn is_settled(&self, hold: &Hold) -> bool {
        let prospect = || self.prospect.as_ref().map(|it| it.revision.as_str());
        let runs = |revision: &str| self.sites.iter().all(|site| site.runs(revision));
        let revision = match hold.reason {
            HoldReason::Soaking => self.source.soaking_revision().or_else(prospect),
            _ if is_about_checks(hold) => self.source.checked_revision().or_else(prospect),
            _ => None,
        };
        revision.is_some_and(runs)
    }

    /// Brings a candidate to every site.
    fn follow(&self, candidate: &Candidate<'_>, decision: &mut EnvironmentDecision) {
        let question = CandidateQuestion {
            spec: self.input.spec,
            sites: &self.sites,
            candidate,
        };
        if let Some(hold) = gate::ask_candidate(&question).hold() {
            return self.hold_all(hold, Some(candidate), decision);
        }
        self.decide_all(&WantedRevision::of(candidate), decision);
        self.hold_newer(candidate.newer.clone(), decision);
    }

    /// Reports the hold of a revision that the source does not vouch for yet, unless what is under way has
    /// a hold itself. The answers are about what is under way, where there is something.
    fn hold_newer(&self, hold: Option<Hold>, decision: &mut EnvironmentDecision) {
        let Some(hold) = hold else { return };
        let times = [hold.opens_at, self.source.next_soaked_at()];
        decision.says.requeue_at = times.into_iter().flatten().min();
        let is_passed = is_about_checks(&hold) && self.is_under_way(decision);
        if decision.says.hold.is_some() || is_passed {
            return;
        }
        match decision.answers.gates.is_empty() {
            true => self.hold_all(hold, self.prospect.as_ref(), decision),
            false => decision.says.hold = Some(hold),
        }
    }

    /// Whether what the source has next is under way to every site, by a person's request: then its checks
    /// hold nothing.
    fn is_under_way(&self, decision: &EnvironmentDecision) -> bool {
        let Some(prospect) = &self.prospect else {
            return false;
        };
        let next = decision.answers.revision.as_deref();
        let shown = shown(&prospect.revision, Some(&prospect.version));
        let is_deploying = |site: &SiteState<'_>| {
            let mut promotions = site.promotions.iter();
            promotions.any(|it| is_deploying(it) && it.spec.revision == prospect.revision)
        };
        next == Some(shown.as_str()) || self.sites.iter().all(is_deploying)
    }

    /// Decides for every site and collects the steps and holds.
    fn decide_all(
        &self,
        wanted: &WantedRevision,
        environment: &mut EnvironmentDecision,
    ) -> Vec<SiteDecision> {
        let rejected = environment.says.rejected.clone();
        let mut decided = Vec::new();
        for site in &self.sites {
            let mut decision = self.decide(wanted, site, &rejected);
            environment.steps.append(&mut decision.steps);
            environment.collect(&mut decision);
            self.say(&decision, environment);
            decided.push(decision);
        }
        if let Some(newest) = newest_start(&environment.steps) {
            environment.says.promotion = Some(summary(newest));
        }
        if self.sites.is_empty() && environment.says.hold.is_none() {
            let hold = targets::not_observed(&self.environment.name);
            self.hold_all(hold, self.candidate.as_ref(), environment);
        }
        decided
    }

    /// Without a candidate, promotions under way go on.
    fn go_on(&self, environment: &mut EnvironmentDecision) {
        let rejected = environment.says.rejected.clone();
        for site in &self.sites {
            let under_way = site.promotions.iter().rev().find(|it| {
                is_unmerged(it) || it.spec.request.is_some() && self.lacks_successor(it, site)
            });
            let Some(promotion) = under_way else { continue };
            let mut decision = self.goes_on_alone(promotion, site, &rejected);
            // A withdrawn promotion is over: the status says why nothing else comes.
            let is_withdrawn = |step: &Step| matches!(step, Step::WithdrawPromotion { .. });
            if !decision.steps.iter().all(is_withdrawn) || decision.steps.is_empty() {
                environment.collect(&mut decision);
                self.say(&decision, environment);
            }
            environment.steps.append(&mut decision.steps);
        }
        if let Some(newest) = newest_start(&environment.steps) {
            environment.says.promotion = Some(summary(newest));
        }
    }

    pub(super) fn say(&self, decision: &SiteDecision, environment: &mut EnvironmentDecision) {
        let says = &mut environment.says;
        says.hold = says.hold.take().or_else(|| decision.hold.clone());
        says.waiting_approval = says
            .waiting_approval
            .take()
            .or_else(|| decision.waiting_approval.clone());
    }
}

/// Whether a hold is one of the checks of the source environment.
fn is_about_checks(hold: &Hold) -> bool {
    hold.reason.gate() == HoldReason::Verifying.gate()
}
