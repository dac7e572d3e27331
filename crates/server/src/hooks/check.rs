//! `POST /check/{namespace}/{pipeline}/{environment}/{check}`: somebody else reports the result of a check.

use std::sync::Arc;

use api::{check_run::CheckResult, pipeline::PipelineSpec};
use axum::{extract::State, response::Response};
use http::StatusCode;
use planner::hook::{CheckReportRefusal, ReportedCheck, check_secret};
use runtime::ObjectKey;
use serde::Deserialize;
use tracing::error;

use super::{
    request::{HookRequest, HookRoute, SignatureRequirement, SignedContent},
    response,
};
use crate::{AppState, actions::ReportError, object_names::parse_key};

pub(super) struct CheckRoute {
    pipeline: ObjectKey,
    environment: String,
    check: String,
}

impl HookRoute for CheckRoute {
    fn parse(segments: Vec<String>) -> Option<Self> {
        let [namespace, name, environment, check] = &segments[..] else {
            return None;
        };
        Some(Self {
            pipeline: parse_key(namespace, name)?,
            environment: environment.clone(),
            check: check.clone(),
        })
    }

    fn pipeline(&self) -> ObjectKey {
        self.pipeline.clone()
    }

    fn signature_requirement<'a>(&self, spec: &'a PipelineSpec) -> SignatureRequirement<'a> {
        SignatureRequirement {
            secret: check_secret(spec, &self.check),
            is_required: true,
            content: SignedContent::WholeRequest,
        }
    }
}

#[derive(Deserialize)]
struct CheckBody {
    revision: String,
    passed: bool,
    message: Option<String>,
    url: Option<String>,
}

pub(super) async fn handle(
    State(app_state): State<Arc<AppState>>,
    request: HookRequest<CheckRoute>,
) -> Response {
    let signed = request.signature.as_ref();
    let signed = signed.and_then(|signature| signature.made.as_ref());
    let Some((at, digest)) = signed else {
        return response::empty(StatusCode::UNAUTHORIZED);
    };
    let Ok(body) = serde_json::from_slice::<CheckBody>(&request.body) else {
        let expected = r#"the body must be {"revision": "1.2.3", "passed": true}"#;
        return response::text(StatusCode::BAD_REQUEST, expected);
    };
    let reported = ReportedCheck {
        pipeline: &request.key.name,
        environment: &request.route.environment,
        check: &request.route.check,
        revision: Some(&body.revision),
        signature: Some((*at, digest)),
    };
    let result = CheckResult {
        passed: body.passed,
        message: body.message.clone(),
        url: body.url.clone(),
        signature: Some(digest.clone()),
        ..CheckResult::default()
    };
    match app_state
        .report_check(&request.key, &reported, result)
        .await
    {
        Ok(_) => response::empty(StatusCode::NO_CONTENT),
        Err(ReportError::Refused(refusal)) => {
            response::text(refusal_code(&refusal), refusal.to_string())
        }
        Err(ReportError::Hub(error)) => {
            error!(pipeline = %request.key, %error, "could not store the result of a check");
            response::empty(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

/// The status code of a refusal.
pub(crate) fn refusal_code(refusal: &CheckReportRefusal) -> StatusCode {
    match refusal {
        CheckReportRefusal::NoCheckRun => StatusCode::NOT_FOUND,
        CheckReportRefusal::Reported | CheckReportRefusal::Ended => StatusCode::CONFLICT,
        CheckReportRefusal::SignedBefore => StatusCode::UNAUTHORIZED,
        CheckReportRefusal::SeveralRevisions | CheckReportRefusal::Invalid(_) => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
    }
}
