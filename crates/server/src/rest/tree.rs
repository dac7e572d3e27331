//! What is behind the targets of an environment: Flux's objects, workloads and pods.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Query, State},
};
use futures::future::join_all;

use super::{
    Problem,
    access::{Caller, Wish},
    show::{Listed, Page},
};
use crate::{
    Door,
    objects::{Behind, Wanted},
    view,
    watched::ObjectKey,
};

/// How many targets one answer holds at most: each is a look at a cluster.
const PAGE: u32 = 20;

/// What the path names beside the pipeline.
#[derive(serde::Deserialize)]
pub(super) struct Aim {
    environment: String,
}

pub(super) async fn tree(
    State(door): State<Arc<Door>>,
    caller: Caller,
    key: ObjectKey,
    Path(Aim { environment }): Path<Aim>,
    Query(wanted): Query<Wanted>,
    Query(page): Query<Page>,
) -> Result<Json<Listed<Behind>>, Problem> {
    caller.must(Wish::new("get", &key)).await?;
    let pipeline = door.stored(&key).await?;
    let mut names = pipeline.spec.environments.iter().map(|it| &it.name);
    if !names.any(|name| *name == environment) {
        let what = format!("the environment {environment} of {key}");
        return Err(Problem::not_found(&what));
    }
    let targets = view::status_of(&pipeline, &environment).map(|it| it.targets.as_slice());
    let targets = targets.unwrap_or_default().iter();
    let targets = targets.filter(|target| wanted.is(target)).collect();
    let listed = page.at_most(PAGE).of(targets)?;
    let (targets, next) = listed.into_parts();
    let looks = targets.into_iter().map(|it| door.behind(&pipeline, it));
    Ok(Json(Listed::new(join_all(looks).await, next)))
}
