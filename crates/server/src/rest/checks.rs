//! `GET /api/v1/checks`: the CheckRuns of a namespace. `POST …/checks/{check}/report`: a person reports the
//! result of an external check.

use std::sync::Arc;

use api::{CheckRun, check_run::CheckResult};
use axum::{
    Json,
    extract::{FromRequest, Path, State},
};
use kube::Api;
use planner::hook::ReportedCheck;
use serde::Deserialize;

use super::{
    body::read_json,
    path::{NamespacePath, PathKey, UrlQuery},
    show::{ListQuery, ListResponse, list},
};
use crate::{
    AppState,
    access::{AccessRequest, CHECK_RUNS, Caller},
    actions::ReportError,
    hooks::refusal_code,
    problem::Problem,
};

/// What is reported.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportBody {
    passed: bool,
    revision: Option<String>,
    message: Option<String>,
    url: Option<String>,
}

impl<S: Send + Sync> FromRequest<S> for ReportBody {
    type Rejection = Problem;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, Problem> {
        let example = r#"{"passed": true, "message": "why"}"#;
        let body: Option<Self> = read_json(request, state, example).await?;
        body.ok_or_else(|| Problem::unprocessable(format!("send a body such as {example}")))
    }
}

/// What the path names beside the pipeline.
#[derive(Deserialize)]
pub(super) struct CheckPath {
    environment: String,
    check: String,
}

pub(super) async fn all(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    NamespacePath(namespace): NamespacePath,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> Result<Json<ListResponse<CheckRun>>, Problem> {
    let access = AccessRequest::list(CHECK_RUNS, Some(&namespace));
    caller.authorize(access).await?;
    let runs = Api::namespaced(app_state.client.clone(), &namespace);
    list(&runs, query).await
}

pub(super) async fn report(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    PathKey(key): PathKey,
    Path(path): Path<CheckPath>,
    body: ReportBody,
) -> Result<Json<CheckRun>, Problem> {
    let access = AccessRequest::new("report", &key).environment(&path.environment);
    caller.authorize(access).await?;
    let reported = ReportedCheck {
        pipeline: &key.name,
        environment: &path.environment,
        check: &path.check,
        revision: body.revision.as_deref(),
        signature: None,
    };
    let result = CheckResult {
        passed: body.passed,
        message: body.message,
        url: body.url,
        by: Some(caller.name().to_owned()),
        ..CheckResult::default()
    };
    match app_state.report_check(&key, &reported, result).await {
        Ok(run) => Ok(Json(run)),
        Err(ReportError::Refused(refusal)) => {
            Err(Problem::new(refusal_code(&refusal), refusal.to_string()))
        }
        Err(ReportError::Hub(error)) => Err(error.into()),
    }
}
