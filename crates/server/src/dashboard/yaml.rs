//! A pipeline as it is stored.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::{IntoResponse, Response},
};
use http::StatusCode;

use super::{
    Failure,
    html::{Html, tag},
    layout::{self, Tab},
    sign_in::Viewer,
    words::{address, crumbs},
};
use crate::{
    Door,
    rest::{Problem, access::Wish},
    watched::ObjectKey,
};

pub(super) async fn show(
    State(door): State<Arc<Door>>,
    viewer: Viewer,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let key = ObjectKey::parse(&namespace, &name);
    let key = key.ok_or_else(|| Problem::not_found("a pipeline of that name"))?;
    if !viewer.caller.may_see(&Wish::new("get", &key)).await? {
        let detail = format!("{} may not see {key}", viewer.caller.name());
        return Err(Problem::new(StatusCode::FORBIDDEN, detail).into());
    }
    let mut pipeline = door.stored(&key).await?;
    pipeline.metadata.managed_fields = None;
    let text = serde_saphyr::to_string(&pipeline)
        .unwrap_or_else(|error| format!("this cannot be written as YAML: {error}"));
    let here = address(&key);
    let command = format!("kubectl get pipeline -n {namespace} {name} -o yaml");
    let content = Html::all([
        crumbs(&[("Pipelines", "/pipelines"), (&name, &here)], "YAML"),
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
