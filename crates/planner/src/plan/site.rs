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
    world::{Site, World, is_deploying, is_unmerged, name_of, phase_of, was_merged},
};
use crate::{
    hold::{Hold, HoldReason, and_more},
    moment::Timestamp,
    order,
    place::target_name,
};

/// What should be brought in.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) revision: String,
    pub(super) version: String,
    /// Since when nothing but gates kept it back.
    pub(super) verified_at: Option<Timestamp>,
    /// The request, if a person asked.
    pub(super) request: Option<Request>,
}

/// What is to be done and said about one place.
#[derive(Clone, Debug, Default)]
pub(super) struct SiteOutcome {
    pub(super) steps: Vec<Step>,
    pub(super) hold: Option<Hold>,
    pub(super) waiting_approval: Option<String>,
    /// The promotion that brings the revision.
    pub(super) promotion: Option<PromotionSummary>,
    /// Revisions the place would leave behind.
    pub(super) leaves: Vec<String>,
}

/// Decides about the places of one environment.
pub(super) struct Judge<'a> {
    pub(super) world: &'a World<'a>,
    pub(super) environment: &'a Environment,
    pub(super) settings: &'a PromotionSettings,
    pub(super) sites: Vec<Site<'a>>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(
        world: &'a World<'a>,
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
        wanted: &Wanted,
        site: &Site<'_>,
        rejected: &[String],
    ) -> SiteOutcome {
        let mut outcome = self.move_on(wanted, site, rejected);
        outcome.leaves = leaves(wanted, site);
        outcome
    }

    fn move_on(&self, wanted: &Wanted, site: &Site<'_>, rejected: &[String]) -> SiteOutcome {
        if let Some(promotion) = self.under_way(wanted, site) {
            return self.goes_on(promotion);
        }
        if let Some(asked) = asked_for(site).filter(|_| wanted.request.is_none()) {
            return self.gives_way(wanted, site, asked);
        }
        // Asked to stay while something else is on its way from git, the place needs a new change.
        let is_moving = wanted.request.is_some()
            && site
                .promotions
                .iter()
                .any(|promotion| is_deploying(promotion));
        if site.runs(&wanted.revision) && !is_moving {
            return SiteOutcome {
                steps: self.withdraw_stale(wanted, site),
                ..SiteOutcome::default()
            };
        }
        if let Some(hold) = self.unusable(site) {
            return held(hold);
        }
        if wanted.request.is_none()
            && let Some(hold) = self.backwards(wanted, site, rejected)
        {
            return SiteOutcome {
                steps: self.withdraw_stale(wanted, site),
                ..held(hold)
            };
        }
        match self.suspended(&wanted.revision) {
            Some(hold) => held(hold),
            None => self.start(wanted, site),
        }
    }

    /// The promotion that already brings what is wanted, as the pipeline asks for it today.
    fn under_way<'b>(&self, wanted: &Wanted, site: &Site<'b>) -> Option<&'b Promotion> {
        let is_asked = |promotion: &&&Promotion| {
            let asked = wanted.request.as_ref().map(|request| request.id.as_str());
            let request = promotion.spec.request.as_ref();
            asked.is_some() && request.map(|request| request.id.as_str()) == asked
        };
        let brings = |promotion: &&&Promotion| {
            promotion.spec.revision == wanted.revision
                && (is_deploying(promotion) || is_unmerged(promotion) && self.fits(promotion))
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

    /// What there is to say about a promotion that goes on.
    pub(super) fn goes_on(&self, promotion: &Promotion) -> SiteOutcome {
        let revision = &promotion.spec.revision;
        let is_waiting = promotion.spec.needs_approval
            && promotion.spec.approval.is_none()
            && matches!(phase_of(promotion), None | Some(Phase::AwaitingApproval));
        let is_idle = !matches!(phase_of(promotion), Some(Phase::WaitingForMerge));
        SiteOutcome {
            hold: match is_waiting && is_unmerged(promotion) {
                true => Some(self.awaiting_approval(revision)),
                false => self
                    .suspended(revision)
                    .filter(|_| is_idle && is_unmerged(promotion)),
            },
            waiting_approval: is_waiting.then(|| revision.clone()),
            promotion: Some(summary(promotion)),
            ..SiteOutcome::default()
        }
    }

    /// What a person asked for is not overtaken by what comes along.
    fn gives_way(&self, wanted: &Wanted, site: &Site<'_>, asked: &Promotion) -> SiteOutcome {
        let mut outcome = self.goes_on_alone(asked, site);
        if outcome.hold.is_none() && !site.runs(&wanted.revision) {
            let revision = &asked.spec.revision;
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
    pub(super) fn unusable(&self, site: &Site<'_>) -> Option<Hold> {
        if site.targets.is_empty() {
            return Some(self.not_observed());
        }
        let targets = site.targets.iter();
        let unusable: Vec<_> = targets.filter(|it| it.problem.is_some()).collect();
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

    /// Why a revision that nobody asked for would be a step back.
    fn backwards(&self, wanted: &Wanted, site: &Site<'_>, rejected: &[String]) -> Option<Hold> {
        let revision = &wanted.revision;
        let name = &self.environment.name;
        let by_request = format!("a newer revision, or a request for {revision}, lifts this");
        let hold = |reason, sentence| Some(Hold::new(reason, sentence, by_request.clone()));
        if rejected.contains(revision) {
            let sentence =
                format!("{revision} was rolled back in {name}, or its pull request closed");
            return hold(HoldReason::Rejected, sentence);
        }
        if let Some(newer) = site.newer_than(revision) {
            let sentence = format!("{name} runs {newer}, which is newer than {revision}");
            return hold(HoldReason::OlderThanRunning, sentence);
        }
        if let Some(promotion) = site.failed(revision) {
            let status = promotion.status.as_ref();
            let message = status.and_then(|status| status.message.clone());
            let because = message.unwrap_or("it did not get ready".to_owned());
            let sentence = format!("{revision} failed in {name}: {because}");
            return hold(HoldReason::PromotionFailed, sentence);
        }
        if self.has_been_left(revision, site) {
            let sentence = format!("{revision} was in {name} before and was left");
            return hold(HoldReason::AlreadyRan, sentence);
        }
        None
    }

    /// Whether the revision was here and something else came after it. One that has reached only
    /// some targets so far has not been left.
    fn has_been_left(&self, revision: &str, site: &Site<'_>) -> bool {
        let name = self.environment.name.as_str();
        let ran = self.world.status(name).map(|status| status.ran.as_slice());
        let ran = ran.unwrap_or_default();
        let position = |revision: &str| ran.iter().position(|known| known == revision);
        let has_ran = position(revision).is_some();
        let was_merged = site
            .promotions
            .iter()
            .any(|promotion| promotion.spec.revision == revision && was_merged(promotion));
        if !has_ran && !was_merged {
            return false;
        }
        let is_running = self
            .world
            .targets(name)
            .iter()
            .any(|target| target.revision.as_deref() == Some(revision));
        let came_later = |other: &str| position(other) < position(revision) && has_ran;
        let is_followed = site
            .targets
            .iter()
            .filter_map(|target| target.revision.as_deref())
            .any(|other| other != revision && position(other).is_some() && came_later(other));
        !is_running || is_followed
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
    fn withdraw_stale(&self, wanted: &Wanted, site: &Site<'_>) -> Vec<Step> {
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

fn held(hold: Hold) -> SiteOutcome {
    SiteOutcome {
        hold: Some(hold),
        ..SiteOutcome::default()
    }
}

/// The promotion under way that a person asked for.
fn asked_for<'a>(site: &Site<'a>) -> Option<&'a Promotion> {
    let is_asked_for = |promotion: &&&Promotion| {
        promotion.spec.request.is_some() && (is_unmerged(promotion) || is_deploying(promotion))
    };
    site.promotions.iter().rev().find(is_asked_for).copied()
}

/// The revisions a place has or is about to get, other than the wanted one. Where it stays as it
/// is, that is what was on its way.
fn leaves(wanted: &Wanted, site: &Site<'_>) -> Vec<String> {
    let id = wanted.request.as_ref().map(|request| request.id.as_str());
    let replaced = site.promotions.iter().filter(|promotion| {
        let request = promotion.spec.request.as_ref();
        id.is_some() && request.map(|request| request.id.as_str()) == id
    });
    let running = site
        .targets
        .iter()
        .filter_map(|target| target.revision.clone());
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

impl Site<'_> {
    /// Whether every target runs the revision.
    pub(super) fn runs(&self, revision: &str) -> bool {
        let is_there =
            |target: &&api::pipeline::TargetStatus| target.revision.as_deref() == Some(revision);
        !self.targets.is_empty() && self.targets.iter().all(is_there)
    }

    /// A revision that is newer and runs here or is on its way from git.
    fn newer_than(&self, revision: &str) -> Option<&str> {
        let running = self
            .targets
            .iter()
            .filter_map(|target| target.revision.as_deref());
        let deploying = self
            .promotions
            .iter()
            .filter(|promotion| is_deploying(promotion));
        running
            .chain(deploying.map(|promotion| promotion.spec.revision.as_str()))
            .find(|other| order::is_older(revision, other))
    }

    /// The last promotion of the revision, if it failed by the revision's own fault.
    fn failed(&self, revision: &str) -> Option<&Promotion> {
        let of_revision = |promotion: &&&Promotion| promotion.spec.revision == revision;
        let all = self.promotions.iter().filter(of_revision);
        let last = all.max_by_key(|promotion| promotion.spec.ordinal)?;
        let status = last.status.as_ref()?;
        let is_refusal = status.reason.as_deref() == Some(crate::attempt::STRATEGY_CHANGED);
        (status.phase == Some(Phase::Failed) && !is_refusal).then_some(*last)
    }
}
