//! The gates that a revision passes before it enters a site, in one ordered list.
//!
//! A gate answers for one revision and one site: pass, wait or fail. Those of [`GateStage::Creation`] are
//! asked before the promotion is created, those of [`GateStage::Promotion`] of the promotion that exists,
//! so that people can read and approve it meanwhile. `attempt` asks every gate with `again` before each
//! external step. Every [`HoldReason`](crate::HoldReason) belongs to one gate. A plan has the answer of
//! every gate (`answers.rs`), also of those behind the first that does not pass.
//!
//! To add a gate, write its file, add its line to [`GATES`] and its reasons to the table in `hold.rs`, and
//! a row to docs/troubleshooting.md.

mod answers;
pub(crate) mod approvals;
pub(crate) mod checks;
pub(crate) mod freeze;
pub(crate) mod order;
pub(crate) mod readiness;
pub(crate) mod rollout;
pub(crate) mod signature;
mod skipped;
pub(crate) mod soak;
pub(crate) mod suspended;
pub(crate) mod targets;
pub(crate) mod turn;
pub(crate) mod valid;
pub(crate) mod verified;

use api::{
    Pipeline, Promotion,
    pipeline::{Environment, PipelineSpec, PipelineStatus, PromotionSettings, RequestKind},
};

use crate::{
    hold::HoldReason,
    plan::{Candidate, CandidateSource, WantedRevision},
    site_state::SiteState,
    time::Timestamp,
};

pub use answers::{GateAnswer, GateVerdict};
pub(crate) use answers::{Questions, answers, answers_of_promotion, merge, skipped_gates};
pub use skipped::SkippedGate;
pub(crate) use skipped::{AFTER_EVERY_SOAK, caution};

/// One gate of the list.
pub(crate) struct Gate {
    /// Its name, as in the table of reasons.
    pub(crate) name: &'static str,
    /// What it would have answered about a revision that a person requested, which passes without being asked;
    /// nothing where requests are asked too.
    skipped: Option<fn(&PromotionQuestion<'_>) -> GateVerdict>,
    /// Whether a rollback passes without being asked.
    rollback_skips: bool,
    /// When it is asked first.
    stage: GateStage,
    /// What is asked of an existing promotion before each external step; nothing where the answer at its
    /// creation is final.
    again: Option<fn(&PromotionQuestion<'_>) -> GateVerdict>,
}

/// When a gate is asked first.
enum GateStage {
    /// Before the promotion is created.
    Creation(&'static [Ask]),
    /// When the promotion exists, by `again`.
    Promotion,
}

/// What a gate is asked about, in the order in which a plan is made.
enum Ask {
    /// The environment and its settings.
    Environment(fn(&EnvironmentQuestion<'_>) -> GateVerdict),
    /// Where the next revision comes from.
    Source(fn(&CandidateSource<'_>) -> GateVerdict),
    /// The next revision and all sites of the environment.
    Candidate(fn(&CandidateQuestion<'_>) -> GateVerdict),
    /// The revision and the site.
    Site(fn(&SiteQuestion<'_>) -> GateVerdict),
}

/// The gates in the order in which they are asked.
pub(crate) const GATES: &[Gate] = &[
    valid::GATE,
    suspended::GATE,
    targets::GATE,
    turn::GATE,
    readiness::GATE,
    verified::GATE,
    soak::GATE,
    order::GATE,
    signature::GATE,
    freeze::GATE,
    checks::GATE,
    rollout::GATE,
    approvals::GATE,
];

/// The names of the gates, in the order in which they are asked.
pub fn gate_names() -> impl Iterator<Item = &'static str> {
    GATES.iter().map(|gate| gate.name)
}

/// Whether the gate of a reason is asked of the existing promotion.
pub(crate) fn is_asked_of_promotion(reason: HoldReason) -> bool {
    let mut gates = GATES.iter().filter(|gate| gate.name == reason.gate());
    gates.any(|gate| matches!(gate.stage, GateStage::Promotion))
}

/// Whether requests for an environment wait while it is held for a stored reason: the environment is suspended, or the
/// gate is asked about the environment, whatever is to enter.
pub fn holds_requests(reason: &str) -> bool {
    let mut reasons = HoldReason::ALL.iter();
    let gate = reasons.find(|it| it.word() == reason).map(|it| it.gate());
    let mut gates = GATES.iter().filter(|it| Some(it.name) == gate);
    let is_about_environment = |ask: &Ask| matches!(ask, Ask::Environment(_));
    gates.any(|it| it.name == suspended::GATE.name || it.asks().iter().any(is_about_environment))
}

/// What a gate knows about an environment.
pub(crate) struct EnvironmentQuestion<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) model: &'a PipelineStatus,
    pub(crate) environment: &'a Environment,
    pub(crate) settings: &'a PromotionSettings,
}

/// What a gate knows about the next revision of an environment.
pub(crate) struct CandidateQuestion<'a> {
    pub(crate) spec: &'a PipelineSpec,
    pub(crate) sites: &'a [SiteState<'a>],
    pub(crate) candidate: &'a Candidate<'a>,
}

/// What a gate knows about a revision that is to enter a site.
pub(crate) struct SiteQuestion<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) model: &'a PipelineStatus,
    pub(crate) environment: &'a Environment,
    pub(crate) site: &'a SiteState<'a>,
    pub(crate) wanted: &'a WantedRevision,
    /// Revisions that the environment rejected.
    pub(crate) rejected: &'a [String],
    /// The promotion of another revision that goes first in the site: a person requested it, or it has
    /// all its approvals.
    pub(crate) first: Option<&'a Promotion>,
}

/// What a gate knows about an existing promotion.
pub(crate) struct PromotionQuestion<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) model: &'a PipelineStatus,
    pub(crate) environment: &'a Environment,
    pub(crate) settings: Option<&'a PromotionSettings>,
    pub(crate) site: &'a SiteState<'a>,
    pub(crate) promotion: &'a Promotion,
    /// Revisions that the environment rejected.
    pub(crate) rejected: &'a [String],
    pub(crate) now: Timestamp,
}

/// The first gate that an environment does not pass.
pub(crate) fn ask_environment(question: &EnvironmentQuestion<'_>) -> GateVerdict {
    first_closed(GATES.iter(), |ask| match ask {
        Ask::Environment(ask) => Some(ask(question)),
        _ => None,
    })
}

/// The first gate that the source of the next revision does not pass.
pub(crate) fn ask_source(source: &CandidateSource<'_>) -> GateVerdict {
    first_closed(GATES.iter(), |ask| match ask {
        Ask::Source(ask) => Some(ask(source)),
        _ => None,
    })
}

/// The first gate that the next revision of an environment does not pass, whatever the site.
pub(crate) fn ask_candidate(question: &CandidateQuestion<'_>) -> GateVerdict {
    first_closed(GATES.iter(), |ask| match ask {
        Ask::Candidate(ask) => Some(ask(question)),
        _ => None,
    })
}

/// The first gate that a revision does not pass on its way into a site.
pub(crate) fn ask_site(question: &SiteQuestion<'_>) -> GateVerdict {
    let asked = question.wanted.kind();
    let asked = GATES.iter().filter(|gate| !gate.is_skipped(asked));
    first_closed(asked, |ask| match ask {
        Ask::Site(ask) => Some(ask(question)),
        _ => None,
    })
}

/// The first gate that an existing promotion does not pass before its next external step. Approvals
/// are asked separately: they decide its phase.
pub(crate) fn ask_again(question: &PromotionQuestion<'_>) -> GateVerdict {
    let gates = GATES
        .iter()
        .filter(|gate| gate.name != approvals::GATE.name);
    let mut verdicts = gates.map(|gate| gate.ask_again(question));
    let closed = verdicts.find(GateVerdict::is_closed);
    closed.unwrap_or(GateVerdict::Pass)
}

/// The first gate that fails an existing promotion, which people who merge it should know too.
pub(crate) fn first_failure(question: &PromotionQuestion<'_>) -> GateVerdict {
    let mut verdicts = GATES.iter().map(|gate| gate.ask_again(question));
    let failed = verdicts.find(|verdict| matches!(verdict, GateVerdict::Fail(_)));
    failed.unwrap_or(GateVerdict::Pass)
}

impl Gate {
    /// The answer for an existing promotion.
    pub(crate) fn ask_again(&self, question: &PromotionQuestion<'_>) -> GateVerdict {
        if question.promotion.spec.cause.is_some() && self.rollback_skips {
            return GateVerdict::by_failed_check();
        }
        let request = request_behind(Some(question.model), question.promotion);
        if let Some(request) = request.filter(|(kind, _)| self.is_skipped(Some(*kind))) {
            let verdict = self.skipped.map_or(GateVerdict::Pass, |ask| ask(question));
            return skipped::answer(verdict, request);
        }
        self.again.map_or(GateVerdict::Pass, |ask| ask(question))
    }

    /// What is asked before the promotion is created.
    fn asks(&self) -> &'static [Ask] {
        match self.stage {
            GateStage::Creation(asks) => asks,
            GateStage::Promotion => &[],
        }
    }

    /// Whether what a person asked for passes without being asked.
    fn is_skipped(&self, request: Option<RequestKind>) -> bool {
        match request {
            None => false,
            Some(RequestKind::Rollback) => self.rollback_skips,
            Some(_) => self.skipped.is_some(),
        }
    }
}

/// The kind of the request that a promotion answers, and who asked: it was made for one, or one found it under way.
pub(crate) fn request_behind<'a>(
    model: Option<&'a PipelineStatus>,
    promotion: &'a Promotion,
) -> Option<(RequestKind, Option<&'a str>)> {
    if let Some(request) = &promotion.spec.request {
        return Some((request.kind, request.by.as_deref()));
    }
    let status = model?.environments.get(&promotion.spec.environment)?;
    let last = status.last_request.as_ref()?;
    last.led_to(promotion)
        .then_some((RequestKind::Promote, last.by.as_deref()))
}

fn first_closed(
    gates: impl Iterator<Item = &'static Gate>,
    verdict: impl Fn(&Ask) -> Option<GateVerdict>,
) -> GateVerdict {
    let verdicts = gates.flat_map(Gate::asks).filter_map(verdict);
    let mut closed = verdicts.filter(GateVerdict::is_closed);
    closed.next().unwrap_or(GateVerdict::Pass)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reason_belongs_to_a_gate_and_every_gate_has_a_reason() {
        let gates: Vec<_> = GATES.iter().map(|gate| gate.name).collect();
        let of_reasons: BTreeSet<_> = HoldReason::ALL.iter().map(|it| it.gate()).collect();
        let of_gates: BTreeSet<_> = gates.iter().copied().collect();
        assert_eq!(of_reasons, of_gates);
        assert_eq!(of_gates.len(), gates.len(), "no gate is listed twice");
    }

    #[test]
    fn a_request_overrides_readiness_verified_soak_and_order_and_nothing_else() {
        let names = |is_named: fn(&Gate) -> bool| -> Vec<_> {
            let gates = GATES.iter().filter(|gate| is_named(gate));
            gates.map(|gate| gate.name).collect()
        };
        let overridden = ["readiness", "verified", "soak", "order"];
        assert_eq!(names(|gate| gate.skipped.is_some()), overridden);
        assert_eq!(names(|gate| gate.rollback_skips), overridden);
        let again = names(|gate| gate.again.is_some());
        let all = [
            "valid",
            "suspended",
            "turn",
            "readiness",
            "verified",
            "order",
            "signature",
            "freeze",
            "checks",
            "rollout",
            "approvals",
        ];
        assert_eq!(again, all);
    }

    #[test]
    fn gates_of_the_existing_promotion_come_last_and_are_asked_again() {
        let is_late = |gate: &Gate| matches!(gate.stage, GateStage::Promotion);
        let first = GATES.iter().position(is_late).unwrap();
        let late = &GATES[first..];
        assert!(
            late.iter()
                .all(|gate| is_late(gate) && gate.again.is_some())
        );
    }
}
