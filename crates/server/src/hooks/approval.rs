//! `POST /approval/{namespace}/{pipeline}/{environment}/{revision}`: lets a revision in.

use std::sync::Arc;

use api::{Promotion, pipeline::PipelineSpec};
use axum::{extract::State, response::Response};
use http::StatusCode;
use kube::ResourceExt;
use planner::hook::{
    ApprovalSignature, AwaitedPromotion, HookRefusal, approval_secret, approved_by,
    awaiting_approval,
};
use tracing::error;

use super::{
    answer,
    signed::{Covers, Demand, Road, Signed},
};
use crate::{Door, watched::ObjectKey};

pub(super) struct Approval {
    pipeline: ObjectKey,
    environment: String,
    /// The revision; where the path goes on, also with what follows: a branch may hold slashes.
    revisions: Vec<String>,
}

impl Road for Approval {
    fn read(parts: Vec<String>) -> Option<Self> {
        let [namespace, name, environment, revision, ..] = &parts[..] else {
            return None;
        };
        let mut revisions = vec![parts[3..].join("/"), revision.clone()];
        revisions.dedup();
        Some(Self {
            pipeline: ObjectKey::parse(namespace, name)?,
            environment: environment.clone(),
            revisions,
        })
    }

    fn pipeline(&self) -> ObjectKey {
        self.pipeline.clone()
    }

    fn demand<'a>(&self, spec: &'a PipelineSpec) -> Demand<'a> {
        Demand {
            secret: approval_secret(spec, &self.environment),
            is_required: true,
            covers: Covers::WholeCall,
        }
    }
}

pub(super) async fn handle(State(door): State<Arc<Door>>, call: Signed<Approval>) -> Response {
    match approve(&door, &call).await {
        Ok(response) => response,
        Err(error) => {
            error!(pipeline = %call.key, %error, "an approval was not stored");
            answer::cannot_promote()
        }
    }
}

async fn approve(door: &Door, call: &Signed<Approval>) -> Result<Response, kube::Error> {
    let environment = call.road.environment.as_str();
    let all = door.promotions(&call.key).await?;
    let approved = match approved(call, &all) {
        Ok(approved) => approved,
        Err((code, text)) => return Ok(answer::text(code, text)),
    };
    let spec = &call.pipeline.spec;
    if spec.environments.iter().all(|it| it.name != environment) {
        let refusal = HookRefusal::UnknownEnvironment {
            pipeline: call.key.to_string(),
            environment: environment.to_owned(),
        };
        return Ok(answer::refused(&refusal));
    }
    if spec.promotion_into(environment).is_none() {
        return Ok(answer::cannot_promote());
    }
    let secret = call.seal.as_ref().map(|seal| seal.secret.as_str());
    let by = format!("secret:{}", secret.unwrap_or_default());
    let digest = signature(call).map(|signature| signature.digest);
    door.approve(&approved, &by, None, digest).await?;
    let first = approved.first();
    let awaited = AwaitedPromotion {
        source: None,
        environment: environment.to_owned(),
        revision: first.map(|it| it.spec.revision.clone()).unwrap_or_default(),
    };
    let name = first.map(ResourceExt::name_any);
    let outcome = door.outcome(&call.key, &awaited, name.as_deref()).await;
    Ok(answer::outcome(outcome))
}

/// The promotions that the call approves, or why it approves none.
fn approved(
    call: &Signed<Approval>,
    all: &[Promotion],
) -> Result<Vec<Promotion>, (StatusCode, String)> {
    let Approval {
        pipeline,
        environment,
        revisions,
    } = &call.road;
    let waiting: Vec<_> = revisions
        .iter()
        .flat_map(|revision| awaiting_approval(all, &pipeline.name, environment, revision))
        .collect();
    let failed = "failed approving promotion";
    if waiting.is_empty() {
        return Err((StatusCode::UNPROCESSABLE_ENTITY, failed.to_owned()));
    }
    let approved = match signature(call) {
        Some(signature) => approved_by(&signature, &waiting, all),
        None => Ok(waiting),
    };
    match approved {
        Ok(approved) => Ok(approved.into_iter().cloned().collect()),
        Err(refusal) => Err((StatusCode::UNAUTHORIZED, format!("{failed}: {refusal}"))),
    }
}

/// The signature, where it covers the time. The older controller's does not and can be used again.
fn signature(call: &Signed<Approval>) -> Option<ApprovalSignature<'_>> {
    let (at, digest) = call.seal.as_ref()?.call.as_ref()?;
    Some(ApprovalSignature { at: *at, digest })
}
