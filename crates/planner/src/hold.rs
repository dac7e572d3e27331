//! Why a promotion does not start or go on: a fixed reason, a sentence, and what resolves it.

use api::pipeline::HoldStatus;

use crate::{
    conditions::ConditionValue,
    time::{Timestamp, stored},
};

/// Declares the reasons: for each its documentation, its variant, which is also its word, and the
/// gate that it belongs to.
macro_rules! hold_reasons {
    ($($(#[$doc:meta])* $reason:ident of $gate:ident,)*) => {
        /// The fixed reasons why a promotion does not start or go on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum HoldReason {
            $($(#[$doc])* $reason,)*
        }

        impl HoldReason {
            /// Every reason, for metrics that start at zero.
            pub const ALL: &[Self] = &[$(Self::$reason,)*];

            /// The word in status, events and metrics.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$reason => stringify!($reason),)*
                }
            }

            /// The name of the gate that answers with it.
            pub const fn gate(self) -> &'static str {
                match self {
                    $(Self::$reason => stringify!($gate),)*
                }
            }
        }
    };
}

hold_reasons! {
    /// The pipeline can never work as it is written.
    InvalidSpec of valid,
    /// The pipeline's source does not fit its app.
    InvalidSource of valid,
    /// The pipeline's source could not be read.
    SourceUnreadable of valid,
    /// The promotion settings name no strategy.
    NoStrategy of valid,
    /// Without `appRef`, apps are shown and not promoted.
    NoAppRef of valid,
    /// A cluster selector matches no cluster.
    NoTargetsMatch of targets,
    /// The environment has not been observed yet.
    NotObserved of targets,
    /// The revision of a target of the source environment is not known.
    SourceNotDeployed of readiness,
    /// The targets of the source environment run different revisions.
    SourceTargetsDiffer of readiness,
    /// The source environment is not ready at its revision.
    SourceNotReady of readiness,
    /// The source environments have no revision in common that may go on.
    NoCommonRevision of readiness,
    /// The revision has failed in the source environment since its promotion was created.
    SourceFailed of readiness,
    /// Reports do not name their target, and all targets count.
    TargetsNotDistinguishable of readiness,
    /// The source environment has reported without a signature.
    ReportNotSigned of readiness,
    /// The checks of the source environment have not all passed yet.
    Verifying of verified,
    /// A check of the source environment failed for the revision.
    VerificationFailed of verified,
    /// A check failed, and the environment cannot be rolled back.
    RollbackNotPossible of verified,
    /// The source environment has not been ready for long enough.
    Soaking of soak,
    /// Both environments follow the same source, so that the revision proves nothing.
    SharedSource of readiness,
    /// Targets run the same version from different OCI artifacts.
    DigestDiffers of readiness,
    /// The app is missing in a target.
    AppMissing of targets,
    /// A target cannot be read.
    TargetUnreachable of targets,
    /// A newer revision runs in the site.
    OlderThanRunning of order,
    /// The revision ran in the site before and was replaced.
    AlreadyRan of order,
    /// The revision was rolled back, rejected or cancelled, or its pull request was closed.
    Rejected of order,
    /// An earlier promotion of the revision failed.
    PromotionFailed of order,
    /// A promotion that a person requested comes first.
    RequestUnderWay of turn,
    /// A promotion that has all its approvals comes first.
    ApprovedUnderWay of turn,
    /// A rollout comes first.
    RolloutUnderWay of turn,
    /// An earlier promotion into the site has not ended.
    WaitingForPredecessor of turn,
    /// Flux has not verified a signature of the revision, and the environment demands one.
    SourceNotVerified of signature,
    /// A Freeze that covers the environment is closed.
    Frozen of freeze,
    /// A Freeze that covers the environment cannot be understood, and counts as closed.
    InvalidFreeze of freeze,
    /// The checks before the environment have not all passed yet.
    CheckPending of checks,
    /// A check before the environment failed.
    CheckFailed of checks,
    /// The rollout was stopped by a person, or because too many targets failed.
    RolloutStopped of rollout,
    /// More targets cannot be reached than the rollout allows.
    TooManyUnreachable of rollout,
    /// The targets of a wave have not been ready for long enough.
    WaveSoaking of rollout,
    /// Targets of a wave are not ready.
    WaveNotReady of rollout,
    /// A person must approve.
    AwaitingApproval of approvals,
    /// The pipeline or the environment is suspended.
    Suspended of suspended,
}

impl HoldReason {
    /// Whether something failed or was rejected. Otherwise the revision is only not the next one.
    pub const fn is_failure(self) -> bool {
        !matches!(self, Self::OlderThanRunning | Self::AlreadyRan)
    }
}

/// What a stored reason means for its environment, as the beginning of a sentence: that it waits, or that it is
/// ahead of its source environment and as it should be.
pub fn hold_label(reason: &str) -> &'static str {
    match reason == HoldReason::OlderThanRunning.word() {
        true => "nothing newer to bring",
        false => "waits",
    }
}

/// The name of a gate that is closed by a reason, in few words, where the name of the gate would say the opposite or
/// too little.
pub fn closed_label(reason: HoldReason) -> Option<&'static str> {
    Some(match reason {
        HoldReason::Suspended => "suspended",
        HoldReason::Frozen | HoldReason::InvalidFreeze => "frozen",
        HoldReason::Rejected => "rejected",
        HoldReason::OlderThanRunning => "older",
        HoldReason::AlreadyRan => "ran before",
        HoldReason::PromotionFailed => "failed before",
        HoldReason::AppMissing => "app missing",
        HoldReason::TargetUnreachable => "target unreadable",
        HoldReason::SourceNotVerified => "signature missing",
        _ => return None,
    })
}

/// Whether a revision that is held by a stored reason also waits for other gates: not one that is older or
/// rejected, which does not come.
pub fn waits_further(reason: &str) -> bool {
    let mut reasons = HoldReason::ALL.iter();
    let reason = reasons.find(|it| it.word() == reason);
    reason.is_none_or(|it| it.gate() != HoldReason::Rejected.gate())
}

/// Why nothing starts in one environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The fixed reason.
    pub reason: HoldReason,
    /// What is the case, as a clause without a full stop.
    pub sentence: String,
    /// What resolves it, as a noun phrase without a full stop.
    pub resolved_by: String,
    /// When time alone resolves it.
    pub opens_at: Option<Timestamp>,
    /// The revision that was rejected or failed, and that a person can request nevertheless.
    pub requestable: Option<String>,
}

impl Hold {
    pub(crate) fn new(
        reason: HoldReason,
        sentence: impl Into<String>,
        resolved_by: impl Into<String>,
    ) -> Self {
        Self {
            reason,
            sentence: sentence.into(),
            resolved_by: resolved_by.into(),
            opens_at: None,
            requestable: None,
        }
    }

    /// The sentence and what resolves it.
    pub fn message(&self) -> String {
        format!("{}; resolved by {}", self.sentence, self.resolved_by)
    }

    /// Whether it ends by itself within moments, so that the pipeline's status does not tell of it: each
    /// successor of a promotion waits until that has ended.
    pub(crate) fn is_short(&self) -> bool {
        self.reason == HoldReason::WaitingForPredecessor
    }

    /// The hold as it is stored.
    pub fn status(&self) -> HoldStatus {
        HoldStatus {
            reason: self.reason.word().to_owned(),
            message: self.message(),
            opens_at: self.opens_at.map(stored),
            requestable: self.requestable.clone(),
        }
    }

    /// The hold as the condition `PromotionPending`. Where the Weave pipeline-controller waited too,
    /// the condition has its texts.
    pub(crate) fn pending(&self) -> ConditionValue {
        let reason = "EnvironmentNotReady";
        match self.reason {
            HoldReason::SourceNotDeployed | HoldReason::SourceTargetsDiffer => {
                let message = "Waiting for all targets to have the same revision";
                ConditionValue::new("True", reason, message)
            }
            HoldReason::SourceNotReady => {
                ConditionValue::new("True", reason, "Waiting for all targets to be ready")
            }
            other => ConditionValue::new("True", other.word(), self.message()),
        }
    }
}

/// How many items a list names at most.
const NAMED: usize = 5;

/// `a`, `a and b`, `a, b and c`; of many the first few, `and 7 more`.
pub(crate) fn list<T: AsRef<str>>(parts: &[T]) -> String {
    let named = parts.len().min(NAMED);
    let (named, rest) = match parts.len() - named {
        0 | 1 => (parts, 0),
        rest => (&parts[..named], rest),
    };
    let more = format!("{rest} more");
    let mut all: Vec<&str> = named.iter().map(AsRef::as_ref).collect();
    all.extend((rest > 0).then_some(more.as_str()));
    match all.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// ` and 7 more` where one of eight is named.
pub(crate) fn and_more(count: usize) -> String {
    match count.saturating_sub(1) {
        0 => String::new(),
        more => format!(" and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_names_the_first_items() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        for (count, expected) in [
            (0, ""),
            (1, "a"),
            (2, "a and b"),
            (6, "a, b, c, d, e and f"),
            (7, "a, b, c, d, e and 2 more"),
        ] {
            assert_eq!(list(&names[..count]), expected);
        }
    }
}
