//! The gates that a revision passes before it enters a site, in one ordered list.
//!
//! A gate answers for one revision and one site: pass, wait or fail. `plan` asks every gate before it
//! starts a promotion; `attempt` asks those with `again` once more before each later external step. The
//! first gate that does not pass is the hold that people see. Every [`HoldReason`] belongs to one gate.
//!
//! To add a gate, write its file, add its line to [`GATES`] and its reasons to the table in `hold.rs`.

pub(crate) mod approvals;
pub(crate) mod order;
pub(crate) mod readiness;
pub(crate) mod soak;
pub(crate) mod suspended;
pub(crate) mod targets;
pub(crate) mod turn;
pub(crate) mod valid;

use api::{
    Pipeline, Promotion,
    pipeline::{Environment, PipelineSpec, PipelineStatus, PromotionSettings, RequestKind},
};

use crate::{
    hold::{Hold, HoldReason},
    plan::{Candidate, CandidateSource, WantedRevision},
    site_state::SiteState,
};

/// A gate's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GateVerdict {
    /// The revision may enter.
    Pass,
    /// The revision may enter later.
    Wait(Hold),
    /// The revision does not enter unless a person requests it.
    Fail {
        /// The fixed reason.
        reason: HoldReason,
        /// What is the case, as a clause without a full stop.
        sentence: String,
        /// The revision as people read it.
        revision: String,
    },
}

impl GateVerdict {
    /// The hold that people see; none where the gate passes.
    pub(crate) fn hold(self) -> Option<Hold> {
        match self {
            Self::Pass => None,
            Self::Wait(hold) => Some(hold),
            Self::Fail {
                reason,
                sentence,
                revision,
            } => {
                let resolved_by = format!("a newer revision or a request for {revision}");
                Some(Hold::new(reason, sentence, resolved_by))
            }
        }
    }
}

impl From<Option<Hold>> for GateVerdict {
    fn from(hold: Option<Hold>) -> Self {
        hold.map_or(Self::Pass, Self::Wait)
    }
}

/// One gate of the list.
pub(crate) struct Gate {
    /// Its name, as in the table of reasons.
    pub(crate) name: &'static str,
    /// Whether a revision that a person requested passes without being asked.
    request_overrides: bool,
    /// Whether a rollback passes without being asked.
    rollback_skips: bool,
    /// What is asked before a promotion starts.
    asks: &'static [Ask],
    /// What is asked of an existing promotion before each later external step.
    again: Option<fn(&PromotionQuestion<'_>) -> GateVerdict>,
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
    soak::GATE,
    order::GATE,
    approvals::GATE,
];

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
    /// Name and revision of the promotion of another revision that a person requested and that is
    /// under way in the site.
    pub(crate) requested: Option<(&'a str, &'a str)>,
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
    let request = question.wanted.request.as_ref().map(|request| request.kind);
    let asked = GATES.iter().filter(|gate| !gate.is_skipped(request));
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
    let closed = verdicts.find(|verdict| *verdict != GateVerdict::Pass);
    closed.unwrap_or(GateVerdict::Pass)
}

impl Gate {
    /// The answer for an existing promotion.
    pub(crate) fn ask_again(&self, question: &PromotionQuestion<'_>) -> GateVerdict {
        match self.again {
            Some(_) if self.is_skipped(question.request()) => GateVerdict::Pass,
            Some(ask) => ask(question),
            None => GateVerdict::Pass,
        }
    }

    /// Whether what a person asked for passes without being asked.
    fn is_skipped(&self, request: Option<RequestKind>) -> bool {
        match request {
            None => false,
            Some(RequestKind::Rollback) => self.rollback_skips,
            Some(_) => self.request_overrides,
        }
    }
}

impl PromotionQuestion<'_> {
    /// The kind of the request that it answers: it was made for one, or one found it under way.
    fn request(&self) -> Option<RequestKind> {
        let promotion = self.promotion;
        if let Some(request) = &promotion.spec.request {
            return Some(request.kind);
        }
        let status = self.model.environments.get(&self.environment.name)?;
        let last = status.last_request.as_ref()?;
        let is_answer = last.promotion.is_some() && last.promotion == promotion.metadata.name;
        is_answer.then_some(RequestKind::Promote)
    }
}

fn first_closed(
    gates: impl Iterator<Item = &'static Gate>,
    verdict: impl Fn(&Ask) -> Option<GateVerdict>,
) -> GateVerdict {
    let verdicts = gates.flat_map(|gate| gate.asks).filter_map(verdict);
    let mut closed = verdicts.filter(|verdict| *verdict != GateVerdict::Pass);
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
    fn a_request_overrides_readiness_soak_and_order_and_nothing_else() {
        let names = |is_named: fn(&Gate) -> bool| -> Vec<_> {
            let gates = GATES.iter().filter(|gate| is_named(gate));
            gates.map(|gate| gate.name).collect()
        };
        let overridden = ["readiness", "soak", "order"];
        assert_eq!(names(|gate| gate.request_overrides), overridden);
        assert_eq!(names(|gate| gate.rollback_skips), overridden);
        let again = names(|gate| gate.again.is_some());
        assert_eq!(again, ["valid", "suspended", "turn", "order", "approvals"]);
    }
}
