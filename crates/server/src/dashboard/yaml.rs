//! The YAML page of a pipeline.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::{IntoResponse, Response},
};
use http::StatusCode;

use super::{
    ErrorPage,
    components::{address, breadcrumbs},
    html::{Html, tag},
    layout::{self, Tab},
    sign_in::Viewer,
};
use crate::{AppState, access::AccessRequest, object_names::parse_key, problem::Problem};

pub(super) async fn show(
    State(app_state): State<Arc<AppState>>,
    viewer: Viewer,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Response, ErrorPage> {
    let key = parse_key(&namespace, &name);
    let key = key.ok_or_else(|| Problem::not_found("a pipeline of that name"))?;
    if !viewer
        .caller
        .may_see(&AccessRequest::new("get", &key))
        .await?
    {
        let detail = format!("{} may not see {key}", viewer.caller.name());
        return Err(Problem::new(StatusCode::FORBIDDEN, detail).into());
    }
    let mut pipeline = app_state.stored_pipeline(&key).await?;
    pipeline.metadata.managed_fields = None;
    let text = serde_saphyr::to_string(&pipeline)
        .unwrap_or_else(|error| format!("cannot be written as YAML: {error}"));
    let here = address(&key);
    let command = format!("kubectl get pipeline -n {namespace} {name} -o yaml");
    let content = Html::all([
        breadcrumbs(&[("Pipelines", "/pipelines"), (&name, &here)], "YAML"),
        tag("h1").text(format_args!("{name} as YAML")),
        tag("p").class("dim").child(tag("code").text(command)),
        tag("pre")
            .with("tabindex", 0)
            .with("role", "region")
            .with("aria-label", "YAML")
            .child(tag("code").text(text)),
    ]);
    let title = format!("{name} as YAML");
    Ok(layout::plain(&title, &viewer, Tab::Pipelines, content).into_response())
}
