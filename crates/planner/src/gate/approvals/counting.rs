//! Which approvals count: those for this change of this promotion, by somebody whom the policy names, who
//! did not ask for it where that matters, and that have not expired.

use api::{
    Promotion,
    pipeline::{ApprovalPolicy, Approver},
    promotion::Approval,
};
use kube::ResourceExt;

use super::{ApprovalQuestion, KEY_PREFIX, NeededApprovals};
use crate::{
    overrides::override_of,
    time::{Timestamp, later},
};

/// Why a given approval does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCounted {
    /// It is not known what the promotion changes.
    UnknownChange,
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
    pub(super) fn clause(self, by: &str) -> String {
        match self {
            Self::UnknownChange => format!("{by} approved it before its change was known"),
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

impl ApprovalQuestion<'_> {
    /// Why an approval does not count; none if it does.
    pub(super) fn not_counted(
        &self,
        approval: &Approval,
        needed: &NeededApprovals<'_>,
    ) -> Option<NotCounted> {
        let policy = &needed.policy;
        if !self.is_of_this_pipeline() {
            return Some(NotCounted::OtherPipeline);
        }
        if approval.by.starts_with(KEY_PREFIX) && !needed.keys_count {
            return Some(NotCounted::Key);
        }
        if let Some(because) = self.other_change(approval) {
            return Some(because);
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

    /// Why the approval is not for the change that the promotion would make now. Earlier versions of
    /// Sluice stored an approval without naming the change.
    fn other_change(&self, approval: &Approval) -> Option<NotCounted> {
        if self.promotion.spec.approval.as_ref() == Some(approval) {
            return None;
        }
        let Some(digest) = change_digest(self.promotion) else {
            return Some(NotCounted::UnknownChange);
        };
        let is_named = approval.change_digest.as_deref() == Some(digest);
        (!is_named).then_some(NotCounted::OtherChange)
    }

    /// Whether the promotion was created for the Pipeline that exists now, not for a deleted one of
    /// the same name.
    fn is_of_this_pipeline(&self) -> bool {
        let Some(uid) = self.pipeline.and_then(|it| it.metadata.uid.as_ref()) else {
            return true;
        };
        let mut owners = self.promotion.owner_references().iter();
        owners.any(|owner| owner.kind == "Pipeline" && owner.uid == *uid)
    }

    /// Whether the user overrode a gate for the promotion: then somebody else must approve.
    fn is_overridden_by(&self, user: &str) -> bool {
        let overriding = self.pipeline.and_then(|it| override_of(it, self.promotion));
        overriding.is_some_and(|it| it.by.as_deref() == Some(user))
    }

    /// Whether the user has approved what the promotion would change now.
    pub(super) fn has_approved(&self, user: &str) -> bool {
        let digest = change_digest(self.promotion);
        let mut approvals = self.promotion.spec.approvals.iter();
        approvals.any(|it| it.by == user && it.change_digest.as_deref() == digest)
    }

    /// Whether an approval of the user does not count whatever they approve, because they requested it.
    pub(super) fn is_excluded(&self, user: &str) -> bool {
        let own = self.promotion.spec.approval_policy.as_ref();
        let current = self.settings.and_then(|it| it.approval_policy.as_ref());
        let policies = own.into_iter().chain(current);
        let is_policy = policies.into_iter().any(|it| it.not_requester);
        self.is_overridden_by(user) || is_policy && self.requested_by(user).is_some()
    }

    /// Whether the user asked for the promotion: it was created for their request, or their request
    /// found it under way.
    fn requested_by(&self, user: &str) -> Option<NotCounted> {
        let own = self.promotion.spec.request.as_ref();
        let own = own.map(|request| request.by.as_deref());
        let status = self.pipeline.and_then(|it| it.status.as_ref());
        let status = status.and_then(|it| it.environments.get(&self.promotion.spec.environment));
        let last = status.and_then(|status| status.last_request.as_ref());
        let joined = last.filter(|last| last.led_to(self.promotion));
        let joined = joined.map(|last| last.by.as_deref());
        let mut requesters = own.into_iter().chain(joined);
        if requesters.clone().any(|by| by == Some(user)) {
            return Some(NotCounted::Requester);
        }
        requesters
            .any(|by| by.is_none())
            .then_some(NotCounted::UnknownRequester)
    }

    pub(super) fn expires_at(
        &self,
        approval: &Approval,
        policy: &ApprovalPolicy,
    ) -> Option<Timestamp> {
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
