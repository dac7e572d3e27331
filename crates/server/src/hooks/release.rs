//! `POST /release/{namespace}/{pipeline}`: CI proposes a revision for the first environment.

use std::sync::Arc;

use api::pipeline::PipelineSpec;
use axum::{extract::State, response::Response};
use http::StatusCode;
use planner::hook::{evaluate_release, release_secret};
use runtime::ObjectKey;
use serde::Deserialize;

use super::{
    promotion::respond,
    request::{HookRequest, HookRoute, SignatureRequirement, SignedContent},
    response,
};
use crate::{AppState, object_names::parse_key};

pub(super) struct ReleaseRoute(ObjectKey);

impl HookRoute for ReleaseRoute {
    fn parse(segments: Vec<String>) -> Option<Self> {
        let [namespace, name] = &segments[..] else {
            return None;
        };
        Some(Self(parse_key(namespace, name)?))
    }

    fn pipeline(&self) -> ObjectKey {
        self.0.clone()
    }

    fn signature_requirement<'a>(&self, spec: &'a PipelineSpec) -> SignatureRequirement<'a> {
        SignatureRequirement {
            secret: release_secret(spec),
            is_required: true,
            content: SignedContent::WholeRequest,
        }
    }
}

#[derive(Deserialize)]
struct ReleaseBody {
    revision: String,
}

pub(super) async fn handle(
    State(app_state): State<Arc<AppState>>,
    request: HookRequest<ReleaseRoute>,
) -> Response {
    let signed = request.signature.as_ref();
    let signed = signed.and_then(|signature| signature.made.as_ref());
    let Some(&(at, _)) = signed else {
        return response::empty(StatusCode::UNAUTHORIZED);
    };
    let Ok(proposal) = serde_json::from_slice::<ReleaseBody>(&request.body) else {
        return response::empty(StatusCode::BAD_REQUEST);
    };
    respond(&app_state, &request.key, |pipeline| {
        evaluate_release(pipeline, &proposal.revision, at)
    })
    .await
}
