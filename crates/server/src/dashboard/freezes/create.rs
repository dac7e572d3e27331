//! The form of the freezes page that creates a Freeze, for viewers who may in a namespace with pipelines.

use std::{collections::BTreeSet, sync::Arc};

use api::Pipeline;
use futures::future::try_join_all;
use kube::ResourceExt;

use super::{FREEZES_PAGE, details, form_without_namespace, label};
use crate::{
    AppState,
    access::{AccessRequest, PIPELINES},
    dashboard::{
        components::hidden_field,
        html::{Element, tag},
        sign_in::Viewer,
    },
    problem::Problem,
};

/// In how many namespaces it is asked whether the viewer may freeze.
const MAX_NAMESPACES: usize = 100;
/// How many names of pipelines are suggested.
const MAX_SUGGESTIONS: usize = 200;

/// The form behind its button; empty for viewers who may not create one.
pub(super) async fn create_form(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
) -> Result<Element, Problem> {
    let element = tag("div").id("create");
    let all = app_state.objects.pipelines().all();
    let namespace_of = |it: &Arc<Pipeline>| it.namespace().unwrap_or_default();
    let pipelines = viewer.caller.visible(PIPELINES, all, namespace_of).await?;
    let central = app_state.settings.freeze_namespace.as_ref();
    let mut namespaces: BTreeSet<String> = pipelines.iter().map(namespace_of).collect();
    namespaces.extend(central.cloned());
    let asked = namespaces.into_iter().take(MAX_NAMESPACES);
    let asked = asked.map(|namespace| async move {
        let to_freeze = AccessRequest::freeze(&namespace);
        let may = viewer.caller.may_see(&to_freeze).await?;
        Ok::<_, Problem>(Some(namespace).filter(|_| may))
    });
    let allowed: Vec<String> = try_join_all(asked).await?.into_iter().flatten().collect();
    if allowed.is_empty() {
        return Ok(element);
    }
    let names = pipelines
        .iter()
        .filter(|it| allowed.contains(&namespace_of(it)));
    let names: BTreeSet<String> = names.map(|it| it.name_any()).collect();
    let hint = central.filter(|it| allowed.contains(it));
    let hint = hint.map(|it| format!("A freeze in {it} covers the pipelines of all namespaces."));
    let summary = tag("summary").class("button").text("Create a freeze…");
    let details = tag("details").id("create-freeze").child(summary);
    let form = form(&allowed, hint, &names, &viewer.session.csrf);
    Ok(element.child(details.child(form)))
}

fn form(
    namespaces: &[String],
    hint: Option<String>,
    pipelines: &BTreeSet<String>,
    csrf: &str,
) -> Element {
    let option = |name: &String| tag("option").with("value", name).text(name);
    let select = tag("select")
        .id("freeze-namespace")
        .with("name", "namespace");
    let suggestions = pipelines.iter().take(MAX_SUGGESTIONS);
    let suggestions = suggestions.map(|name| tag("option").with("value", name));
    let text = |id: &'static str, name: &'static str| {
        let input = tag("input").id(id).with("name", name).with("type", "text");
        input.with("maxlength", 253).with("autocomplete", "off")
    };
    let scope = form_without_namespace(csrf, "freeze")
        .class("create-freeze")
        .child(hidden_field("back", FREEZES_PAGE))
        .child(label("freeze-namespace", "Namespace"))
        .child(select.children(namespaces.iter().map(option)))
        .child(label(
            "freeze-pipeline",
            "Pipeline (empty: all of the namespace)",
        ))
        .child(text("freeze-pipeline", "pipeline").with("list", "freeze-pipelines"))
        .child(tag("datalist").id("freeze-pipelines").children(suggestions))
        .children(hint.map(|text| tag("p").class("dim").text(text)))
        .child(label("freeze-environment", "Environment (empty: all)"))
        .child(text("freeze-environment", "environment"));
    details(scope)
}
