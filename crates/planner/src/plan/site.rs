//! One place: whether what is wanted may go there now.

use api::{
    Promotion,
    pipeline::{
        Environment, PromotionSettings, PromotionSummary, Request, RequestKind, TargetProblem,
    },
    promotion::Phase,
};

use super::{
    Step,
    environment::summary,
    input::{PlanInput, SiteState, is_deploying, is_unmerged, name_of, phase_of},
};
use crate::{
    hold::{Hold, HoldReason, and_more},
    release::failed_revision,
    site::target_name,
    time::Timestamp,
};

/// What should be brought in.
#[derive(Clone, Debug)]
pub(super) struct WantedRevision {
    pub(super) revision: String,
    pub(super) version: String,
    /// Since when nothing but gates kept it back.
    pub(super) verified_at: Option<Timestamp>,
    /// The request, if a person asked.
    pub(super) request: Option<Request>,
}

/// What is to be done and said about one place.
#[derive(Clone, Debug, Default)]
pub(super) struct SiteDecision {
    pub(super) steps: Vec<Step>,
    pub(super) hold: Option<Hold>,
    pub(super) waiting_approval: Option<String>,
    /// The promotion that brings the revision.
    pub(super) promotion: Option<PromotionSummary>,
    /// Revisions the place would leave behind.
    pub(super) leaves: Vec<String>,
}

/// Decides about the places of one environment.
pub(super) struct SitePlanner<'a> {
    pub(super) world: &'a PlanInput<'a>,
    pub(super) environment: &'a Environment,
    pub(super) settings: &'a PromotionSettings,
    pub(super) sites: Vec<SiteState<'a>>,
}

impl<'a> SitePlanner<'a> {
    pub(super) fn new(
        world: &'a PlanInput<'a>,
        environment: &'a Environment,
        settings: &'a PromotionSettings,
    ) -> Self {
        Self {
            world,
            environment,
            settings,
            sites: world.sites(&environment.name, settings),
        }
    }

    pub(super) fn decide(
        &self,
        wanted: &WantedRevision,
        site: &SiteState<'_>,
        rejected: &[String],
    ) -> SiteDecision {
        let mut outcome = self.move_on(wanted, site, rejected);
        outcome.leaves = leaves(wanted, site);
        outcome
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
        if let Some(asked) = self.asked_for(site).filter(|_| wanted.request.is_none()) {
            return self.gives_way(wanted, (site, rejected), asked);
        }
        // Asked to stay while something else is on its way from git, or failed on its way, the place
        // needs a new change.
        let is_deploying = || site.promotions.iter().any(|it| is_deploying(it));
        let is_moving =
            wanted.request.is_some() && (is_deploying() || site.failed_at_another(wanted));
        if site.runs(&wanted.revision) && !is_moving {
            return SiteDecision {
                steps: self.withdraw_stale(wanted, site),
                ..SiteDecision::default()
            };
        }
        if let Some(hold) = self.unusable(site) {
            return held(hold);
        }
        if wanted.request.is_none()
            && let Some(hold) = self.backwards(wanted, site, rejected)
        {
            return SiteDecision {
                steps: self.withdraw_stale(wanted, site),
                ..held(hold)
            };
        }
        match self.suspended(&wanted.shown()) {
            Some(hold) => held(hold),
            None => self.start(wanted, site),
        }
    }

    /// The promotion that already brings what is wanted, as the pipeline asks for it today. A request
    /// does not join one that order keeps back: it gets a promotion of its own.
    fn under_way<'b>(
        &self,
        wanted: &WantedRevision,
        site: &SiteState<'b>,
        rejected: &[String],
    ) -> Option<&'b Promotion> {
        let is_kept_back = |promotion: &Promotion| {
            wanted.request.is_some() && self.out_of_order(promotion, site, rejected).is_some()
        };
        let is_asked = |promotion: &&&Promotion| {
            let asked = wanted.request.as_ref().map(|request| request.id.as_str());
            let request = promotion.spec.request.as_ref();
            asked.is_some() && request.map(|request| request.id.as_str()) == asked
        };
        let brings = |promotion: &&&Promotion| {
            promotion.spec.revision == wanted.revision
                && (is_deploying(promotion) || is_unmerged(promotion) && self.fits(promotion))
                && !is_kept_back(promotion)
        };
        let mut newest_first = site.promotions.iter().rev();
        let answer = newest_first.clone().find(is_asked);
        let answer = answer.filter(|promotion| !self.is_outdated(promotion));
        answer.or_else(|| newest_first.find(brings)).copied()
    }

    /// Whether it is carried out as the pipeline says today. Approval matters until the change has
    /// been proposed to people, or until the forge would merge it without any.
    fn fits(&self, promotion: &Promotion) -> bool {
        let spec = &promotion.spec;
        let to = spec.strategy.pull_request.as_ref();
        let is_automatic = to.is_some_and(|to| to.auto_merge);
        let is_past_approval = phase_of(promotion) == Some(Phase::WaitingForMerge)
            && !(is_automatic && self.settings.manual && spec.approval.is_none());
        spec.strategy == self.settings.strategy
            && (is_past_approval || spec.needs_approval == self.settings.manual)
    }

    /// A promotion under way goes on, unless it would now take the place backwards: then it is
    /// withdrawn where something newer runs, and held otherwise.
    pub(super) fn goes_on_in_order(
        &self,
        promotion: &Promotion,
        site: &SiteState<'_>,
        rejected: &[String],
    ) -> SiteDecision {
        let Some(hold) = self.out_of_order(promotion, site, rejected) else {
            return self.goes_on(promotion);
        };
        let is_suspended = self.suspended("").is_some();
        if hold.reason != HoldReason::OlderThanRunning || is_suspended {
            return SiteDecision {
                promotion: Some(summary(promotion)),
                ..held(hold)
            };
        }
        SiteDecision {
            steps: vec![Step::WithdrawPromotion {
                name: name_of(promotion),
                reason: format!("{}: {}", hold.reason.word(), hold.sentence),
            }],
            ..held(hold)
        }
    }

    /// What there is to say about a promotion that goes on.
    fn goes_on(&self, promotion: &Promotion) -> SiteDecision {
        let revision = &promotion.spec.revision;
        let shown = promotion.spec.shown_revision();
        let needs_approval = promotion.spec.needs_approval || self.settings.manual;
        let is_waiting = needs_approval
            && promotion.spec.approval.is_none()
            && matches!(phase_of(promotion), None | Some(Phase::AwaitingApproval));
        let is_idle = !matches!(phase_of(promotion), Some(Phase::WaitingForMerge));
        SiteDecision {
            hold: match is_waiting && is_unmerged(promotion) {
                true => Some(self.awaiting_approval(&shown)),
                false => self
                    .suspended(&shown)
                    .filter(|_| is_idle && is_unmerged(promotion)),
            },
            waiting_approval: is_waiting.then(|| revision.clone()),
            promotion: Some(summary(promotion)),
            ..SiteDecision::default()
        }
    }

    /// The promotion under way that a person asked for, also one whose successor was never created.
    fn asked_for<'b>(&self, site: &SiteState<'b>) -> Option<&'b Promotion> {
        let is_asked_for = |promotion: &&&Promotion| {
            let is_under_way = is_unmerged(promotion) || is_deploying(promotion);
            promotion.spec.request.is_some()
                && (is_under_way || self.lacks_successor(promotion, site))
        };
        site.promotions.iter().rev().find(is_asked_for).copied()
    }

    /// What a person asked for is not overtaken by what comes along.
    fn gives_way(
        &self,
        wanted: &WantedRevision,
        (site, rejected): (&SiteState<'_>, &[String]),
        asked: &Promotion,
    ) -> SiteDecision {
        let mut outcome = self.goes_on_alone(asked, site, rejected);
        if outcome.hold.is_none() && !site.runs(&wanted.revision) {
            let revision = asked.spec.shown_revision();
            let name = outcome.promotion.as_ref().map(|it| it.name.as_str());
            outcome.hold = Some(Hold::new(
                HoldReason::RequestUnderWay,
                format!("{revision}, which a person asked for, is under way"),
                format!(
                    "the end of promotion {} lifts this",
                    name.unwrap_or_default()
                ),
            ));
        }
        outcome
    }

    pub(super) fn awaiting_approval(&self, revision: &str) -> Hold {
        Hold::new(
            HoldReason::AwaitingApproval,
            format!(
                "{revision} waits for approval to enter {}",
                self.environment.name
            ),
            format!("an approval of {revision} lifts this"),
        )
    }

    pub(super) fn not_observed(&self) -> Hold {
        Hold::new(
            HoldReason::NotObserved,
            format!("{} has not been looked at yet", self.environment.name),
            "the first look at it lifts this",
        )
    }

    /// Why nothing can be brought to a place that is not as it should be.
    pub(super) fn unusable(&self, site: &SiteState<'_>) -> Option<Hold> {
        if site.targets.is_empty() {
            return Some(self.not_observed());
        }
        let unusable = site.unreadable();
        let target = unusable.first()?;
        let (reason, lifted_by) = match target.problem? {
            TargetProblem::AppMissing
            | TargetProblem::NamespaceMissing
            | TargetProblem::KindMissing => {
                (HoldReason::AppMissing, "the app being there lifts this")
            }
            _ => (
                HoldReason::TargetUnreachable,
                "the target being readable again lifts this",
            ),
        };
        let error = target.error.as_deref().unwrap_or("cannot be read");
        let name = &self.environment.name;
        let more = and_more(unusable.len());
        let sentence = format!("{name} target {}{more}: {error}", target_name(target));
        Some(Hold::new(reason, sentence, lifted_by))
    }

    pub(super) fn suspended(&self, revision: &str) -> Option<Hold> {
        let what = if self.world.spec.suspend {
            "the pipeline"
        } else if self.environment.suspend {
            self.environment.name.as_str()
        } else {
            return None;
        };
        Some(Hold::new(
            HoldReason::Suspended,
            format!("{what} is suspended, {revision} waits"),
            format!("resuming {what} lifts this"),
        ))
    }

    /// Takes back what leads elsewhere although the place should stay or go back. What a person
    /// asked for is left alone unless a person asks to go back.
    fn withdraw_stale(&self, wanted: &WantedRevision, site: &SiteState<'_>) -> Vec<Step> {
        let request = wanted.request.as_ref();
        let is_detour = request.is_some_and(|request| request.kind == RequestKind::Promote);
        if is_detour || self.suspended("").is_some() {
            return Vec::new();
        }
        let is_stale = |promotion: &&&Promotion| {
            is_unmerged(promotion)
                && promotion.spec.revision != wanted.revision
                && (promotion.spec.request.is_none() || request.is_some())
        };
        site.promotions
            .iter()
            .filter(is_stale)
            .map(|promotion| Step::WithdrawPromotion {
                name: name_of(promotion),
                reason: "NoLongerCandidate".to_owned(),
            })
            .collect()
    }
}

fn held(hold: Hold) -> SiteDecision {
    SiteDecision {
        hold: Some(hold),
        ..SiteDecision::default()
    }
}

/// The revisions a place has or is about to get, other than the wanted one. Where it stays as it
/// is, that is what was on its way.
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

impl SiteState<'_> {
    /// Whether the release of another revision failed here: git asks for that one.
    fn failed_at_another(&self, wanted: &WantedRevision) -> bool {
        let mut failed = self
            .targets
            .iter()
            .filter_map(|target| failed_revision(target));
        failed.any(|revision| revision != wanted.revision)
    }

    /// Whether every target runs the revision.
    pub(super) fn runs(&self, revision: &str) -> bool {
        let is_there =
            |target: &&api::pipeline::TargetStatus| target.revision.as_deref() == Some(revision);
        let is_assumed = self.assumed == Some(revision);
        !self.targets.is_empty() && self.targets.iter().all(is_there) || is_assumed
    }
}
