//! The triggers page: each PipelineTrigger, what it follows, the pipeline that it feeds and its state.

use std::sync::Arc;

use api::{PipelineTrigger, names::PIPELINE_LABEL};
use kube::ResourceExt;
use runtime::ObjectKey;

use super::{
    components::{address, counted, empty_state, table},
    html::{Element, Html, tag},
    page::{PagePart, PageParts},
    pipeline::status_line,
    sign_in::Viewer,
};
use crate::{
    AppState,
    access::{AccessRequest, TRIGGERS},
    problem::Problem,
    triggers::status_of,
};

pub(super) async fn parts(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
) -> Result<PageParts, Problem> {
    let all = app_state.objects.all_triggers();
    let namespace_of = |it: &Arc<PipelineTrigger>| it.namespace().unwrap_or_default();
    let mut triggers = viewer.caller.visible(TRIGGERS, all, namespace_of).await?;
    triggers.sort_by_key(|it| (it.name_any(), it.namespace()));
    let mut parts = PageParts::default();
    let count = tag("div").id("count").class("dim");
    let count = match triggers.len() {
        0 => count.child(none(app_state, viewer).await?),
        number => count.text(counted(number, "trigger")),
    };
    parts.push("count", count);
    parts.rows = triggers.iter().map(row).collect();
    Ok(parts)
}

/// What the page says where there is no trigger that the viewer may see.
async fn none(app_state: &Arc<AppState>, viewer: &Viewer) -> Result<Element, Problem> {
    let everywhere = AccessRequest::list(TRIGGERS, app_state.settings.namespace.as_deref());
    if viewer.caller.may_see(&everywhere).await? {
        return Ok(empty_state(
            "No PipelineTriggers",
            "A PipelineTrigger starts Tekton runs when a source of Flux changes. The hooks of a pipeline \
             are on its own page.",
        ));
    }
    let text = format!(
        "{} needs a role with the verb list on pipelinetriggers of the group pipeline.jquad.rocks, in one \
         namespace or in all.",
        viewer.caller.name()
    );
    Ok(empty_state("You may not list triggers", &text))
}

fn row(trigger: &Arc<PipelineTrigger>) -> (Arc<str>, Arc<PagePart>) {
    let key = ObjectKey::of(&trigger.metadata);
    let id = format!("trigger-{}", trigger.uid().unwrap_or_default());
    let source = &trigger.spec.source;
    let pipeline = trigger.labels().get(PIPELINE_LABEL);
    let pipeline = pipeline.map(|name| {
        let pipeline = ObjectKey::new(&key.namespace, name);
        tag("a").link(&address(&pipeline)).text(name)
    });
    let name = tag("th")
        .with("scope", "row")
        .text(&key.name)
        .child(tag("small").text(&key.namespace));
    let follows = format!("{:?} {}", source.kind, source.name);
    let html = tag("tr")
        .id(&id)
        .child(name)
        .child(tag("td").text(follows))
        .child(tag("td").child(pipeline))
        .child(tag("td").child(status_line(&status_of(trigger))));
    (id.into(), Arc::new(PagePart::from(Html::from(html))))
}

/// The page around the rows.
pub(super) fn frame(parts: &PageParts) -> Html {
    let heads = ["Trigger", "Follows", "Pipeline", "State"];
    let table = table("Triggers", &heads, parts.all_rows());
    Html::all([
        Html::from(tag("h1").text("Triggers")),
        parts.html("count"),
        table.into(),
    ])
}
