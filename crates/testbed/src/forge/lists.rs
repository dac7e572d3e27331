//! The pages of the forge that lead to pull requests: all repositories, and the pull requests of one.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;

use super::ForgeState;
use super::pages::{document, escaped, state_badge};
use super::pulls::{self, PullRequest, PullState};

/// All repositories.
pub(super) async fn repositories(State(state): State<Arc<ForgeState>>) -> Response {
    let items: String = projects(&state)
        .iter()
        .map(|project| {
            let project = escaped(project);
            format!("<li><a href=\"/{project}/pulls\">{project}</a></li>")
        })
        .collect();
    let content = format!(
        "<h1>Repositories</h1><section aria-label=\"Repositories\"><ul class=\"list\">{items}</ul></section>"
    );
    document("Repositories", &content)
}

/// The names of all repositories: the bare folders `OWNER/NAME.git`.
fn projects(state: &ForgeState) -> Vec<String> {
    let names = |folder: &std::path::Path| -> Vec<String> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let entries = entries.filter(|it| it.path().is_dir());
        entries
            .filter_map(|it| it.file_name().into_string().ok())
            .collect()
    };
    let root = state.folder.path();
    let mut projects: Vec<String> = Vec::new();
    for owner in names(root) {
        let own = names(&root.join(&owner)).into_iter();
        let own = own.filter_map(|it| it.strip_suffix(".git").map(str::to_owned));
        projects.extend(own.map(|name| format!("{owner}/{name}")));
    }
    projects.sort();
    projects
}

/// The pull requests of a repository, the newest first.
pub(super) async fn pull_requests(
    State(state): State<Arc<ForgeState>>,
    Path((owner, name)): Path<(String, String)>,
) -> Response {
    let project = format!("{owner}/{name}");
    if !projects(&state).contains(&project) {
        return (StatusCode::NOT_FOUND, "This repository does not exist.").into_response();
    }
    let mut pulls = pulls::all(&state, &project).await;
    pulls.sort_by_key(|pull| {
        (
            pull.state != PullState::Open,
            std::cmp::Reverse(pull.number),
        )
    });
    let project = escaped(&project);
    let items: String = pulls.iter().map(|pull| item(&project, pull)).collect();
    let items = match items.is_empty() {
        true => "<p class=\"dim\">No pull requests yet.</p>".to_owned(),
        false => format!("<ul class=\"list\">{items}</ul>"),
    };
    let content = format!(
        "<p><a href=\"/\">Repositories</a></p><h1>{project}</h1>\
         <section aria-label=\"Pull requests\"><h2>Pull requests</h2>{items}</section>"
    );
    document(&format!("Pull requests · {project}"), &content)
}

fn item(project: &str, pull: &PullRequest) -> String {
    let (number, title) = (pull.number, escaped(&pull.title));
    format!(
        "<li>{} <a href=\"/{project}/pulls/{number}\">{title}</a> <span class=\"dim\">#{number}</span></li>",
        state_badge(pull.state)
    )
}
