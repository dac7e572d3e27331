//! The page of a pipeline: its environments, why they wait, the actions that the viewer may take, its
//! triggers and its history.

mod actions;
mod environment;
mod history;
mod progress;
mod triggers;

use std::{cmp::Reverse, sync::Arc};

use api::{Pipeline, Promotion, conditions};
use http::StatusCode;
use kube::ResourceExt;
use planner::{Plan, SummaryState};
use runtime::ObjectKey;

use super::{
    components::{address, badge, breadcrumbs},
    html::{Element, Html, tag},
    page::PageParts,
    sign_in::Viewer,
};
use crate::{
    AppState,
    access::AccessRequest,
    problem::Problem,
    triggers::{ShownTrigger, visible_triggers},
};
use actions::AllowedActions;
pub(super) use actions::{form, note};

/// Everything that the page shows.
struct PipelineView<'a> {
    key: &'a ObjectKey,
    pipeline: Arc<Pipeline>,
    /// Newest first.
    promotions: Vec<Promotion>,
    plan: Plan,
    triggers: Vec<ShownTrigger>,
    allowed: AllowedActions,
    csrf: &'a str,
}

pub(super) async fn parts(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    key: &ObjectKey,
) -> Result<PageParts, Problem> {
    let pipeline = visible_pipeline(app_state, viewer, key).await?;
    let promotions = promotions(app_state, key);
    let model = pipeline.status.clone().unwrap_or_default();
    let plan = planner::plan(&pipeline, &model, &promotions, app_state.clock.now());
    let allowed = AllowedActions::find(&viewer.caller, key, &pipeline).await?;
    let triggers = visible_triggers(app_state, &viewer.caller, &pipeline).await?;
    let view = PipelineView {
        key,
        pipeline,
        promotions,
        plan,
        triggers,
        allowed,
        csrf: &viewer.session.csrf,
    };
    Ok(view.parts())
}

/// A pipeline, if the viewer may see it.
pub(super) async fn visible_pipeline(
    app_state: &AppState,
    viewer: &Viewer,
    key: &ObjectKey,
) -> Result<Arc<Pipeline>, Problem> {
    if !viewer
        .caller
        .may_see(&AccessRequest::new("get", key))
        .await?
    {
        let detail = format!("{} may not see {key}", viewer.caller.name());
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    let pipeline = app_state.objects.pipeline(key).await?;
    pipeline.ok_or_else(|| Problem::not_found(&format!("the pipeline {key}")))
}

/// The promotions of a pipeline, newest first.
fn promotions(app_state: &AppState, key: &ObjectKey) -> Vec<Promotion> {
    let promotions = app_state.objects.promotions_of(key).into_iter();
    let mut promotions: Vec<Promotion> = promotions.map(Arc::unwrap_or_clone).collect();
    promotions.sort_by_key(|it| Reverse((it.creation_timestamp(), it.name_any())));
    promotions
}

impl PipelineView<'_> {
    fn parts(&self) -> PageParts {
        let mut parts = PageParts::default();
        parts.push("head", self.head());
        for (index, environment) in self.pipeline.spec.environments.iter().enumerate() {
            let id = format!("environment-{index}");
            parts.push(&id, self.environment(environment, index).id(&id));
            let id = format!("actions-{index}");
            parts.push(&id, self.actions(environment, index).id(&id));
        }
        parts.push("triggers", self.triggers());
        parts.push("history", self.history());
        parts
    }

    fn head(&self) -> Element {
        let spec = &self.pipeline.spec;
        let app = spec.app_ref.as_ref().map(|app| {
            tag("span")
                .class("dim")
                .text(format_args!("{} {}", app.kind, app.name))
        });
        let status = self.pipeline.status.as_ref();
        let ready = status.and_then(|it| conditions::find(&it.conditions, conditions::READY));
        let not_ready = ready.filter(|it| it.status == "False").map(|ready| {
            let text = format!("{}: {}", ready.reason, ready.message);
            tag("p").class("notice bad").text(text)
        });
        let suspended = spec.suspend.then(|| badge(SummaryState::Suspended));
        tag("div")
            .id("head")
            .class("head")
            .child(tag("span").class("dim").text(&self.key.namespace))
            .child(app)
            .child(suspended)
            .child(self.suspend_all())
            .child(not_ready)
            .children(
                self.plan
                    .warnings
                    .iter()
                    .map(|text| tag("p").class("notice bad").text(text)),
            )
    }
}

/// The page around the parts.
pub(super) fn frame(key: &ObjectKey, parts: &PageParts) -> Html {
    let count = parts
        .fixed
        .iter()
        .filter(|(id, _)| id.starts_with("environment-"));
    let columns = (0..count.count()).map(|index| {
        tag("section")
            .class("environment")
            .with("aria-labelledby", format_args!("title-{index}"))
            .child(parts.html(&format!("environment-{index}")))
            .child(parts.html(&format!("actions-{index}")))
    });
    let here = address(key);
    let yaml = tag("a")
        .class("aside")
        .link(&format!("{here}/yaml"))
        .text("YAML");
    Html::all([
        Html::from(breadcrumbs(&[("Pipelines", "/pipelines")], &key.name)),
        tag("h1").text(&key.name).child(yaml).into(),
        parts.html("head"),
        tag("div").class("environments").children(columns).into(),
        tag("h2").text("Triggers").into(),
        parts.html("triggers"),
        tag("h2").text("History").into(),
        parts.html("history"),
    ])
}
