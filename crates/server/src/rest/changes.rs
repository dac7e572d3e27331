//! Files that people want proposed in git: asked for here, carried out by the controller.

use std::sync::Arc;

use api::{
    Change,
    change::ChangeSpec,
    names::{change_name, slug},
};
use axum::{
    Json,
    extract::{FromRequest, Query, State},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{StatusCode, header};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
};
use serde::Deserialize;

use super::{
    Problem,
    access::{CHANGES, Caller, Wish},
    path::Namespace,
    show::{Listed, Page, list, plain},
};
use crate::{Door, FIELD_MANAGER, read::read, watched::ObjectKey};

/// The longest body that is read: the longest file, and what JSON adds to it.
pub(super) const LONGEST_BODY: usize = 512 << 10;
/// The longest user name that is kept.
const LONGEST_NAME: usize = 256;
/// How often a change of the same name may get in the way.
const TRIES: usize = 3;

/// A file that somebody wants in git.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    pub(crate) path: String,
    pub(crate) content: String,
    pub(crate) title: String,
}

impl<S: Send + Sync> FromRequest<S> for Wanted {
    type Rejection = Problem;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, Problem> {
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|error| Problem::new(error.status(), error.body_text()))?;
        serde_json::from_slice(&body).map_err(|error| {
            let what =
                r#"send JSON such as {"path": "a/b.yaml", "content": "…", "title": "Add b"}"#;
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, format!("{error}; {what}"))
        })
    }
}

pub(super) async fn create(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Namespace(namespace): Namespace,
    wanted: Wanted,
) -> Result<Response, Problem> {
    let change = propose(&door, &caller, &namespace, wanted).await?;
    let place = format!("/api/v1/changes/{namespace}/{}", change.name_any());
    let place = [(header::LOCATION, place)];
    Ok((StatusCode::CREATED, place, Json(plain(change))).into_response())
}

pub(super) async fn all(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Namespace(namespace): Namespace,
    Query(page): Query<Page>,
) -> Result<Json<Listed<Change>>, Problem> {
    caller.must(Wish::list(CHANGES, Some(&namespace))).await?;
    list(&Api::namespaced(door.client.clone(), &namespace), page).await
}

pub(super) async fn one(
    State(door): State<Arc<Door>>,
    caller: Caller,
    key: ObjectKey,
) -> Result<Json<Change>, Problem> {
    caller.must(Wish::new("get", &key).of(CHANGES)).await?;
    Ok(Json(plain(stored(&door, &key).await?)))
}

/// A change as the API server has it.
pub(crate) async fn stored(door: &Door, key: &ObjectKey) -> Result<Change, Problem> {
    let found: Option<Change> = read(&door.client, key).await?;
    found.ok_or_else(|| Problem::not_found(&format!("the change {key}")))
}

/// Stores a wish as a Change, if whoever has it may. The same wish is the same Change; what is over is
/// made way for.
pub(crate) async fn propose(
    door: &Door,
    caller: &Caller,
    namespace: &str,
    wanted: Wanted,
) -> Result<Change, Problem> {
    let Namespace(namespace) = Namespace::parse(namespace)?;
    caller.must(Wish::create(CHANGES, Some(&namespace))).await?;
    let change = change(caller, &namespace, wanted);
    refuse(door, caller, &change)?;
    let created = make_way_and_create(door, &change).await?;
    let key = ObjectKey::of(&created);
    tracing::info!(change = %key, by = caller.name(), path = created.spec.path, "asked for");
    Ok(created)
}

/// Fails where the controller would not carry it out.
fn refuse(door: &Door, caller: &Caller, change: &Change) -> Result<(), Problem> {
    let unprocessable = |detail: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail);
    if caller.name().chars().count() > LONGEST_NAME {
        let detail = format!("a user name of more than {LONGEST_NAME} characters is not kept");
        return Err(unprocessable(detail));
    }
    let (only, asked) = (door.settings.namespace.as_ref(), change.namespace());
    if let Some(only) = only.filter(|only| asked.as_ref() != Some(only)) {
        let detail = format!("this Sluice looks only at namespace {only}");
        return Err(unprocessable(detail));
    }
    let authoring = door.settings.authoring.as_ref();
    let folders = authoring.map(|to| to.folders.as_slice());
    match planner::change::refuse(change, folders) {
        None => Ok(()),
        Some(refusal) if refusal.reason == planner::change::NOT_CONFIGURED => {
            Err(Problem::new(StatusCode::CONFLICT, refusal.message))
        }
        Some(refusal) => Err(unprocessable(refusal.message)),
    }
}

fn change(caller: &Caller, namespace: &str, wanted: Wanted) -> Change {
    let file = wanted.path.rsplit('/').next().unwrap_or_default();
    let readable = slug(file.split('.').next().unwrap_or_default(), 45, "file");
    let name = change_name(&readable, &wanted.path, &wanted.content);
    let spec = ChangeSpec {
        path: wanted.path,
        content: wanted.content,
        title: wanted.title,
        by: Some(caller.name().to_owned()),
    };
    let mut change = Change::new(&name, spec);
    change.metadata.namespace = Some(namespace.to_owned());
    change
}

async fn make_way_and_create(door: &Door, change: &Change) -> Result<Change, Problem> {
    let key = ObjectKey::of(change);
    let changes: Api<Change> = Api::namespaced(door.client.clone(), &key.namespace);
    let parameters = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    for _ in 0..TRIES {
        match changes.create(&parameters, change).await {
            Ok(created) => {
                door.watched.wrote_change(created.clone());
                return Ok(created);
            }
            Err(kube::Error::Api(refusal)) if refusal.is_already_exists() => {}
            Err(error) => return Err(error.into()),
        }
        let Some(there) = changes.get_opt(&key.name).await? else {
            continue;
        };
        let phase = there.status.as_ref().and_then(|status| status.phase);
        if !phase.is_some_and(|phase| phase.is_over()) {
            return Ok(there);
        }
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: there.uid(),
                resource_version: there.resource_version(),
            }),
            ..DeleteParams::default()
        };
        match changes.delete(&key.name, &parameters).await {
            Ok(_) => {}
            Err(kube::Error::Api(refusal)) if matches!(refusal.code, 404 | 409) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let detail = format!("the change {key} is being written by others; try again");
    Err(Problem::new(StatusCode::CONFLICT, detail))
}
