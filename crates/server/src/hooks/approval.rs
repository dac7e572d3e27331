//! `POST /approval/{namespace}/{pipeline}/{environment}/{revision}`: approves a revision.

use std::sync::Arc;

use api::{Promotion, pipeline::PipelineSpec, promotion::Approval};
use axum::{extract::State, response::Response};
use http::StatusCode;
use kube::ResourceExt;
use planner::{
    hook::{
        ApprovalSignature, AwaitedPromotion, HookRefusal, approval_secret, approved_by,
        awaiting_approval,
    },
    unknown_change,
};
use runtime::ObjectKey;
use tracing::error;

use super::{
    request::{HookRequest, HookRoute, SignatureRequirement, SignedContent},
    response,
};
use crate::{AppState, actions::DecisionError, object_names::parse_key};

/// How the answer to a refused approval begins.
const FAILED: &str = "failed approving promotion";

pub(super) struct ApprovalRoute {
    pipeline: ObjectKey,
    environment: String,
    /// The revision; if the path continues, also with the rest: a branch may contain slashes.
    revisions: Vec<String>,
}

impl HookRoute for ApprovalRoute {
    fn parse(segments: Vec<String>) -> Option<Self> {
        let [namespace, name, environment, revision, ..] = &segments[..] else {
            return None;
        };
        let mut revisions = vec![segments[3..].join("/"), revision.clone()];
        revisions.dedup();
        Some(Self {
            pipeline: parse_key(namespace, name)?,
            environment: environment.clone(),
            revisions,
        })
    }

    fn pipeline(&self) -> ObjectKey {
        self.pipeline.clone()
    }

    fn signature_requirement<'a>(&self, spec: &'a PipelineSpec) -> SignatureRequirement<'a> {
        SignatureRequirement {
            secret: approval_secret(spec, &self.environment),
            is_required: true,
            content: SignedContent::WholeRequest,
        }
    }
}

pub(super) async fn handle(
    State(app_state): State<Arc<AppState>>,
    request: HookRequest<ApprovalRoute>,
) -> Response {
    match approve(&app_state, &request).await {
        Ok(response) => response,
        Err(error) => {
            error!(pipeline = %request.key, %error, "could not store an approval");
            response::cannot_promote()
        }
    }
}

async fn approve(
    app_state: &AppState,
    request: &HookRequest<ApprovalRoute>,
) -> Result<Response, kube::Error> {
    let environment = request.route.environment.as_str();
    let all = app_state.list_promotions(&request.key).await?;
    let mut approved = match approved(request, &all) {
        Ok(approved) => approved,
        Err((code, text)) => return Ok(response::text(code, text)),
    };
    for promotion in &mut approved {
        *promotion = app_state.prepared(promotion).await?;
        if let Some(text) = unknown_change(promotion) {
            let text = format!("{FAILED}: {text}");
            return Ok(response::text(StatusCode::UNPROCESSABLE_ENTITY, text));
        }
    }
    let spec = &request.pipeline.spec;
    if spec.environments.iter().all(|it| it.name != environment) {
        let refusal = HookRefusal::UnknownEnvironment {
            pipeline: request.key.to_string(),
            environment: environment.to_owned(),
        };
        return Ok(response::refused(&refusal));
    }
    if spec.promotion_into(environment).is_none() {
        return Ok(response::cannot_promote());
    }
    if let Some(refused) = store(app_state, request, &approved).await? {
        return Ok(refused);
    }
    let first = approved.first();
    let awaited = AwaitedPromotion {
        source: None,
        environment: environment.to_owned(),
        revision: first.map(|it| it.spec.revision.clone()).unwrap_or_default(),
    };
    let name = first.map(ResourceExt::name_any);
    let result = app_state.wait_for_promotion(&request.key, &awaited, name.as_deref());
    Ok(response::promotion_result(result.await))
}

/// Stores the approvals; the answer, if one is refused.
async fn store(
    app_state: &AppState,
    request: &HookRequest<ApprovalRoute>,
    approved: &[Promotion],
) -> Result<Option<Response>, kube::Error> {
    let secret = request
        .signature
        .as_ref()
        .map(|signature| signature.secret.as_str());
    let approval = Approval {
        by: format!("secret:{}", secret.unwrap_or_default()),
        signature: signature(request).map(|it| it.digest.to_owned()),
        ..Approval::default()
    };
    for promotion in approved {
        match app_state.approve(promotion, approval.clone()).await {
            Ok(()) => {}
            Err(DecisionError::Api(error)) => return Err(error),
            Err(refusal) => {
                let text = format!("{FAILED}: {refusal}");
                return Ok(Some(response::text(StatusCode::CONFLICT, text)));
            }
        }
    }
    Ok(None)
}

/// The promotions that the request approves, or why it approves none.
fn approved(
    request: &HookRequest<ApprovalRoute>,
    all: &[Promotion],
) -> Result<Vec<Promotion>, (StatusCode, String)> {
    let ApprovalRoute {
        pipeline,
        environment,
        revisions,
    } = &request.route;
    let waiting: Vec<_> = revisions
        .iter()
        .flat_map(|revision| awaiting_approval(all, &pipeline.name, environment, revision))
        .collect();
    if waiting.is_empty() {
        return Err((StatusCode::UNPROCESSABLE_ENTITY, FAILED.to_owned()));
    }
    let approved = match signature(request) {
        Some(signature) => approved_by(&signature, &waiting, all),
        None => Ok(waiting),
    };
    match approved {
        Ok(approved) => Ok(approved.into_iter().cloned().collect()),
        Err(refusal) => Err((StatusCode::UNAUTHORIZED, format!("{FAILED}: {refusal}"))),
    }
}

/// The signature, if it covers a timestamp. That of the Weave pipeline-controller does not, and can be
/// used again.
fn signature(request: &HookRequest<ApprovalRoute>) -> Option<ApprovalSignature<'_>> {
    let (at, digest) = request.signature.as_ref()?.made.as_ref()?;
    Some(ApprovalSignature { at: *at, digest })
}
