//! The commits between two commits, as Gitea lists them: the newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use serde_json::{Value, json};

use super::{authorize, error_response, into_response};
use crate::forge::{ForgeState, repository::git};

pub(super) async fn compare(
    State(state): State<Arc<ForgeState>>,
    Path((owner, name, range)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Response {
    let compare = async {
        let project = authorize(&state, &headers, &owner, &name)?;
        let not_found = || error_response(404, "The target couldn't be found.");
        let (from, to) = range.split_once("...").ok_or_else(not_found)?;
        let is_id = |text: &str| text.len() == 40 && text.chars().all(|c| c.is_ascii_hexdigit());
        if !is_id(from) || !is_id(to) {
            return Err(not_found());
        }
        let range = format!("{from}..{to}");
        let arguments = ["log", "--format=%H%x09%an%x09%s", &range, "--"];
        let folder = state.repository(&project);
        let listed = git(&folder, &arguments, b"")
            .await
            .map_err(|_| not_found())?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let commits: Vec<Value> = listed.lines().filter_map(commit).collect();
        let body = json!({"total_commits": commits.len(), "commits": commits});
        Ok(Json(body).into_response())
    };
    into_response(compare.await)
}

fn commit(line: &str) -> Option<Value> {
    let mut parts = line.splitn(3, '\t');
    let (id, author, title) = (parts.next()?, parts.next()?, parts.next()?);
    let details = json!({"message": format!("{title}\n"), "author": {"name": author}});
    Some(json!({"sha": id, "commit": details}))
}
