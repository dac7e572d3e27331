//! What the gates that a person's request skips would have answered, so that people who approve the promotion
//! read it.
//!
//! Nothing is decided here. Where the answer is not known, such as the readiness of a source environment that has
//! moved on, there is none. A rollback goes back by intent: of one, only failures and rejections are told.

use api::{
    Promotion,
    pipeline::{Environment, EnvironmentStatus, RequestKind, When},
};

use super::{GateAnswer, GateVerdict, PromotionQuestion};
use crate::{
    hold::{Hold, list},
    plan::default_when,
    promotion_phase::creation_order,
    sources::sources,
    time::Timestamp,
};

/// A gate that does not pass, and that a person's request skips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedGate {
    /// The hold that it would have had.
    pub hold: Hold,
    /// Who requested the revision, if that is known.
    pub by: Option<String>,
    /// Whether the revision failed or was rejected, which people should know before they approve it. Otherwise it would
    /// have waited, or is only not the next one.
    pub has_failed: bool,
}

impl SkippedGate {
    /// Its state in few words: `failed, skipped by ann's request`.
    pub fn state(&self) -> String {
        let word = match self.has_failed {
            true => "failed",
            false => "not passed",
        };
        format!("{word}, skipped by {}", request_of(self.by.as_deref()))
    }

    /// What is the case, and that a request skips it.
    pub(super) fn message(&self) -> String {
        let by = request_of(self.by.as_deref());
        format!("{}; {by} skips that", self.hold.sentence)
    }
}

/// `ann's request`
fn request_of(by: Option<&str>) -> String {
    match by {
        Some(by) => format!("{by}'s request"),
        None => "a request".to_owned(),
    }
}

/// What people should know about a requested revision before they approve it: that it failed or was rejected, and
/// whose request skips that.
pub(crate) fn caution(answers: &[GateAnswer]) -> Option<String> {
    let skipped = answers.iter().filter_map(GateAnswer::skipped);
    let skipped: Vec<_> = skipped.filter(|it| it.has_failed).collect();
    let by = request_of(skipped.first()?.by.as_deref());
    let mut sentences: Vec<_> = skipped.iter().map(|it| it.hold.sentence.as_str()).collect();
    sentences.dedup();
    Some(format!("{}; {by} skips that", list(&sentences)))
}

/// The answer of a gate about a requested promotion: the one that is skipped, where it is known not to pass.
pub(super) fn answer(verdict: GateVerdict, (kind, by): (RequestKind, Option<&str>)) -> GateVerdict {
    let is_told = |verdict: &GateVerdict| match verdict {
        GateVerdict::Fail(hold) => kind == RequestKind::Promote || hold.reason.is_failure(),
        verdict => kind == RequestKind::Promote && verdict.is_closed(),
    };
    let has_failed = matches!(&verdict, GateVerdict::Fail(hold) if hold.reason.is_failure());
    let hold = Some(verdict).filter(is_told).and_then(GateVerdict::hold);
    match hold {
        Some(hold) => GateVerdict::Skipped(SkippedGate {
            hold,
            by: by.map(str::to_owned),
            has_failed,
        }),
        None => GateVerdict::by_request(by),
    }
}

impl<'a> PromotionQuestion<'a> {
    /// The source environments with what is known about each.
    pub(super) fn observed_sources(
        &self,
    ) -> impl Iterator<Item = (&'a Environment, &'a EnvironmentStatus)> {
        let sources = sources(&self.pipeline.spec, &self.promotion.spec.environment);
        let environments = &self.model.environments;
        let known = move |it: &'a Environment| Some((it, environments.get(&it.name)?));
        sources.into_iter().filter_map(known)
    }

    /// How many targets of a source environment must be ready.
    pub(super) fn when(&self, source: &EnvironmentStatus) -> When {
        let when = self.settings.and_then(|it| it.when);
        when.unwrap_or_else(|| default_when(&source.targets))
    }

    /// The promotions into the site that were created before, oldest first.
    pub(super) fn earlier(&self) -> Vec<&'a Promotion> {
        let own = creation_order(self.promotion);
        let others = self.site.others(self.promotion);
        let mut earlier: Vec<_> = others.filter(|it| creation_order(it) < own).collect();
        earlier.sort_by_key(|it| creation_order(it));
        earlier
    }
}

/// A time at which no revision soaks any more.
pub(crate) const AFTER_EVERY_SOAK: Timestamp = Timestamp::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold::HoldReason;

    #[test]
    fn a_caution_names_every_failure_once_and_who_requested_the_revision() {
        let skipped = |reason, sentence: &str, has_failed| GateAnswer {
            gate: "verified",
            verdict: GateVerdict::Skipped(SkippedGate {
                hold: Hold::new(reason, sentence, "a newer revision"),
                by: Some("ann".to_owned()),
                has_failed,
            }),
        };
        let failed = skipped(HoldReason::VerificationFailed, "2 failed in dev", true);
        let rejected = skipped(HoldReason::Rejected, "ada rejected 2 in prod", true);
        let waits = skipped(HoldReason::Soaking, "2 has not been ready for long", false);
        let older = skipped(HoldReason::OlderThanRunning, "prod runs 3", false);
        assert_eq!(caution(&[waits, older]), None);
        assert_eq!(
            caution(&[failed.clone(), failed.clone(), rejected]).unwrap(),
            "2 failed in dev and ada rejected 2 in prod; ann's request skips that"
        );
        let GateVerdict::Skipped(gate) = failed.verdict else {
            unreachable!("it was made above");
        };
        assert_eq!(gate.state(), "failed, skipped by ann's request");
    }
}
