//! Plans for one site: whether the wanted revision starts there, or why it waits.

use api::{
    Promotion,
    pipeline::{Environment, PromotionSettings, PromotionSummary, Request, RequestKind},
    promotion::Phase,
};

use super::{
    Step,
    candidate::{Candidate, CandidateSource},
    environment::summary,
    gates::Answers,
    input::PlanInput,
    withdrawal::{NO_LONGER_CANDIDATE, ROLLED_BACK},
};
use crate::{
    gate::{
        self, GateVerdict, PromotionQuestion, SiteQuestion, approvals::is_unapprovable, order,
        suspended::is_suspended,
    },
    hold::{Hold, HoldReason},
    promotion_phase::{is_deploying, is_unmerged, name_of, phase_of},
    release::failed_revision,
    site_state::SiteState,
    time::Timestamp,
};

/// The revision that a site should get.
#[derive(Clone, Debug)]
pub(crate) struct WantedRevision {
    pub(crate) revision: String,
    pub(crate) version: String,
    /// Since when it may be promoted.
    pub(crate) verified_at: Option<Timestamp>,
    /// The request, if a person asked for it.
    pub(crate) request: Option<Request>,
    /// The uid of the promotion whose checks failed, if this is the rollback.
    pub(crate) cause: Option<String>,
}

impl WantedRevision {
    /// A candidate that nobody requested.
    pub(super) fn of(candidate: &Candidate<'_>) -> Self {
        Self {
            revision: candidate.revision.clone(),
            version: candidate.version.clone(),
            verified_at: candidate.verified_at,
            request: None,
            cause: None,
        }
    }

    /// What is asked for, by a person or because a check failed; nothing for a candidate.
    pub(crate) fn kind(&self) -> Option<RequestKind> {
        let asked = self.request.as_ref().map(|request| request.kind);
        asked.or(self.cause.as_ref().map(|_| RequestKind::Rollback))
    }
}

/// The steps for one site, and what the status says about it.
#[derive(Clone, Debug, Default)]
pub(super) struct SiteDecision {
    pub(super) steps: Vec<Step>,
    pub(super) hold: Option<Hold>,
    pub(super) waiting_approval: Option<String>,
    /// The promotion that brings the revision.
    pub(super) promotion: Option<PromotionSummary>,
    /// Revisions that the site would leave behind.
    pub(super) leaves: Vec<String>,
    /// The answers of the gates about the promotion, or about the revision that waits.
    pub(super) answers: Answers,
}

/// Plans for the sites of one environment.
pub(super) struct SitePlanner<'a> {
    pub(super) input: &'a PlanInput<'a>,
    pub(super) environment: &'a Environment,
    pub(super) settings: &'a PromotionSettings,
    pub(super) sites: Vec<SiteState<'a>>,
    pub(super) source: CandidateSource<'a>,
    /// What the source vouches for.
    pub(super) candidate: Option<Candidate<'a>>,
    /// What the source has next, whether or not it vouches for it.
    pub(super) prospect: Option<Candidate<'a>>,
}

impl<'a> SitePlanner<'a> {
    pub(super) fn new(
        input: &'a PlanInput<'a>,
        environment: &'a Environment,
        settings: &'a PromotionSettings,
    ) -> Self {
        let sites = input.sites(&environment.name, settings);
        let run = |revision: &str| sites.iter().all(|site| site.runs(revision));
        let source = CandidateSource::new(input, environment, settings, &run);
        Self {
            input,
            environment,
            settings,
            candidate: source.candidate(),
            prospect: source.prospect(),
            sites,
            source,
        }
    }

    pub(super) fn decide(
        &self,
        wanted: &WantedRevision,
        site: &SiteState<'_>,
        rejected: &[String],
    ) -> SiteDecision {
        let mut decision = self.move_on(wanted, site, rejected);
        decision.leaves = leaves(wanted, site);
        decision
    }

    fn move_on(
        &self,
        wanted: &WantedRevision,
        site: &SiteState<'_>,
        rejected: &[String],
    ) -> SiteDecision {
        if let Some(promotion) = self.under_way(wanted, site, rejected) {
            return self.goes_on_in_order(promotion, site, rejected);
        }
        let question = self.site_question(wanted, site, rejected);
        if let Some(first) = question.first {
            return self.gives_way(&question, first);
        }
        // A request to stay, while another revision is being deployed or failed, needs a new change.
        let is_deploying = || site.promotions.iter().any(|it| is_deploying(it));
        let is_moving = wanted.request.is_some()
            && (is_deploying() || site.failed_at_another(&wanted.revision));
        // Where promotions go in waves, unreachable targets get it when they come back.
        let is_rolled_out =
            || self.settings.rollout.is_some() && site.all_reachable_run(&wanted.revision);
        let has_it = site.runs(&wanted.revision) || is_rolled_out();
        if has_it && !is_moving {
            return SiteDecision {
                steps: self.withdraw_stale(wanted, site),
                ..SiteDecision::default()
            };
        }
        self.start_if_gates_pass(question)
    }

    /// Starts the promotion, or says which gate does not pass. Where the revision fails a gate, what
    /// leads elsewhere is withdrawn.
    pub(super) fn start_if_gates_pass(&self, question: SiteQuestion<'_>) -> SiteDecision {
        let (wanted, site) = (question.wanted, question.site);
        let verdict = gate::ask_site(&question);
        let decision = match &verdict {
            GateVerdict::Wait(_) => SiteDecision::default(),
            GateVerdict::Fail(_) => SiteDecision {
                steps: self.withdraw_stale(wanted, site),
                ..SiteDecision::default()
            },
            _ => self.start(wanted, site),
        };
        SiteDecision {
            hold: verdict.hold().or(decision.hold),
            answers: self.answers_for(question),
            ..decision
        }
    }

    /// A revision as the gates are asked about it.
    pub(super) fn site_question<'b>(
        &'b self,
        wanted: &'b WantedRevision,
        site: &'b SiteState<'b>,
        rejected: &'b [String],
    ) -> SiteQuestion<'b> {
        SiteQuestion {
            pipeline: self.input.pipeline,
            model: self.input.model,
            environment: self.environment,
            site,
            wanted,
            rejected,
            first: self.goes_first(wanted, site, rejected),
        }
    }

    /// A promotion under way as the gates are asked about it.
    pub(super) fn question<'b>(
        &'b self,
        promotion: &'b Promotion,
        site: &'b SiteState<'b>,
        rejected: &'b [String],
    ) -> PromotionQuestion<'b> {
        PromotionQuestion {
            pipeline: self.input.pipeline,
            model: self.input.model,
            environment: self.environment,
            settings: Some(self.settings),
            site,
            promotion,
            rejected,
            now: self.input.now,
        }
    }

    /// The promotion that already brings the revision, with today's settings. A request does not join
    /// one that the gate `order` holds: it gets a promotion of its own.
    pub(super) fn under_way<'b>(
        &self,
        wanted: &WantedRevision,
        site: &SiteState<'b>,
        rejected: &[String],
    ) -> Option<&'b Promotion> {
        let is_held = |promotion: &Promotion| {
            let question = self.question(promotion, site, rejected);
            wanted.request.is_some() && order::ask_again(&question).is_closed()
        };
        let is_asked = |promotion: &&&Promotion| {
            let asked = wanted.request.as_ref().map(|request| request.id.as_str());
            let request = promotion.spec.request.as_ref();
            asked.is_some() && request.map(|request| request.id.as_str()) == asked
        };
        let brings = |promotion: &&&Promotion| {
            promotion.spec.revision == wanted.revision
                && (is_deploying(promotion) || is_unmerged(promotion) && self.fits(promotion))
                && !is_held(promotion)
        };
        let mut newest_first = site.promotions.iter().rev();
        let answer = newest_first.clone().find(is_asked);
        let answer = answer.filter(|promotion| !self.is_outdated(promotion));
        answer.or_else(|| newest_first.find(brings)).copied()
    }

    /// Whether it has today's settings. Approval matters until the change has been proposed to people,
    /// or as long as the forge would merge it without them.
    pub(super) fn fits(&self, promotion: &Promotion) -> bool {
        let spec = &promotion.spec;
        let to = spec.strategy.pull_request.as_ref();
        let is_automatic = to.is_some_and(|to| to.auto_merge);
        let is_past_approval = phase_of(promotion) == Some(Phase::WaitingForMerge)
            && !(is_automatic && self.approvals(promotion).is_missing());
        let status = promotion.status.as_ref();
        let has_begun = status.is_some_and(|it| it.rollout.is_some());
        let has_same_waves = has_begun || spec.rollout == self.settings.rollout;
        let has_same_policy = spec.needs_approval == self.settings.needs_approval()
            && spec.approval_policy == self.settings.approval_policy
            || spec.cause.is_some() && !spec.needs_approval;
        spec.strategy == self.settings.strategy
            && has_same_waves
            && (is_past_approval || has_begun || has_same_policy)
    }

    /// A promotion under way goes on unless a gate fails it: then it is withdrawn where something newer runs,
    /// and held otherwise.
    pub(super) fn goes_on_in_order(
        &self,
        promotion: &Promotion,
        site: &SiteState<'_>,
        rejected: &[String],
    ) -> SiteDecision {
        let question = self.question(promotion, site, rejected);
        let Some(hold) = gate::first_failure(&question).hold() else {
            return self.goes_on(&question);
        };
        if hold.reason != HoldReason::OlderThanRunning || self.is_suspended() {
            return SiteDecision {
                hold: Some(hold),
                promotion: Some(summary(promotion)),
                answers: Answers::of_promotion(&question),
                ..SiteDecision::default()
            };
        }
        SiteDecision {
            steps: vec![Step::WithdrawPromotion {
                name: name_of(promotion),
                reason: format!("{}: {}", hold.reason.word(), hold.sentence),
            }],
            hold: Some(hold),
            answers: Answers::of_promotion(&question),
            ..SiteDecision::default()
        }
    }

    /// What the status says about a promotion that goes on. That it waits for its predecessor, which is
    /// ending, only its own status says.
    fn goes_on(&self, question: &PromotionQuestion<'_>) -> SiteDecision {
        let promotion = question.promotion;
        if !is_unmerged(promotion) {
            return SiteDecision {
                promotion: Some(summary(promotion)),
                ..SiteDecision::default()
            };
        }
        let answers = Answers::of_promotion(question);
        let approvals = self.approvals(promotion);
        let is_awaited = approvals.is_awaited();
        let is_proposed = phase_of(promotion) == Some(Phase::WaitingForMerge);
        let summary = summary(promotion);
        let hold = match is_awaited {
            // The promotion says what is to be resolved before anybody can approve it.
            true if is_unapprovable(summary.phase, summary.message.as_deref()) => None,
            true => approvals.hold(),
            false if is_proposed => None,
            false => answers.first_hold(),
        };
        SiteDecision {
            hold,
            waiting_approval: is_awaited.then(|| promotion.spec.revision.clone()),
            promotion: Some(summary),
            answers,
            ..SiteDecision::default()
        }
    }

    fn is_suspended(&self) -> bool {
        is_suspended(self.input.spec, self.environment)
    }

    /// Withdraws what leads elsewhere although the site should stay or go back. What a person requested
    /// is left alone unless a person requests to go back.
    fn withdraw_stale(&self, wanted: &WantedRevision, site: &SiteState<'_>) -> Vec<Step> {
        let request = wanted.request.as_ref();
        let is_detour = request.is_some_and(|request| request.kind != RequestKind::Rollback);
        if is_detour || self.is_suspended() {
            return Vec::new();
        }
        let is_stale = |promotion: &&&Promotion| {
            is_unmerged(promotion)
                && promotion.spec.revision != wanted.revision
                && (is_by_itself(promotion) || request.is_some())
        };
        let reason = match request {
            Some(_) => ROLLED_BACK,
            None => NO_LONGER_CANDIDATE,
        };
        site.promotions
            .iter()
            .filter(is_stale)
            .map(|promotion| Step::WithdrawPromotion {
                name: name_of(promotion),
                reason: reason.to_owned(),
            })
            .collect()
    }
}

/// Whether neither a person nor a failed check led to it.
fn is_by_itself(promotion: &Promotion) -> bool {
    promotion.spec.request.is_none() && promotion.spec.cause.is_none()
}

/// The revisions that a site has or is about to get, other than the wanted one. Where it stays as it
/// is, that is what was being deployed.
fn leaves(wanted: &WantedRevision, site: &SiteState<'_>) -> Vec<String> {
    let id = wanted.request.as_ref().map(|request| request.id.as_str());
    let replaced = site.promotions.iter().filter(|promotion| {
        let request = promotion.spec.request.as_ref();
        id.is_some() && request.map(|request| request.id.as_str()) == id
    });
    let running = site
        .targets
        .iter()
        .flat_map(|target| [target.revision.as_deref(), failed_revision(target)])
        .flatten()
        .chain(site.assumed)
        .map(str::to_owned);
    let deploying = site
        .promotions
        .iter()
        .filter(|promotion| is_deploying(promotion));
    let stopped = site.promotions.iter().filter(|promotion| {
        site.runs(&wanted.revision) && phase_of(promotion).is_none_or(|phase| !phase.is_terminal())
    });
    let mut all: Vec<_> = running
        .chain(replaced.filter_map(|promotion| promotion.spec.replaces.clone()))
        .chain(
            deploying
                .chain(stopped)
                .map(|promotion| promotion.spec.revision.clone()),
        )
        .filter(|revision| *revision != wanted.revision)
        .collect();
    all.dedup();
    all
}
