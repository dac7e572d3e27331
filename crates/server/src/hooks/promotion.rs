//! `POST /promotion/{namespace}/{pipeline}/{environment}`: a Flux event from an environment.

use std::sync::Arc;

use api::pipeline::PipelineSpec;
use axum::{extract::State, response::Response};
use http::StatusCode;
use planner::hook::{
    FluxEvent, HookAnswer, HookDecision, SignatureTrust, evaluate_event, report_secret,
};
use runtime::ObjectKey;
use serde_json::{Value, json};

use super::{
    request::{HookRequest, HookRoute, SignatureRequirement, SignedContent},
    response,
};
use crate::{
    AppState,
    object_names::parse_key,
    record::{self, map_entry_patch},
};

pub(super) struct PromotionRoute {
    pipeline: ObjectKey,
    environment: String,
}

impl HookRoute for PromotionRoute {
    /// Segments after the environment are ignored, as the Weave pipeline-controller did.
    fn parse(segments: Vec<String>) -> Option<Self> {
        let [namespace, name, environment, ..] = &segments[..] else {
            return None;
        };
        Some(Self {
            pipeline: parse_key(namespace, name)?,
            environment: environment.clone(),
        })
    }

    fn pipeline(&self) -> ObjectKey {
        self.pipeline.clone()
    }

    fn signature_requirement<'a>(&self, spec: &'a PipelineSpec) -> SignatureRequirement<'a> {
        let secret = report_secret(spec, &self.environment);
        SignatureRequirement {
            secret: secret.map(|secret| secret.name),
            is_required: secret.is_some_and(|secret| secret.is_required),
            content: SignedContent::Body,
        }
    }
}

pub(super) async fn handle(
    State(app_state): State<Arc<AppState>>,
    request: HookRequest<PromotionRoute>,
) -> Response {
    let Ok(event) = serde_json::from_slice::<FluxEvent>(&request.body) else {
        return response::empty(StatusCode::BAD_REQUEST);
    };
    let environment = &request.route.environment;
    let now = app_state.clock.now();
    let trust = match (
        &request.signature,
        app_state.settings.allow_unsigned_reports,
    ) {
        (Some(_), _) => SignatureTrust::Signed,
        (None, true) => SignatureTrust::UnsignedCounts,
        (None, false) => SignatureTrust::UnsignedIgnored,
    };
    respond(&app_state, &request.key, |pipeline| {
        evaluate_event(pipeline, environment, &event, trust, now)
    })
    .await
}

/// Stores the report, then responds with what the controller does about it.
pub(super) async fn respond(
    app_state: &AppState,
    key: &ObjectKey,
    interpret: impl Fn(&api::Pipeline) -> HookDecision,
) -> Response {
    let mut answer = None;
    let recorded = app_state.record(key, |pipeline| {
        let decision = interpret(pipeline);
        answer = Some(decision.answer);
        let (report_key, report) = decision.report?;
        let status = pipeline.status.as_ref();
        let before = status.and_then(|status| status.reports.get(&report_key));
        let before = before.map_or(Value::Null, |before| json!(before));
        let after = json!(report);
        Some(map_entry_patch("reports", &report_key, before, after))
    });
    match recorded.await {
        Ok(()) => {}
        Err(record::Error::Gone) => return response::empty(StatusCode::NOT_FOUND),
        Err(error) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::error!(pipeline = %key, %error, cause, "could not store a report");
            return response::cannot_promote();
        }
    }
    match answer {
        Some(HookAnswer::Refuse(refusal)) => response::refused(&refusal),
        Some(HookAnswer::CannotPromote) => response::cannot_promote(),
        Some(HookAnswer::NothingNext(refusal)) if app_state.settings.legacy_hook_answers => {
            response::refused(&refusal)
        }
        Some(HookAnswer::NotSigned(how)) => response::not_signed(&how),
        Some(HookAnswer::Noted | HookAnswer::NothingNext(_)) | None => {
            response::empty(StatusCode::ACCEPTED)
        }
        Some(HookAnswer::Await(awaited)) => {
            let result = app_state.wait_for_promotion(key, &awaited, None).await;
            response::promotion_result(result)
        }
    }
}
