//! Overrides: a person lets one promotion pass gates that they name, for one hour.
//!
//! An override comes with a request: in the same field of the REST API, or in an annotation that names
//! the request's id. It counts once, from when the controller stored it, and is kept as history. Where
//! approvals are needed, they must come from somebody else.

use api::{
    Pipeline, Promotion,
    names::OVERRIDE_ANNOTATION,
    pipeline::{HandledRequest, Override, Request, StoredOverride},
};
use serde::Deserialize;

use crate::{
    gate::PromotionQuestion,
    time::{Timestamp, later, stored},
};

/// How long an override is valid.
const VALID: std::time::Duration = std::time::Duration::from_secs(3600);
/// How many overrides an environment remembers.
const REMEMBERED: usize = 8;

/// The annotation: an override and the id of the request that it is for.
#[derive(Deserialize)]
struct WrittenOverride {
    request: String,
    #[serde(flatten)]
    content: Override,
}

/// The override of a request in the annotation.
pub(crate) fn written(pipeline: &Pipeline, request: &str) -> Option<Override> {
    let annotations = pipeline.metadata.annotations.as_ref()?;
    let text = annotations.get(OVERRIDE_ANNOTATION)?;
    let written: WrittenOverride = serde_json::from_str(text).ok()?;
    let is_for_it = written.request == request && !request.is_empty();
    is_for_it.then_some(written.content)
}

/// Why an override cannot be stored; `None` if it can.
pub fn refuse_override(wanted: &Override) -> Option<String> {
    if wanted.reason.trim().is_empty() {
        return Some("an override needs a reason".to_owned());
    }
    let is_known = |pass: &&String| {
        let mut names = ["freeze/", "check/"].into_iter();
        names.any(|kind| pass.strip_prefix(kind).is_some_and(|name| !name.is_empty()))
    };
    match wanted.passes.iter().find(|pass| !is_known(pass)) {
        Some(other) => Some(format!(
            "an override cannot pass {other:?}, only freeze/NAME and check/NAME"
        )),
        None if wanted.passes.is_empty() => Some("an override names what it passes".to_owned()),
        None => None,
    }
}

/// The overrides of an environment after a request was handled.
pub(crate) fn remember(
    mut all: Vec<StoredOverride>,
    request: &Request,
    handled: &HandledRequest,
    now: Timestamp,
) -> Vec<StoredOverride> {
    let is_new = all.iter().all(|it| it.request != request.id);
    let wanted = request.override_gates.as_ref();
    let (Some(wanted), Some(promotion)) = (wanted, &handled.promotion) else {
        return all;
    };
    if is_new && !handled.refused && refuse_override(wanted).is_none() {
        let new = StoredOverride {
            request: request.id.clone(),
            promotion: promotion.clone(),
            revision: handled.revision.clone(),
            by: request.by.clone(),
            reason: wanted.reason.clone(),
            passes: wanted.passes.clone(),
            at: Some(stored(now)),
        };
        all.insert(0, new);
        all.truncate(REMEMBERED);
    }
    all
}

/// An override that is valid now.
#[derive(Clone, Copy)]
pub(crate) struct ValidOverride<'a>(&'a StoredOverride);

impl ValidOverride<'_> {
    /// Whether it names this.
    pub(crate) fn passes(&self, name: &str) -> bool {
        self.0.passes.iter().any(|it| it == name)
    }

    /// Who passes it, and why.
    pub(crate) fn sentence(&self) -> String {
        let by = self.0.by.as_deref().unwrap_or("somebody");
        format!("passed by override of {by}: {}", self.0.reason)
    }
}

/// The override of a promotion that is valid now.
pub(crate) fn valid<'a>(question: &PromotionQuestion<'a>) -> Option<ValidOverride<'a>> {
    let status = question
        .model
        .environments
        .get(&question.environment.name)?;
    let is_valid = |it: &&StoredOverride| {
        let until = it.at.as_ref().map(|at| later(at.0, VALID));
        it.is_for(question.promotion) && until.is_some_and(|until| question.now < until)
    };
    status.overrides.iter().find(is_valid).map(ValidOverride)
}

/// The newest override of a promotion, valid or not.
pub fn override_of<'a>(
    pipeline: &'a Pipeline,
    promotion: &Promotion,
) -> Option<&'a StoredOverride> {
    let status = pipeline.status.as_ref()?;
    let environment = status.environments.get(&promotion.spec.environment)?;
    let mut all = environment.overrides.iter();
    all.find(|it| it.is_for(promotion))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many overrides are stored after a request was handled that came with one.
    fn stored_after(known: &[&str], is_refused: bool, reason: &str) -> usize {
        let all = known.iter().map(|request| StoredOverride {
            request: (*request).to_owned(),
            ..StoredOverride::default()
        });
        let request = Request {
            id: "r1".to_owned(),
            override_gates: Some(Override {
                reason: reason.to_owned(),
                passes: vec!["freeze/weekend".to_owned()],
            }),
            ..Request::default()
        };
        let handled = HandledRequest {
            promotion: Some("shop-prod-1".to_owned()),
            refused: is_refused,
            ..HandledRequest::default()
        };
        remember(all.collect(), &request, &handled, Timestamp::UNIX_EPOCH).len()
    }

    #[test]
    fn an_override_is_stored_once_and_only_with_a_request_that_is_carried_out() {
        assert_eq!(stored_after(&[], false, "an outage"), 1);
        assert_eq!(stored_after(&["r0"], false, "an outage"), 2);
        assert_eq!(stored_after(&["r1"], false, "an outage"), 1);
        assert_eq!(stored_after(&[], true, "an outage"), 0);
        assert_eq!(stored_after(&[], false, ""), 0);
        assert_eq!(stored_after(&["r1"], true, "an outage"), 1);
    }
}
