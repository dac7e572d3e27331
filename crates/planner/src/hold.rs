//! Why nothing starts: a fixed word, a sentence, and what or when would change that.

use api::pipeline::HoldStatus;

use crate::{
    conditions::ConditionValue,
    time::{Timestamp, stored},
};

/// The fixed words for why a promotion does not start or go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HoldReason {
    /// The pipeline can never work as it is written.
    InvalidSpec,
    /// The pipeline's source does not fit its app.
    InvalidSource,
    /// The pipeline's source could not be read.
    SourceUnreadable,
    /// The promotion settings name no strategy.
    NoStrategy,
    /// Without `appRef` apps are only shown.
    NoAppRef,
    /// A cluster selector matches nothing.
    NoTargetsMatch,
    /// The environment has not been looked at yet.
    NotObserved,
    /// A target of the source environment runs nothing that is known.
    SourceNotDeployed,
    /// The targets of the source environment run different revisions.
    SourceTargetsDiffer,
    /// The source environment is not ready at its revision.
    SourceNotReady,
    /// Reports do not tell which target they are about, and all targets count.
    TargetsNotDistinguishable,
    /// The source environment has reported without a signature.
    ReportNotSigned,
    /// The source environment has not been ready for long enough.
    Soaking,
    /// Both environments follow the same source, so the revision tells nothing.
    SharedSource,
    /// The app is missing in a target.
    AppMissing,
    /// A target cannot be read.
    TargetUnreachable,
    /// A newer revision runs there.
    OlderThanRunning,
    /// The revision has been there before.
    AlreadyRan,
    /// The revision was rolled back, or its pull request closed.
    Rejected,
    /// The revision was brought there and did not work.
    PromotionFailed,
    /// What a person asked for comes first.
    RequestUnderWay,
    /// A person must approve.
    AwaitingApproval,
    /// The pipeline or the environment is suspended.
    Suspended,
}

impl HoldReason {
    /// Every reason, for metrics that start at zero.
    pub const ALL: &[Self] = &[
        Self::InvalidSpec,
        Self::InvalidSource,
        Self::SourceUnreadable,
        Self::NoStrategy,
        Self::NoAppRef,
        Self::NoTargetsMatch,
        Self::NotObserved,
        Self::SourceNotDeployed,
        Self::SourceTargetsDiffer,
        Self::SourceNotReady,
        Self::TargetsNotDistinguishable,
        Self::ReportNotSigned,
        Self::Soaking,
        Self::SharedSource,
        Self::AppMissing,
        Self::TargetUnreachable,
        Self::OlderThanRunning,
        Self::AlreadyRan,
        Self::Rejected,
        Self::PromotionFailed,
        Self::RequestUnderWay,
        Self::AwaitingApproval,
        Self::Suspended,
    ];

    /// The word itself.
    pub fn word(self) -> &'static str {
        match self {
            Self::InvalidSpec => "InvalidSpec",
            Self::InvalidSource => "InvalidSource",
            Self::SourceUnreadable => "SourceUnreadable",
            Self::NoStrategy => "NoStrategy",
            Self::NoAppRef => "NoAppRef",
            Self::NoTargetsMatch => "NoTargetsMatch",
            Self::NotObserved => "NotObserved",
            Self::SourceNotDeployed => "SourceNotDeployed",
            Self::SourceTargetsDiffer => "SourceTargetsDiffer",
            Self::SourceNotReady => "SourceNotReady",
            Self::TargetsNotDistinguishable => "TargetsNotDistinguishable",
            Self::ReportNotSigned => "ReportNotSigned",
            Self::Soaking => "Soaking",
            Self::SharedSource => "SharedSource",
            Self::AppMissing => "AppMissing",
            Self::TargetUnreachable => "TargetUnreachable",
            Self::OlderThanRunning => "OlderThanRunning",
            Self::AlreadyRan => "AlreadyRan",
            Self::Rejected => "Rejected",
            Self::PromotionFailed => "PromotionFailed",
            Self::RequestUnderWay => "RequestUnderWay",
            Self::AwaitingApproval => "AwaitingApproval",
            Self::Suspended => "Suspended",
        }
    }
}

/// Why nothing starts in one environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The fixed word.
    pub reason: HoldReason,
    /// What is the case, as a clause without a full stop.
    pub sentence: String,
    /// What would lift the hold, as a clause without a full stop.
    pub lifted_by: String,
    /// When time alone lifts it.
    pub opens_at: Option<Timestamp>,
}

impl Hold {
    pub(crate) fn new(
        reason: HoldReason,
        sentence: impl Into<String>,
        lifted_by: impl Into<String>,
    ) -> Self {
        Self {
            reason,
            sentence: sentence.into(),
            lifted_by: lifted_by.into(),
            opens_at: None,
        }
    }

    /// Both clauses as people read them.
    pub fn message(&self) -> String {
        format!("{}; {}", self.sentence, self.lifted_by)
    }

    /// The hold as it is stored.
    pub fn status(&self) -> HoldStatus {
        HoldStatus {
            reason: self.reason.word().to_owned(),
            message: self.message(),
            opens_at: self.opens_at.map(stored),
        }
    }

    /// The hold as the condition `PromotionPending`. What the ancestor also waited for keeps its
    /// words.
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

/// How many of many are named.
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

/// ` and 7 more` where one of eight was named.
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
    fn of_many_the_first_few_are_named() {
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
