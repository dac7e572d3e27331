//! `POST /approval/{namespace}/{pipeline}/{environment}/{revision}`: lets a revision in.

use std::sync::Arc;

use api::pipeline::PipelineSpec;
use axum::{extract::State, response::Response};
use http::StatusCode;
use kube::ResourceExt;
use planner::hook::{Awaited, Refusal, approval_secret};
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
    let mut waiting = Vec::new();
    for revision in &call.road.revisions {
        waiting.extend(door.waiting(&call.key, environment, revision).await?);
    }
    let Some(first) = waiting.first() else {
        let text = "failed approving promotion";
        return Ok(answer::text(StatusCode::UNPROCESSABLE_ENTITY, text));
    };
    let spec = &call.pipeline.spec;
    if spec.environments.iter().all(|it| it.name != environment) {
        let refusal = Refusal::UnknownEnvironment {
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
    door.approve(&waiting, &by, None).await?;
    let awaited = Awaited {
        source: None,
        environment: environment.to_owned(),
        revision: first.spec.revision.clone(),
    };
    let name = first.name_any();
    let outcome = door.outcome(&call.key, &awaited, Some(&name)).await;
    Ok(answer::outcome(outcome))
}
