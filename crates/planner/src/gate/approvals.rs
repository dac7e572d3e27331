//! Gate `approvals`: enough people have approved the promotion, where the pipeline demands that.
//!
//! It is asked of the existing promotion, so that people can read what they approve. An approval counts for
//! one promotion and one change only, and only if its user is among those whom the policy names.

mod counting;

use std::borrow::Cow;

use api::{
    Pipeline, Promotion,
    pipeline::{ApprovalPolicy, Approver, PromotionSettings},
    promotion::{Approval, ObservedApproval, Phase},
};

use super::{Gate, GateStage, GateVerdict, PromotionQuestion};
use crate::{
    hold::{Hold, HoldReason, list},
    promotion_phase::{phase_of, rollback_clause},
    time::{Timestamp, stored},
};

pub use counting::NotCounted;

pub(super) const GATE: Gate = Gate {
    name: "approvals",
    skipped: None,
    rollback_skips: false,
    stage: GateStage::Promotion,
    again: Some(again),
};

/// Before the reason why what a promotion changes could not be read.
pub(crate) const CHANGE_NOT_KNOWN: &str =
    "it cannot be approved yet, because what it changes is not known";
/// How approvals by the key of a webhook are named.
pub(crate) const KEY_PREFIX: &str = "secret:";

/// The approvals of a promotion beside those that it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalState {
    /// How many it needs.
    pub needed: usize,
    /// The users whose approvals count.
    pub approved_by: Vec<String>,
    /// The users whose approvals do not count, and why.
    pub not_counted: Vec<(String, NotCounted)>,
    /// From whom approvals are needed, for people; nothing where everybody with the right may approve.
    pub from: Option<String>,
    /// When the first of those that count expires.
    pub expires_at: Option<Timestamp>,
}

impl ApprovalState {
    /// How many approvals are missing.
    pub fn missing(&self) -> usize {
        self.needed.saturating_sub(self.approved_by.len())
    }

    /// How many are missing once the controller has recorded those that were given.
    pub fn missing_once_recorded(&self) -> usize {
        let given = self.not_counted.iter();
        let recorded = given.filter(|(_, because)| *because == NotCounted::NotObserved);
        self.missing().saturating_sub(recorded.count())
    }
}

/// What the approvals of a promotion are compared with.
#[derive(Clone, Copy)]
pub(crate) struct ApprovalQuestion<'a> {
    pub(crate) promotion: &'a Promotion,
    /// Its pipeline, where that is known: then who asked for a promotion under way counts as requester.
    pub(crate) pipeline: Option<&'a Pipeline>,
    /// The settings that the pipeline has now; they may demand more than when the promotion was created.
    pub(crate) settings: Option<&'a PromotionSettings>,
    pub(crate) now: Timestamp,
}

/// The approvals of a promotion, and which of them count; nothing where it needs none.
pub fn approval_state(
    promotion: &Promotion,
    pipeline: Option<&Pipeline>,
    now: Timestamp,
) -> Option<ApprovalState> {
    let settings = pipeline.and_then(|it| it.spec.promotion_into(&promotion.spec.environment));
    ApprovalQuestion {
        promotion,
        pipeline,
        settings,
        now,
    }
    .state()
}

/// Whether the promotion waits for approvals: before it is carried out, or, where some have expired since,
/// before its pull request is merged.
fn may_be_approved(promotion: &Promotion) -> bool {
    let spec = &promotion.spec;
    let is_open = spec.withdrawn.is_none() && spec.rejection.is_none();
    let is_unmerged = match phase_of(promotion) {
        None | Some(Phase::AwaitingApproval) => true,
        Some(Phase::WaitingForMerge) => {
            let status = promotion.status.as_ref();
            let reason = status.and_then(|status| status.reason.as_deref());
            reason == Some(HoldReason::AwaitingApproval.word())
        }
        Some(_) => false,
    };
    is_open && is_unmerged
}

/// Whether the controller has not looked at a new promotion yet. What it changes is not known then, so
/// that an approval would not count.
pub fn is_change_pending(promotion: &Promotion) -> bool {
    phase_of(promotion).is_none()
}

/// Why nobody can approve a promotion now, for people: it is not known what it changes.
pub fn unknown_change(promotion: &Promotion) -> Option<String> {
    let status = promotion.status.as_ref();
    if status.is_some_and(|status| status.change.is_some()) {
        return None;
    }
    let (spec, message) = (&promotion.spec, status.and_then(|it| it.message.as_deref()));
    let because = message.and_then(|message| message.strip_prefix(CHANGE_NOT_KNOWN));
    let because = because.unwrap_or(": the controller has not read it yet");
    Some(format!(
        "{} cannot be approved for {}, because what it changes is not known{because}; \
         approve it again when that is resolved",
        spec.shown_revision(),
        spec.environment
    ))
}

/// Whether nobody can approve a promotion until somebody resolves why what it changes cannot be read.
pub(crate) fn is_unapprovable(phase: Option<Phase>, message: Option<&str>) -> bool {
    phase == Some(Phase::AwaitingApproval)
        && message.is_some_and(|message| message.starts_with(CHANGE_NOT_KNOWN))
}

/// Whether the approval of a user would bring a promotion no closer: they approved what it changes now, or they
/// requested it and somebody else must approve.
pub fn needs_another_person(promotion: &Promotion, pipeline: &Pipeline, user: &str) -> bool {
    let question = ApprovalQuestion {
        promotion,
        pipeline: Some(pipeline),
        settings: pipeline.spec.promotion_into(&promotion.spec.environment),
        now: Timestamp::MIN,
    };
    question.has_approved(user) || question.is_excluded(user)
}

/// Whether a person can approve the promotion now, by the promotion alone: the controller says that it
/// waits for approvals, and has seen those that were given, or they are too few in any case.
pub(crate) fn is_awaited(promotion: &Promotion) -> bool {
    if !may_be_approved(promotion) {
        return false;
    }
    let question = ApprovalQuestion {
        promotion,
        pipeline: None,
        settings: None,
        now: Timestamp::MIN,
    };
    let is_waiting = phase_of(promotion).is_some();
    question.is_missing() || is_waiting && unobserved(promotion).next().is_none()
}

/// The approvals that the controller has not recorded yet, or that were replaced since.
pub(crate) fn unobserved(promotion: &Promotion) -> impl Iterator<Item = &Approval> {
    let status = promotion.status.as_ref();
    let observed = status.map(|status| status.approvals.as_slice());
    let observed = observed.unwrap_or_default();
    let is_new = |it: &&Approval| {
        !observed
            .iter()
            .any(|seen| seen.by == it.by && seen.at == it.at)
    };
    promotion.spec.approvals.iter().filter(is_new)
}

/// What the controller records about the approvals of a promotion: when it first saw each of them.
pub(crate) fn observe(promotion: &Promotion, now: Timestamp) -> Vec<ObservedApproval> {
    let status = promotion.status.as_ref();
    let known = status.map(|status| status.approvals.as_slice());
    let known = known.unwrap_or_default();
    let seen = |approval: &Approval| {
        let mut known = known.iter();
        let known = known.find(|it| it.by == approval.by && it.at == approval.at);
        known.cloned().unwrap_or_else(|| ObservedApproval {
            by: approval.by.clone(),
            at: approval.at.clone(),
            observed_at: Some(stored(now)),
        })
    };
    promotion.spec.approvals.iter().map(seen).collect()
}

/// Approvals that are needed, by the promotion or by its pipeline.
struct NeededApprovals<'a> {
    policy: Cow<'a, ApprovalPolicy>,
    /// Whether the key of a webhook may approve.
    keys_count: bool,
}

impl<'a> NeededApprovals<'a> {
    fn of(policy: Option<&'a ApprovalPolicy>, needs_one: bool) -> Option<Self> {
        match policy {
            Some(policy) => Some(Self {
                policy: Cow::Borrowed(policy),
                keys_count: false,
            }),
            None => needs_one.then(|| Self {
                policy: Cow::Owned(ApprovalPolicy::default()),
                keys_count: true,
            }),
        }
    }
}

impl<'a> ApprovalQuestion<'a> {
    /// Whether approvals are missing.
    pub(crate) fn is_missing(&self) -> bool {
        self.state().is_some_and(|state| state.missing() > 0)
    }

    /// Whether nothing but approvals is missing, so that a person can give one now.
    pub(crate) fn is_awaited(&self) -> bool {
        may_be_approved(self.promotion) && self.is_missing()
    }

    /// The state by the stricter of the promotion's policy and the pipeline's.
    pub(crate) fn state(&self) -> Option<ApprovalState> {
        let spec = &self.promotion.spec;
        let own = NeededApprovals::of(spec.approval_policy.as_ref(), spec.needs_approval);
        let settings = self.settings.filter(|_| !self.was_approved_before());
        let policy = settings.and_then(|it| it.approval_policy.as_ref());
        let current = NeededApprovals::of(policy, settings.is_some_and(|it| it.manual));
        let states = own.iter().chain(&current).map(|it| self.compare(it));
        states.max_by_key(ApprovalState::missing)
    }

    /// Whether it is a derived rollback that needs no approval: people approved the revision there before.
    fn was_approved_before(&self) -> bool {
        let spec = &self.promotion.spec;
        let status = self.pipeline.and_then(|it| it.status.as_ref());
        let status = status.and_then(|it| it.environments.get(&spec.environment));
        let mut ran = status.into_iter().flat_map(|it| &it.ran);
        let is_approved = ran.any(|it| it.revision == spec.revision && it.approved);
        spec.cause.is_some() && !spec.needs_approval && is_approved
    }

    fn compare(&self, needed: &NeededApprovals<'_>) -> ApprovalState {
        let mut state = ApprovalState {
            needed: usize::try_from(needed.policy.count).unwrap_or(1).max(1),
            from: names(&needed.policy.from),
            ..ApprovalState::default()
        };
        for approval in self.promotion.spec.given_approvals() {
            let by = approval.by.clone();
            match self.not_counted(approval, needed) {
                Some(because) => state.not_counted.push((by, because)),
                None if state.approved_by.contains(&by) => {}
                None => {
                    let expires_at = self.expires_at(approval, &needed.policy);
                    state.expires_at = state.expires_at.into_iter().chain(expires_at).min();
                    state.approved_by.push(by);
                }
            }
        }
        state
    }
}

/// `group sre or user ann`.
fn names(from: &[Approver]) -> Option<String> {
    let name = |it: &Approver| match (&it.group, &it.user) {
        (Some(group), _) => format!("group {group}"),
        (None, user) => format!("user {}", user.as_deref().unwrap_or_default()),
    };
    let names: Vec<_> = from.iter().map(name).collect();
    (!names.is_empty()).then(|| names.join(" or "))
}

fn again(question: &PromotionQuestion<'_>) -> GateVerdict {
    ApprovalQuestion::of(question).hold().into()
}

/// Whether a promotion needs approvals and has all of them. One that the controller is about to record
/// counts: a newer candidate must not supersede what people have approved.
pub(crate) fn is_complete(question: &PromotionQuestion<'_>) -> bool {
    let state = ApprovalQuestion::of(question).state();
    state.is_some_and(|state| state.missing_once_recorded() == 0)
}

impl<'a> ApprovalQuestion<'a> {
    pub(crate) fn of(question: &PromotionQuestion<'a>) -> Self {
        Self {
            promotion: question.promotion,
            pipeline: Some(question.pipeline),
            settings: question.settings,
            now: question.now,
        }
    }

    /// The hold of a promotion that waits for approvals.
    pub(crate) fn hold(&self) -> Option<Hold> {
        let state = self.state().filter(|state| state.missing() > 0)?;
        let revision = self.promotion.spec.shown_revision();
        let environment = &self.promotion.spec.environment;
        let from = state.from.as_ref().map(|from| format!(" from {from}"));
        let from = from.unwrap_or_default();
        let (missing, more) = (state.missing(), state.missing() < state.needed);
        let more = if more { " more" } else { "" };
        let approvals = match missing {
            1 => format!("1{more} approval"),
            missing => format!("{missing}{more} approvals"),
        };
        let what = match state.needed {
            1 if from.is_empty() => format!("{revision} waits for approval"),
            _ => format!("{revision} needs {approvals}{from}"),
        };
        let resolved_by = match state.needed {
            1 => format!("an approval of {revision}{from}"),
            _ => format!("{approvals} of {revision}{from}"),
        };
        let approved = (!state.approved_by.is_empty())
            .then(|| format!("approved by {}", list(&state.approved_by)));
        let ignored = state.not_counted.iter().map(|(by, it)| it.clause(by));
        let clauses = [format!("{what} to enter {environment}")].into_iter();
        let clauses = clauses.chain(rollback_clause(self.promotion));
        let clauses: Vec<_> = clauses.chain(approved).chain(ignored).collect();
        Some(Hold::new(
            HoldReason::AwaitingApproval,
            clauses.join("; "),
            resolved_by,
        ))
    }
}
