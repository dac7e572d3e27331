//! Gate `approvals`: enough people have approved the promotion, where the pipeline demands that.
//!
//! It is asked of the existing promotion, so that people can read what they approve. An approval counts for
//! one promotion and one change only, and only if its user is among those whom the policy names.

use std::borrow::Cow;

use api::{
    Pipeline, Promotion,
    pipeline::{ApprovalPolicy, Approver, PromotionSettings},
    promotion::{Approval, ObservedApproval, Phase},
};
use kube::ResourceExt;

use super::{Gate, GateStage, GateVerdict, PromotionQuestion};
use crate::{
    hold::{Hold, HoldReason, list},
    overrides::override_of,
    promotion_phase::phase_of,
    time::{Timestamp, later, stored},
};

pub(super) const GATE: Gate = Gate {
    name: "approvals",
    request_overrides: false,
    rollback_skips: false,
    stage: GateStage::Promotion,
    again: Some(again),
};

/// How approvals by the key of a webhook are named.
pub(crate) const KEY_PREFIX: &str = "secret:";

/// Why a given approval does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCounted {
    /// It is for another change than the promotion would make now.
    OtherChange,
    /// The policy does not name the user, nor the group of the approval.
    NotAmongApprovers,
    /// The user requested the promotion.
    Requester,
    /// It is not recorded who requested the promotion.
    UnknownRequester,
    /// It has expired.
    Expired,
    /// The controller has not recorded yet when it saw the approval.
    NotObserved,
    /// The key of a webhook counts only where one approval by anybody is enough.
    Key,
    /// The promotion belongs to a Pipeline of the same name that was deleted.
    OtherPipeline,
}

impl NotCounted {
    fn clause(self, by: &str) -> String {
        match self {
            Self::OtherChange => format!("{by} approved another change than this one"),
            Self::NotAmongApprovers => format!("{by} is not among those whose approval counts"),
            Self::Requester => format!("{by} requested it and cannot approve it"),
            Self::UnknownRequester => {
                format!("{by} may have requested it: the request names nobody")
            }
            Self::Expired => format!("the approval of {by} has expired"),
            Self::NotObserved => format!("the approval of {by} is being recorded"),
            Self::Key => format!("{by} is a key and not a person"),
            Self::OtherPipeline => format!("{by} approved it for a pipeline that was deleted"),
        }
    }
}

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

/// Whether the promotion has not got any further than to wait for approvals.
fn may_be_approved(promotion: &Promotion) -> bool {
    let spec = &promotion.spec;
    let is_open = spec.withdrawn.is_none() && spec.rejection.is_none();
    let phase = phase_of(promotion);
    is_open && phase.is_none_or(|phase| phase == Phase::AwaitingApproval)
}

/// Whether the controller has not looked at a new promotion yet. What it changes is not known then, so
/// that an approval would not count.
pub fn is_change_pending(promotion: &Promotion) -> bool {
    phase_of(promotion).is_none()
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
    let is_waiting = phase_of(promotion) == Some(Phase::AwaitingApproval);
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
        let settings = self.settings;
        let policy = settings.and_then(|it| it.approval_policy.as_ref());
        let current = NeededApprovals::of(policy, settings.is_some_and(|it| it.manual));
        let states = own.iter().chain(&current).map(|it| self.compare(it));
        states.max_by_key(ApprovalState::missing)
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

    fn not_counted(&self, approval: &Approval, needed: &NeededApprovals<'_>) -> Option<NotCounted> {
        let policy = &needed.policy;
        if !self.is_of_this_pipeline() {
            return Some(NotCounted::OtherPipeline);
        }
        if approval.by.starts_with(KEY_PREFIX) && !needed.keys_count {
            return Some(NotCounted::Key);
        }
        if !self.is_for_this_change(approval) {
            return Some(NotCounted::OtherChange);
        }
        if !is_among(approval, &policy.from) {
            return Some(NotCounted::NotAmongApprovers);
        }
        if self.is_overridden_by(&approval.by) {
            return Some(NotCounted::Requester);
        }
        if policy.not_requester
            && let Some(because) = self.requested_by(&approval.by)
        {
            return Some(because);
        }
        policy.expires.as_ref()?;
        match self.expires_at(approval, policy) {
            None => Some(NotCounted::NotObserved),
            Some(at) => (self.now >= at).then_some(NotCounted::Expired),
        }
    }

    /// Whether the approval names the change that the promotion would make now. Earlier versions of
    /// Sluice stored an approval without naming the change.
    fn is_for_this_change(&self, approval: &Approval) -> bool {
        let is_of_earlier_version = self.promotion.spec.approval.as_ref() == Some(approval);
        let digest = approval
            .change_digest
            .as_deref()
            .filter(|it| !it.is_empty());
        is_of_earlier_version || digest == change_digest(self.promotion)
    }

    /// Whether the promotion was created for the Pipeline that exists now, not for a deleted one of
    /// the same name.
    fn is_of_this_pipeline(&self) -> bool {
        let Some(uid) = self.pipeline.and_then(|it| it.metadata.uid.as_ref()) else {
            return true;
        };
        let owners = self.promotion.owner_references().iter();
        let mut pipelines = owners.filter(|owner| owner.kind == "Pipeline");
        pipelines.all(|owner| owner.uid == *uid)
    }

    /// Whether the user overrode a gate for the promotion: then somebody else must approve.
    fn is_overridden_by(&self, user: &str) -> bool {
        let overriding = self.pipeline.and_then(|it| override_of(it, self.promotion));
        overriding.is_some_and(|it| it.by.as_deref() == Some(user))
    }

    /// Whether the user asked for the promotion: it was created for their request, or their request
    /// found it under way.
    fn requested_by(&self, user: &str) -> Option<NotCounted> {
        let own = self.promotion.spec.request.as_ref();
        let own = own.map(|request| request.by.as_deref());
        let status = self.pipeline.and_then(|it| it.status.as_ref());
        let status = status.and_then(|it| it.environments.get(&self.promotion.spec.environment));
        let last = status.and_then(|status| status.last_request.as_ref());
        let name = self.promotion.metadata.name.as_ref();
        let joined = last.filter(|last| name.is_some() && last.promotion.as_ref() == name);
        let joined = joined.map(|last| last.by.as_deref());
        let mut requesters = own.into_iter().chain(joined);
        if requesters.clone().any(|by| by == Some(user)) {
            return Some(NotCounted::Requester);
        }
        requesters
            .any(|by| by.is_none())
            .then_some(NotCounted::UnknownRequester)
    }

    fn expires_at(&self, approval: &Approval, policy: &ApprovalPolicy) -> Option<Timestamp> {
        let expires = policy.expires.as_ref()?.length();
        let status = self.promotion.status.as_ref()?;
        let mut observed = status.approvals.iter();
        let observed = observed.find(|it| it.by == approval.by && it.at == approval.at)?;
        Some(later(observed.observed_at.as_ref()?.0, expires))
    }
}

/// The digest of the change that a promotion would make now, as far as it is known.
fn change_digest(promotion: &Promotion) -> Option<&str> {
    let status = promotion.status.as_ref()?;
    let change = status.change.as_ref();
    change.map(|change| change.digest.as_str())
}

fn is_among(approval: &Approval, from: &[Approver]) -> bool {
    let is_named = |it: &Approver| {
        let is_user = it.user.as_ref() == Some(&approval.by);
        is_user || it.group.is_some() && it.group == approval.group
    };
    from.is_empty() || from.iter().any(is_named)
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

/// Whether a promotion needs approvals and has all of them.
pub(crate) fn is_complete(question: &PromotionQuestion<'_>) -> bool {
    let state = ApprovalQuestion::of(question).state();
    state.is_some_and(|state| state.missing() == 0)
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
        let what = match (state.needed, state.missing()) {
            (1, _) if from.is_empty() => format!("{revision} waits for approval"),
            (needed, missing) => {
                let more = if missing < needed { " more" } else { "" };
                let approvals = if missing == 1 {
                    "approval"
                } else {
                    "approvals"
                };
                format!("{revision} needs {missing}{more} {approvals}{from}")
            }
        };
        let approved = (!state.approved_by.is_empty())
            .then(|| format!("approved by {}", list(&state.approved_by)));
        let ignored = state.not_counted.iter().map(|(by, it)| it.clause(by));
        let clauses = [format!("{what} to enter {environment}")].into_iter();
        let clauses: Vec<_> = clauses.chain(approved).chain(ignored).collect();
        Some(Hold::new(
            HoldReason::AwaitingApproval,
            clauses.join("; "),
            format!("an approval of {revision}{from}"),
        ))
    }
}
