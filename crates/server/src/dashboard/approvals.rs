//! The approvals page: promotions that await approval, with a form for viewers who may approve.

use std::sync::Arc;

use api::Promotion;
use futures::future::try_join_all;
use kube::ResourceExt;
use runtime::ObjectKey;

use super::{
    components::{address, hidden_field, timestamp},
    html::{Element, Html, tag},
    page::{PagePart, PageParts},
    pipeline::{form, note},
    sign_in::Viewer,
};
use crate::{AppState, access::AccessRequest, caches::pipeline_of, problem::Problem};

pub(super) async fn parts(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
) -> Result<PageParts, Problem> {
    let mut waiting = app_state.objects.awaiting_approval();
    waiting.sort_by_key(|it| (it.creation_timestamp(), it.name_any()));
    let rows = waiting.iter().map(|promotion| async move {
        let key = pipeline_of(promotion);
        if !viewer
            .caller
            .may_see(&AccessRequest::new("get", &key))
            .await?
        {
            return Ok(None);
        }
        let access_request =
            AccessRequest::new("approve", &key).environment(&promotion.spec.environment);
        let may_approve = viewer.caller.may_see(&access_request).await?;
        let csrf = may_approve.then_some(viewer.session.csrf.as_str());
        Ok::<_, Problem>(Some(row(&key, promotion, csrf)))
    });
    let rows = try_join_all(rows).await?;
    let rows: Vec<_> = rows.into_iter().flatten().collect();
    let mut parts = PageParts::default();
    let count = match rows.len() {
        0 => "Nothing awaits approval.".to_owned(),
        1 => "1 promotion awaits approval.".to_owned(),
        count => format!("{count} promotions await approval."),
    };
    parts.push("count", tag("p").id("count").class("dim").text(count));
    parts.rows = rows;
    Ok(parts)
}

fn row(key: &ObjectKey, promotion: &Promotion, csrf: Option<&str>) -> (Arc<str>, Arc<PagePart>) {
    let spec = &promotion.spec;
    let id = format!("approval-{}", promotion.uid().unwrap_or_default());
    let requested_by = spec.request.as_ref().and_then(|it| it.by.as_deref());
    let approve = match csrf {
        Some(csrf) => approve(key, promotion, csrf),
        None => tag("span").class("dim").text("you may not approve this"),
    };
    let html = tag("tr")
        .id(&id)
        .child(
            tag("th")
                .with("scope", "row")
                .child(tag("a").link(&address(key)).text(&key.name))
                .child(tag("small").text(&key.namespace)),
        )
        .child(tag("td").text(&spec.environment))
        .child(
            tag("td")
                .child(tag("code").text(spec.replaces.as_deref().unwrap_or("nothing")))
                .text(" → ")
                .child(tag("code").text(spec.shown_revision())),
        )
        .child(
            tag("td")
                .child(promotion.creation_timestamp().as_ref().map(timestamp))
                .child(requested_by.map(|by| tag("small").text(format_args!("requested by {by}")))),
        )
        .child(tag("td").child(approve));
    (id.into(), Arc::new(PagePart::from(Html::from(html))))
}

fn approve(key: &ObjectKey, promotion: &Promotion, csrf: &str) -> Element {
    let spec = &promotion.spec;
    let label = format!(
        "Approve {} for {} {}",
        spec.shown_revision(),
        key.name,
        spec.environment
    );
    form(key, csrf)
        .class("approve")
        .child(hidden_field("verb", "approve"))
        .child(hidden_field("back", "/approvals"))
        .child(hidden_field("environment", &spec.environment))
        .child(hidden_field("revision", &spec.revision))
        .child(note())
        .child(
            tag("button")
                .class("main")
                .with("aria-label", label)
                .text("Approve"),
        )
}

/// The page around the rows.
pub(super) fn frame(parts: &PageParts) -> Html {
    let heads = ["Pipeline", "Environment", "Revision", "Since", "Decision"];
    let heads = heads.map(|head| tag("th").with("scope", "col").text(head));
    let table = tag("table")
        .class("approvals")
        .child(tag("caption").class("vh").text("Approvals"))
        .child(tag("thead").child(tag("tr").children(heads)))
        .child(tag("tbody").id("rows").child(parts.all_rows()));
    Html::all([
        Html::from(tag("h1").text("Approvals")),
        parts.html("count"),
        table.into(),
    ])
}
