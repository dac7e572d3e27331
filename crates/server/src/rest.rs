//! `/api/v1`: pipelines and everything around them for people and programs, with a bearer token.
//!
//! Tokens are authenticated with a TokenReview. Each request is authorized with a
//! SubjectAccessReview for `pipelines`, or `pipelines/<environment>`, and one of the verbs `get`,
//! `list`, `promote`, `approve`, `suspend`, `freeze` and `report`; for files to propose in git, for `changes` and `get`,
//! `list` or `create`.

mod actions;
mod body;
mod changes;
mod checks;
mod diff;
mod etag;
mod freezes;
mod gates;
mod openapi;
mod path;
mod rollout;
mod show;
mod tree;
mod versions;

use std::sync::Arc;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    middleware,
    routing::{delete, get, post},
};

use crate::AppState;

/// The routes of REST.
pub(crate) fn router() -> Router<Arc<AppState>> {
    const PIPELINE: &str = "/api/v1/pipelines/{namespace}/{name}";
    Router::new()
        .route("/api/v1/pipelines", get(show::all_pipelines))
        .route("/api/v1/pipelines/{namespace}", get(show::pipelines))
        .route(PIPELINE, get(show::pipeline))
        .route(&format!("{PIPELINE}/environments"), get(show::environments))
        .route(&format!("{PIPELINE}/promotions"), get(show::promotions))
        .route(&format!("{PIPELINE}/history"), get(show::promotions))
        .route(&format!("{PIPELINE}/triggers"), get(show::triggers_of))
        .route(
            "/api/v1/changes/{namespace}",
            get(changes::all)
                .post(changes::create)
                .layer(DefaultBodyLimit::max(changes::MAX_BODY)),
        )
        .route("/api/v1/changes/{namespace}/{name}", get(changes::one))
        .route("/api/v1/checks/{namespace}", get(checks::all))
        .route(
            "/api/v1/freezes/{namespace}",
            get(freezes::all).post(freezes::create),
        )
        .route(
            "/api/v1/freezes/{namespace}/{name}",
            delete(freezes::delete),
        )
        .route("/api/v1/clusters", get(show::clusters))
        .route("/api/v1/triggers", get(show::all_triggers))
        .route("/api/v1/versions", get(versions::versions))
        .route("/api/v1/images", get(versions::images))
        .route("/api/openapi.json", get(openapi::document))
        .route(&format!("{PIPELINE}/explain"), get(gates::explanation))
        .route(&format!("{PIPELINE}/gates"), get(gates::gates))
        .route(&format!("{PIPELINE}/forecast"), get(gates::forecast))
        .route(&format!("{PIPELINE}/suspend"), post(actions::suspend))
        .route(&format!("{PIPELINE}/resume"), post(actions::resume))
        .route(
            &format!("{PIPELINE}/environments/{{environment}}/tree"),
            get(tree::tree),
        )
        .route(
            &format!("{PIPELINE}/environments/{{environment}}/diff"),
            get(diff::diff),
        )
        .route(
            &format!("{PIPELINE}/environments/{{environment}}/rollout"),
            get(rollout::rollout),
        )
        .route(
            &format!("{PIPELINE}/environments/{{environment}}/checks/{{check}}/report"),
            post(checks::report),
        )
        .route(
            &format!("{PIPELINE}/environments/{{environment}}/{{verb}}"),
            post(actions::act_on_environment),
        )
        .layer(middleware::from_fn(etag::add_etag))
}
