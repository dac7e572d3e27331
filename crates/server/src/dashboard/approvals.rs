//! The approvals page: promotions that await approval, with a form for viewers who may approve.

use std::sync::Arc;

use api::{Pipeline, Promotion};
use futures::future::try_join_all;
use kube::ResourceExt;

use super::{
    components::{address, empty_state},
    decision::{DecisionContext, decision, diff_of},
    html::{Element, Html, tag},
    page::{PagePart, PageParts},
    sign_in::Viewer,
};
use crate::{
    AppState,
    access::{AccessRequest, PIPELINES},
    caches::pipeline_of,
    problem::Problem,
};

/// The promotions that await approval, as far as the viewer may see their pipelines; oldest first.
pub(super) async fn visible(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
) -> Result<Vec<Arc<Promotion>>, Problem> {
    let mut waiting = app_state.objects.awaiting_approval();
    waiting.sort_by_key(|it| (it.creation_timestamp(), it.name_any()));
    let everywhere = AccessRequest::list(PIPELINES, app_state.settings.namespace.as_deref());
    if viewer.caller.may_see(&everywhere).await? {
        return Ok(waiting);
    }
    let seen = waiting.into_iter().map(|promotion| async move {
        let key = pipeline_of(&promotion);
        let access_request = AccessRequest::new("get", &key);
        let is_seen = viewer.caller.may_see(&access_request).await?;
        Ok::<_, Problem>(is_seen.then_some(promotion))
    });
    Ok(try_join_all(seen).await?.into_iter().flatten().collect())
}

pub(super) async fn parts(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
) -> Result<PageParts, Problem> {
    let waiting = visible(app_state, viewer).await?;
    let cards = waiting.iter().map(|promotion| async move {
        let key = pipeline_of(promotion);
        let access_request =
            AccessRequest::new("approve", &key).environment(&promotion.spec.environment);
        let may_approve = viewer.caller.may_see(&access_request).await?;
        let csrf = may_approve.then_some(viewer.session.csrf.as_str());
        let pipeline = app_state.objects.cached_pipeline(&key);
        let promotions = app_state.objects.promotions_of(&key).into_iter();
        let promotions: Vec<_> = promotions.map(Arc::unwrap_or_clone).collect();
        let pipeline = pipeline.as_deref();
        let now = app_state.clock.now();
        let context = DecisionContext {
            key: &key,
            diff: pipeline.and_then(|it| diff_of(it, promotion, &promotions)),
            forecast: pipeline.and_then(|it| forecast(it, promotion, &promotions, now)),
            approvals: planner::approval_state(promotion, pipeline, now),
            now,
            rejection: pipeline.map(|it| planner::rejection_effect(it, promotion)),
            viewer: viewer.caller.name(),
            csrf,
            back: Some("/approvals"),
        };
        Ok::<_, Problem>(card(promotion, &context))
    });
    let mut parts = PageParts {
        rows: try_join_all(cards).await?,
        ..PageParts::default()
    };
    parts.push("count", count(parts.rows.len()));
    Ok(parts)
}

/// When the promotion goes on, and what it needs besides time.
fn forecast(
    pipeline: &Pipeline,
    promotion: &Promotion,
    promotions: &[Promotion],
    now: planner::Timestamp,
) -> Option<String> {
    let model = pipeline.status.clone().unwrap_or_default();
    let environment = &promotion.spec.environment;
    let forecast = planner::forecast_environment(pipeline, environment, &model, promotions, now);
    forecast.map(|it| planner::shortened(&it.text()))
}

fn count(count: usize) -> Element {
    let element = tag("div").id("count");
    match count {
        0 => element.child(empty_state(
            "Nothing awaits approval.",
            "Promotions into environments with manual: true appear here as soon as they wait.",
        )),
        1 => element.class("dim").text("1 promotion awaits approval."),
        count => element
            .class("dim")
            .text(format_args!("{count} promotions await approval.")),
    }
}

fn card(promotion: &Promotion, context: &DecisionContext<'_>) -> (Arc<str>, Arc<PagePart>) {
    let key = context.key;
    let id = format!("approval-{}", promotion.uid().unwrap_or_default());
    let title = format!("{id}-title");
    let html = tag("article")
        .id(&id)
        .class("card")
        .with("aria-labelledby", &title)
        .child(
            tag("h2")
                .id(&title)
                .child(tag("a").link(&address(key)).text(&key.name))
                .text(format_args!(" into {}", promotion.spec.environment))
                .child(tag("span").class("tag").text(&key.namespace)),
        )
        .child(decision(promotion, context));
    (id.into(), Arc::new(PagePart::from(Html::from(html))))
}

/// The page around the cards.
pub(super) fn frame(parts: &PageParts) -> Html {
    let cards = tag("div").id("rows").class("cards").child(parts.all_rows());
    Html::all([
        Html::from(tag("h1").text("Approvals")),
        parts.html("count"),
        cards.into(),
    ])
}
