//! The answer of every gate about one revision, for people and for the forecast.
//!
//! The answers come from the same functions that decide, in the order of the list. A gate that a request
//! skips says so, and what it would have answered (`skipped.rs`).

use api::pipeline::GateStatus;
use serde_json::{Value, json};

use super::{
    Ask, CandidateQuestion, EnvironmentQuestion, GATES, Gate, GateStage, PromotionQuestion,
    SiteQuestion, SkippedGate, request_behind,
};
use crate::{hold::Hold, plan::CandidateSource, time::Timestamp};

/// A gate's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateVerdict {
    /// The revision may enter.
    Pass,
    /// The revision may enter because a person requested it, and the gate was not asked; the text says who.
    PassByRequest(String),
    /// The gate is closed, and the override of a request passes it; the text says whose.
    Overridden(String),
    /// The gate does not pass, and the revision may enter because a person's request skips it.
    Skipped(SkippedGate),
    /// Not known yet, because the revision is not known yet.
    NotAsked,
    /// The revision may enter later.
    Wait(Hold),
    /// The revision does not enter by itself; the hold says what resolves that.
    Fail(Hold),
}

/// A gate of the list and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateAnswer {
    /// The name of the gate.
    pub gate: &'static str,
    /// Its answer.
    pub verdict: GateVerdict,
}

impl GateVerdict {
    /// The hold that people see; none where the gate passes.
    pub fn hold(self) -> Option<Hold> {
        match self {
            Self::Pass
            | Self::PassByRequest(_)
            | Self::Overridden(_)
            | Self::Skipped(_)
            | Self::NotAsked => None,
            Self::Wait(hold) | Self::Fail(hold) => Some(hold),
        }
    }

    /// Whether it keeps the revision out.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Wait(_) | Self::Fail(_))
    }

    /// The answer in one word.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::PassByRequest(_) | Self::Overridden(_) => "requested",
            Self::Skipped(_) => "skipped",
            Self::NotAsked => "unknown",
            Self::Wait(_) => "wait",
            Self::Fail(_) => "fail",
        }
    }

    pub(super) fn by_request(by: Option<&str>) -> Self {
        Self::PassByRequest(match by {
            Some(by) => format!("passed by request of {by}"),
            None => "passed by request".to_owned(),
        })
    }
}

impl GateVerdict {
    /// A rollback that Sluice derived from a failed check passes without being asked.
    pub(super) fn by_failed_check() -> Self {
        Self::PassByRequest("passed: a rollback after a failed check".to_owned())
    }
}

impl From<Option<Hold>> for GateVerdict {
    fn from(hold: Option<Hold>) -> Self {
        hold.map_or(Self::Pass, Self::Wait)
    }
}

impl GateAnswer {
    /// The hold of a gate that keeps the revision out.
    pub fn hold(&self) -> Option<&Hold> {
        match &self.verdict {
            GateVerdict::Wait(hold) | GateVerdict::Fail(hold) => Some(hold),
            _ => None,
        }
    }

    /// What a request skips, where the gate is known not to pass.
    pub fn skipped(&self) -> Option<&SkippedGate> {
        match &self.verdict {
            GateVerdict::Skipped(skipped) => Some(skipped),
            _ => None,
        }
    }

    /// Whether it keeps its revision out for longer than another one.
    fn opens_after(&self, other: &Self) -> bool {
        let opens_at = |hold: &Hold| hold.opens_at.unwrap_or(Timestamp::MAX);
        let (own, others) = (self.hold().map(opens_at), other.hold().map(opens_at));
        own > others
    }

    /// What people read about it: the hold, or by whose request it passes or is skipped.
    pub fn message(&self) -> Option<String> {
        match &self.verdict {
            GateVerdict::Wait(hold) | GateVerdict::Fail(hold) => Some(hold.message()),
            GateVerdict::PassByRequest(text) | GateVerdict::Overridden(text) => Some(text.clone()),
            GateVerdict::Skipped(skipped) => Some(skipped.message()),
            GateVerdict::Pass | GateVerdict::NotAsked => None,
        }
    }

    /// The answer as programs read it.
    pub fn document(&self) -> Value {
        let hold = self.hold();
        let told = hold.or_else(|| self.skipped().map(|it| &it.hold));
        json!({
            "gate": self.gate,
            "verdict": self.verdict.word(),
            "reason": told.map(|hold| hold.reason.word()),
            "message": self.message(),
            "skippedBy": self.skipped().and_then(|it| it.by.as_deref()),
            "opensAt": hold.and_then(|hold| hold.opens_at),
        })
    }

    /// The answer as it is stored; only of a gate that keeps the revision out for more than moments.
    pub(crate) fn status(&self) -> Option<GateStatus> {
        let hold = self.hold().filter(|hold| !hold.is_short())?.status();
        Some(GateStatus {
            gate: self.gate.to_owned(),
            reason: hold.reason,
            message: hold.message,
            opens_at: hold.opens_at,
        })
    }
}

/// What the gates are asked about a revision that has no promotion in a site yet. What is not known is
/// not asked.
pub(crate) struct Questions<'a> {
    pub(crate) environment: EnvironmentQuestion<'a>,
    /// Where the revision comes from, unless a person requested it.
    pub(crate) source: Option<&'a CandidateSource<'a>>,
    pub(crate) candidate: Option<CandidateQuestion<'a>>,
    pub(crate) site: Option<SiteQuestion<'a>>,
    /// The promotion that would be created.
    pub(crate) promotion: Option<PromotionQuestion<'a>>,
}

/// The answer of every gate about a revision that has no promotion yet.
pub(crate) fn answers(questions: &Questions<'_>) -> Vec<GateAnswer> {
    let answer = |gate: &Gate| GateAnswer {
        gate: gate.name,
        verdict: questions.ask(gate),
    };
    GATES.iter().map(answer).collect()
}

/// The answer of every gate about an existing promotion. What is not asked again has passed.
pub(crate) fn answers_of_promotion(question: &PromotionQuestion<'_>) -> Vec<GateAnswer> {
    let answer = |gate: &Gate| GateAnswer {
        gate: gate.name,
        verdict: gate.ask_again(question),
    };
    GATES.iter().map(answer).collect()
}

/// The answers of the gates that the request of an existing promotion skips.
pub(crate) fn skipped_gates(question: &PromotionQuestion<'_>) -> Vec<GateAnswer> {
    let request = request_behind(Some(question.model), question.promotion).map(|(kind, _)| kind);
    let skipped = GATES.iter().filter(|gate| gate.is_skipped(request));
    let answer = |gate: &Gate| GateAnswer {
        gate: gate.name,
        verdict: gate.ask_again(question),
    };
    skipped.map(answer).collect()
}

/// Of the answers for two sites, for each gate the one that keeps its revision out, or does so longer.
pub(crate) fn merge(one: Vec<GateAnswer>, other: Vec<GateAnswer>) -> Vec<GateAnswer> {
    let pairs = one.into_iter().zip(other);
    let is_told = |one: &GateAnswer, other: &GateAnswer| {
        !one.verdict.is_closed() && one.skipped().is_none() && other.skipped().is_some()
    };
    let closed = pairs.map(
        |(one, other)| match other.opens_after(&one) || is_told(&one, &other) {
            true => other,
            false => one,
        },
    );
    closed.collect()
}

impl Questions<'_> {
    fn ask(&self, gate: &Gate) -> GateVerdict {
        let wanted = self.site.as_ref().map(|it| it.wanted);
        if wanted.is_some_and(|it| it.cause.is_some()) && gate.rollback_skips {
            return GateVerdict::by_failed_check();
        }
        let request = wanted.and_then(|it| it.request.as_ref());
        if let Some(request) = request.filter(|it| gate.is_skipped(Some(it.kind))) {
            let by = GateVerdict::by_request(request.by.as_deref());
            return self.promotion.as_ref().map_or(by, |it| gate.ask_again(it));
        }
        match (&gate.stage, &self.promotion) {
            (GateStage::Creation(asks), _) => self.ask_before_creation(asks),
            (GateStage::Promotion, Some(question)) => gate.ask_again(question),
            (GateStage::Promotion, None) => GateVerdict::NotAsked,
        }
    }

    /// The first question that is closed. A gate is not known as long as none of its questions can be
    /// asked.
    fn ask_before_creation(&self, asks: &[Ask]) -> GateVerdict {
        let mut verdict = GateVerdict::NotAsked;
        for ask in asks {
            let answer = match ask {
                Ask::Environment(ask) => Some(ask(&self.environment)),
                Ask::Source(ask) => self.source.map(ask),
                Ask::Candidate(ask) => self.candidate.as_ref().map(ask),
                Ask::Site(ask) => self.site.as_ref().map(ask),
            };
            match answer {
                Some(answer) if answer.is_closed() => return answer,
                Some(answer) => verdict = answer,
                None => {}
            }
        }
        verdict
    }
}
