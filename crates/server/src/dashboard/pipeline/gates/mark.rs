//! How a gate is drawn, by its answer. Only what passed looks passed: not what a person's request skips.

use planner::GateVerdict;

/// What is known about a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dashboard::pipeline) enum GateMark {
    Passed,
    Waits,
    Failed,
    /// Nothing failed, but time does not open it.
    Closed,
    /// It fails the revision, and a person's request skips it.
    FailureSkipped,
    /// It does not pass yet, and a person's request skips it.
    WaitSkipped,
    /// It is closed, and an override passes it.
    Overridden,
    /// A person's request passes it, and its own answer is not known.
    ByRequest,
    /// The revision is not known yet.
    NotAsked,
    /// Nothing is on its way.
    Idle,
    /// The settings do not ask for it.
    NotRequired,
}

impl GateMark {
    pub(super) fn of(verdict: &GateVerdict) -> Self {
        match verdict {
            GateVerdict::Pass => Self::Passed,
            GateVerdict::PassByRequest(_) => Self::ByRequest,
            GateVerdict::Overridden(_) => Self::Overridden,
            GateVerdict::Skipped(skipped) if skipped.has_failed => Self::FailureSkipped,
            GateVerdict::Skipped(_) => Self::WaitSkipped,
            GateVerdict::NotAsked => Self::NotAsked,
            GateVerdict::Wait(_) => Self::Waits,
            GateVerdict::Fail(hold) if hold.reason.is_failure() => Self::Failed,
            GateVerdict::Fail(_) => Self::Closed,
        }
    }

    /// Whether the release goes on behind it.
    pub(in crate::dashboard::pipeline) fn is_open(self) -> bool {
        matches!(self, Self::Passed | Self::Idle | Self::NotRequired) || self.is_by_request()
    }

    pub(super) fn is_closed(self) -> bool {
        matches!(self, Self::Waits | Self::Failed | Self::Closed)
    }

    /// Whether a request passes it although it is known not to pass.
    pub(super) fn is_skipped(self) -> bool {
        matches!(
            self,
            Self::FailureSkipped | Self::WaitSkipped | Self::Overridden
        )
    }

    /// Whether a request passes it, whatever is known about it.
    pub(super) fn is_by_request(self) -> bool {
        self.is_skipped() || self == Self::ByRequest
    }

    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Waits => "waits",
            Self::Failed => "closed",
            Self::Closed => "stopped",
            Self::FailureSkipped | Self::WaitSkipped | Self::Overridden => "skipped",
            Self::Idle => "idle",
            Self::ByRequest | Self::NotAsked | Self::NotRequired => "later",
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Waits => "waits",
            Self::Failed => "failed",
            Self::Closed => "closed",
            Self::FailureSkipped => "failed, skipped",
            Self::WaitSkipped => "not passed, skipped",
            Self::Overridden => "overridden",
            Self::ByRequest => "not asked",
            Self::NotAsked => "not asked yet",
            Self::Idle => "nothing to do",
            Self::NotRequired => "not required",
        }
    }
}

#[cfg(test)]
mod tests {
    use planner::{Hold, HoldReason, SkippedGate};

    use super::*;

    #[test]
    fn what_a_request_skips_does_not_look_passed() {
        let skipped = |has_failed| {
            let hold = Hold {
                reason: HoldReason::VerificationFailed,
                sentence: "2 failed the check smoke in staging".to_owned(),
                resolved_by: "a newer revision".to_owned(),
                opens_at: None,
                requestable: None,
            };
            GateVerdict::Skipped(SkippedGate {
                hold,
                by: Some("ann".to_owned()),
                has_failed,
            })
        };
        for (verdict, class, word) in [
            (GateVerdict::Pass, "passed", "passed"),
            (skipped(true), "skipped", "failed, skipped"),
            (skipped(false), "skipped", "not passed, skipped"),
            (
                GateVerdict::PassByRequest("passed by request of ann".to_owned()),
                "later",
                "not asked",
            ),
            (
                GateVerdict::Overridden("overridden by ann: urgent".to_owned()),
                "skipped",
                "overridden",
            ),
        ] {
            let mark = GateMark::of(&verdict);
            assert_eq!((mark.class(), mark.word()), (class, word));
            assert!(mark.is_open() && !mark.is_closed());
        }
    }
}
