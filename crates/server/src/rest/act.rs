//! What people do: approve, ask for a promotion or a rollback, suspend and resume.

use std::sync::Arc;

use api::{
    Pipeline, Time,
    pipeline::{Request, RequestKind},
    revision::is_usable,
};
use axum::{
    Json,
    extract::{FromRequest, Path, State},
};
use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use planner::hook::awaiting_approval;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Problem,
    access::{Caller, Wish},
};
use crate::{Door, FIELD_MANAGER, random, record::entry, watched::ObjectKey};

const LONGEST_NOTE: usize = 1024;
const LONGEST_NAME: usize = 256;

/// What somebody wants, in their words; silence is fine where there is nothing to say.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Words {
    pub(crate) revision: Option<String>,
    pub(crate) note: Option<String>,
    /// Whether to ask for a revision that nothing is known to have.
    #[serde(default)]
    pub(crate) unseen: bool,
}

impl<S: Send + Sync> FromRequest<S> for Words {
    type Rejection = Problem;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, Problem> {
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|error| Problem::new(error.status(), error.body_text()))?;
        if body.is_empty() {
            return Ok(Self::default());
        }
        let words: Self = serde_json::from_slice(&body).map_err(|error| {
            let what = r#"send JSON such as {"revision": "1.2.3", "note": "why"}"#;
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, format!("{error}; {what}"))
        })?;
        words.checked()
    }
}

impl Words {
    pub(crate) fn checked(self) -> Result<Self, Problem> {
        let note = self.note.as_deref().unwrap_or_default();
        if note.chars().count() > LONGEST_NOTE {
            let detail = format!("a note has at most {LONGEST_NOTE} characters");
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
        }
        Ok(self)
    }

    fn revision(&self) -> Result<String, Problem> {
        let said = self.revision.clone().filter(|text| is_usable(text));
        said.ok_or_else(|| {
            let detail = "say which revision: up to 256 printable characters";
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
        })
    }
}

/// One environment of a pipeline that is there, and who acts on it.
struct Scene {
    door: Arc<Door>,
    caller: Caller,
    key: ObjectKey,
    environment: String,
    pipeline: Pipeline,
}

/// What was done, as it is answered.
pub(crate) type Done = (StatusCode, Json<Value>);

/// What the path names beside the pipeline.
#[derive(Deserialize)]
pub(crate) struct Action {
    pub(crate) environment: String,
    pub(crate) verb: String,
}

pub(crate) async fn on_environment(
    State(door): State<Arc<Door>>,
    caller: Caller,
    key: ObjectKey,
    Path(Action { environment, verb }): Path<Action>,
    words: Words,
) -> Result<Done, Problem> {
    let right = match verb.as_str() {
        "approve" => "approve",
        "promote" | "rollback" => "promote",
        "suspend" | "resume" => "suspend",
        _ => return Err(Problem::not_found(&format!("the action {verb:?}"))),
    };
    let wish = Wish::new(right, &key).environment(&environment);
    caller.must(wish).await?;
    let pipeline = door.stored(&key).await?;
    let mut environments = pipeline.spec.environments.iter();
    if environments.all(|it| it.name != environment) {
        return Err(Problem::not_found(&format!(
            "the environment {environment} of {key}"
        )));
    }
    let scene = Scene {
        door,
        caller,
        key,
        environment,
        pipeline,
    };
    match verb.as_str() {
        "approve" => scene.approve(&words).await,
        "promote" => scene.request(RequestKind::Promote, &words).await,
        "rollback" => scene.request(RequestKind::Rollback, &words).await,
        _ => scene.suspend(verb == "suspend").await,
    }
}

impl Scene {
    async fn approve(&self, words: &Words) -> Result<Done, Problem> {
        let revision = words.revision()?;
        let waiting = self.door.waiting(&self.key, &self.environment, &revision);
        let waiting = waiting.await?;
        if waiting.is_empty() {
            return Err(Problem::new(
                StatusCode::CONFLICT,
                self.nothing_waits(&revision),
            ));
        }
        let by = self.signature()?;
        self.door
            .approve(&waiting, &by, words.note.as_deref(), None)
            .await?;
        tracing::info!(pipeline = %self.key, environment = self.environment, revision, by, "approved");
        let names: Vec<_> = waiting.iter().map(ResourceExt::name_any).collect();
        let body = json!({"revision": revision, "by": by, "promotions": names});
        Ok((StatusCode::OK, Json(body)))
    }

    fn nothing_waits(&self, revision: &str) -> String {
        let status = self.pipeline.status.as_ref();
        let status = status.and_then(|status| status.environments.get(&self.environment));
        let waiting = status.and_then(|status| status.waiting_approval.as_ref());
        let waiting = waiting
            .map(|it| it.revision.as_str())
            .filter(|it| !it.is_empty());
        let environment = &self.environment;
        match waiting {
            Some(other) if other != revision => {
                format!("{revision} does not wait for approval in {environment}, but {other} does")
            }
            _ => format!("{revision} does not wait for approval in {environment}"),
        }
    }

    /// Stores the request, and approves what it leads to where the asker may.
    async fn request(&self, kind: RequestKind, words: &Words) -> Result<Done, Problem> {
        let revision = words.revision()?;
        let by = self.signature()?;
        let seconds = Timestamp::from_second(Timestamp::now().as_second());
        let request = Request {
            id: random::id(),
            revision: revision.clone(),
            kind,
            by: Some(by.clone()),
            at: seconds.ok().map(Time),
            note: words.note.clone(),
            unseen: words.unseen,
        };
        let recorded = self.door.record(&self.key, |pipeline| {
            let status = pipeline.status.as_ref();
            let before = status.and_then(|status| status.requests.get(&self.environment));
            let before = before.map_or(Value::Null, |before| json!(before));
            Some(entry("requests", &self.environment, before, json!(request)))
        });
        recorded.await?;
        tracing::info!(pipeline = %self.key, environment = self.environment, revision, by, ?kind, "asked for");
        let message = self.follow(&request).await?;
        let body = json!({"id": request.id, "revision": revision, "by": by, "message": message});
        Ok((StatusCode::ACCEPTED, Json(body)))
    }

    /// Waits a little until the controller has taken the request up; what it says then.
    async fn follow(&self, request: &Request) -> Result<Option<String>, Problem> {
        let taken_up = self.door.wait_for(&self.key, |pipeline| {
            let status = pipeline
                .status
                .as_ref()?
                .environments
                .get(&self.environment)?;
            let handled = status.last_request.as_ref();
            handled.filter(|handled| handled.id == request.id).cloned()
        });
        let Some(handled) = taken_up.await else {
            return Ok(None);
        };
        if handled.refused {
            let detail = handled.message.unwrap_or_default();
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
        }
        let wish = Wish::new("approve", &self.key).environment(&self.environment);
        if handled.promotion.is_some() && self.caller.may(&wish).await? {
            let all = self.door.promotions(&self.key).await?;
            let (name, environment) = (&self.key.name, &self.environment);
            // The request may name the tag of the digest that is promoted.
            let mut promotions = all.iter();
            let led_to = promotions.find(|it| it.metadata.name == handled.promotion);
            let revision = led_to.map_or(&request.revision, |it| &it.spec.revision);
            let waiting = awaiting_approval(&all, name, environment, revision);
            let own = waiting.into_iter().filter(|promotion| {
                let asked = promotion.spec.request.as_ref();
                asked.is_some_and(|asked| asked.id == request.id)
            });
            let own: Vec<_> = own.cloned().collect();
            let by = request.by.as_deref().unwrap_or_default();
            let note = request.note.as_deref();
            self.door.approve(&own, by, note, None).await?;
        }
        Ok(handled.message)
    }

    /// The name that is kept.
    fn signature(&self) -> Result<String, Problem> {
        let name = self.caller.name();
        if name.chars().count() > LONGEST_NAME {
            let detail = format!("a user name of more than {LONGEST_NAME} characters is not kept");
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
        }
        Ok(name.to_owned())
    }

    /// The list of environments is one value to a merge patch, so that one field in it is reached
    /// by a JSON patch, which fails if the environment has moved meanwhile.
    async fn suspend(&self, suspend: bool) -> Result<Done, Problem> {
        let mut environments = self.pipeline.spec.environments.iter();
        let position = environments.position(|it| it.name == self.environment);
        let place = format!("/spec/environments/{}", position.unwrap_or_default());
        let patch = serde_json::from_value(json!([
            {"op": "test", "path": format!("{place}/name"), "value": self.environment},
            {"op": "add", "path": format!("{place}/suspend"), "value": suspend},
        ]));
        let patch = patch.expect("this is a JSON patch");
        let patch: Patch<Value> = Patch::Json(patch);
        set(&self.door, &self.key, &patch).await?;
        let by = self.caller.name();
        tracing::info!(pipeline = %self.key, environment = self.environment, by, suspend, "suspend");
        let body = json!({"environment": self.environment, "suspend": suspend});
        Ok((StatusCode::OK, Json(body)))
    }
}

pub(super) async fn suspend(
    State(door): State<Arc<Door>>,
    caller: Caller,
    key: ObjectKey,
) -> Result<Json<Value>, Problem> {
    suspend_pipeline(&door, &caller, &key, true).await
}

pub(super) async fn resume(
    State(door): State<Arc<Door>>,
    caller: Caller,
    key: ObjectKey,
) -> Result<Json<Value>, Problem> {
    suspend_pipeline(&door, &caller, &key, false).await
}

pub(crate) async fn suspend_pipeline(
    door: &Door,
    caller: &Caller,
    key: &ObjectKey,
    suspend: bool,
) -> Result<Json<Value>, Problem> {
    caller.must(Wish::new("suspend", key)).await?;
    door.stored(key).await?;
    let patch = Patch::Merge(json!({"spec": {"suspend": suspend}}));
    set(door, key, &patch).await?;
    tracing::info!(pipeline = %key, by = caller.name(), suspend, "suspend");
    Ok(Json(json!({"suspend": suspend})))
}

/// Writes as a manager that Flux does not undo.
async fn set(door: &Door, key: &ObjectKey, patch: &Patch<Value>) -> Result<(), Problem> {
    let pipelines: Api<Pipeline> = Api::namespaced(door.client.clone(), &key.namespace);
    let parameters = PatchParams::apply(FIELD_MANAGER);
    let written = pipelines.patch(&key.name, &parameters, patch).await?;
    door.watched.wrote_pipeline(written);
    Ok(())
}
