//! `POST /promotion/{namespace}/{pipeline}/{environment}`: an event of Flux from an environment.

use std::sync::Arc;

use api::pipeline::PipelineSpec;
use axum::{extract::State, response::Response};
use http::StatusCode;
use jiff::Timestamp;
use planner::hook::{
    FluxEvent, HookAnswer, HookDecision, SignatureTrust, evaluate_event, report_secret,
};
use serde_json::{Value, json};

use super::{
    answer,
    signed::{Covers, Demand, Road, Signed},
};
use crate::{
    Door,
    record::{self, entry},
    watched::ObjectKey,
};

pub(super) struct Promotion {
    pipeline: ObjectKey,
    environment: String,
}

impl Road for Promotion {
    /// What follows the environment is ignored, as the ancestor did.
    fn read(parts: Vec<String>) -> Option<Self> {
        let [namespace, name, environment, ..] = &parts[..] else {
            return None;
        };
        Some(Self {
            pipeline: ObjectKey::parse(namespace, name)?,
            environment: environment.clone(),
        })
    }

    fn pipeline(&self) -> ObjectKey {
        self.pipeline.clone()
    }

    fn demand<'a>(&self, spec: &'a PipelineSpec) -> Demand<'a> {
        let secret = report_secret(spec, &self.environment);
        Demand {
            secret: secret.map(|secret| secret.name),
            is_required: secret.is_some_and(|secret| secret.is_required),
            covers: Covers::Body,
        }
    }
}

pub(super) async fn handle(State(door): State<Arc<Door>>, call: Signed<Promotion>) -> Response {
    let Ok(event) = serde_json::from_slice::<FluxEvent>(&call.body) else {
        return answer::empty(StatusCode::BAD_REQUEST);
    };
    let environment = &call.road.environment;
    let now = Timestamp::now();
    let trust = match (&call.seal, door.settings.allow_unsigned_reports) {
        (Some(_), _) => SignatureTrust::Signed,
        (None, true) => SignatureTrust::UnsignedCounts,
        (None, false) => SignatureTrust::UnsignedIgnored,
    };
    respond(&door, &call.key, |pipeline| {
        evaluate_event(pipeline, environment, &event, trust, now)
    })
    .await
}

/// Stores what was heard, then answers with what becomes of it.
pub(super) async fn respond(
    door: &Door,
    key: &ObjectKey,
    listen: impl Fn(&api::Pipeline) -> HookDecision,
) -> Response {
    let mut said = None;
    let recorded = door.record(key, |pipeline| {
        let heard = listen(pipeline);
        said = Some(heard.answer);
        let (place, report) = heard.report?;
        let known = pipeline.status.as_ref();
        let before = known.and_then(|status| status.reports.get(&place));
        let before = before.map_or(Value::Null, |before| json!(before));
        Some(entry("reports", &place, before, json!(report)))
    });
    match recorded.await {
        Ok(()) => {}
        Err(record::Error::Gone) => return answer::empty(StatusCode::NOT_FOUND),
        Err(error) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::error!(pipeline = %key, %error, cause, "a report was not stored");
            return answer::cannot_promote();
        }
    }
    match said {
        Some(HookAnswer::Refuse(refusal)) => answer::refused(&refusal),
        Some(HookAnswer::CannotPromote) => answer::cannot_promote(),
        Some(HookAnswer::NothingNext(refusal)) if door.settings.legacy_hook_answers => {
            answer::refused(&refusal)
        }
        Some(HookAnswer::NotSigned(how)) => answer::not_signed(&how),
        Some(HookAnswer::Noted | HookAnswer::NothingNext(_)) | None => {
            answer::empty(StatusCode::ACCEPTED)
        }
        Some(HookAnswer::Await(awaited)) => {
            answer::outcome(door.outcome(key, &awaited, None).await)
        }
    }
}
