//! `POST /release/{namespace}/{pipeline}`: CI proposes a revision for the first environment.

use std::sync::Arc;

use api::pipeline::PipelineSpec;
use axum::{extract::State, response::Response};
use http::StatusCode;
use planner::hook::{evaluate_release, release_secret};
use serde::Deserialize;

use super::{
    answer,
    promotion::respond,
    signed::{Covers, Demand, Road, Signed},
};
use crate::{Door, watched::ObjectKey};

pub(super) struct Release(ObjectKey);

impl Road for Release {
    fn read(parts: Vec<String>) -> Option<Self> {
        let [namespace, name] = &parts[..] else {
            return None;
        };
        Some(Self(ObjectKey::parse(namespace, name)?))
    }

    fn pipeline(&self) -> ObjectKey {
        self.0.clone()
    }

    fn demand<'a>(&self, spec: &'a PipelineSpec) -> Demand<'a> {
        Demand {
            secret: release_secret(spec),
            is_required: true,
            covers: Covers::WholeCall,
        }
    }
}

#[derive(Deserialize)]
struct Proposal {
    revision: String,
}

pub(super) async fn handle(State(door): State<Arc<Door>>, call: Signed<Release>) -> Response {
    let signed = call.seal.as_ref().and_then(|seal| seal.call.as_ref());
    let Some(&(at, _)) = signed else {
        return answer::empty(StatusCode::UNAUTHORIZED);
    };
    let Ok(proposal) = serde_json::from_slice::<Proposal>(&call.body) else {
        return answer::empty(StatusCode::BAD_REQUEST);
    };
    respond(&door, &call.key, |pipeline| {
        evaluate_release(pipeline, &proposal.revision, at)
    })
    .await
}
