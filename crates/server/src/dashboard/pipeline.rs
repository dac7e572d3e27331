//! One pipeline: its environments from left to right, why the next one waits, what people may do,
//! and what happened before.

mod actions;
mod environment;
mod history;
mod steps;
mod triggers;

use std::sync::Arc;

use api::{Pipeline, Promotion, conditions};
use http::StatusCode;
use kube::ResourceExt;
use planner::{Plan, SummaryState};

use super::{
    html::{Element, Html, tag},
    page::Parts,
    sign_in::Viewer,
    words::{address, badge, crumbs},
};
use crate::{
    Door,
    rest::{Problem, access::Wish},
    triggers::Trigger,
    watched::ObjectKey,
};
use actions::Rights;
pub(super) use actions::{form, note};

/// Everything about one pipeline.
struct Subject<'a> {
    key: &'a ObjectKey,
    pipeline: Arc<Pipeline>,
    /// Newest first.
    promotions: Vec<Promotion>,
    plan: Plan,
    triggers: Vec<Trigger>,
    rights: Rights,
    csrf: &'a str,
}

pub(super) async fn parts(
    door: &Arc<Door>,
    viewer: &Viewer,
    key: &ObjectKey,
) -> Result<Parts, Problem> {
    let pipeline = seen_by(door, viewer, key).await?;
    let promotions = promotions(door, key);
    let model = pipeline.status.clone().unwrap_or_default();
    let plan = planner::plan(&pipeline, &model, &promotions, jiff::Timestamp::now());
    let rights = Rights::find(&viewer.caller, key, &pipeline).await?;
    let triggers = crate::triggers::of(door, &viewer.caller, &pipeline).await?;
    let subject = Subject {
        key,
        pipeline,
        promotions,
        plan,
        triggers,
        rights,
        csrf: &viewer.session.csrf,
    };
    Ok(subject.parts())
}

/// A pipeline, if somebody may see it.
pub(super) async fn seen_by(
    door: &Door,
    viewer: &Viewer,
    key: &ObjectKey,
) -> Result<Arc<Pipeline>, Problem> {
    if !viewer.caller.may_see(&Wish::new("get", key)).await? {
        let detail = format!("{} may not see {key}", viewer.caller.name());
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    let pipeline = door.watched.pipeline(key).await?;
    pipeline.ok_or_else(|| Problem::not_found(&format!("the pipeline {key}")))
}

/// The promotions of a pipeline, newest first.
fn promotions(door: &Door, key: &ObjectKey) -> Vec<Promotion> {
    let own = door.watched.promotions(|it| {
        it.spec.pipeline == key.name && it.namespace().as_deref() == Some(&key.namespace)
    });
    let mut own: Vec<Promotion> = own.iter().map(|it| Promotion::clone(it)).collect();
    own.sort_by_key(|it| (it.creation_timestamp(), it.name_any()));
    own.reverse();
    own
}

impl Subject<'_> {
    fn parts(&self) -> Parts {
        let mut parts = Parts::default();
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
        let trouble = ready.filter(|it| it.status == "False").map(|ready| {
            let text = format!("{}: {}", ready.reason, ready.message);
            tag("p").class("told bad").text(text)
        });
        let suspended = spec.suspend.then(|| badge(SummaryState::Suspended));
        tag("div")
            .id("head")
            .class("head")
            .child(tag("span").class("dim").text(&self.key.namespace))
            .child(app)
            .child(suspended)
            .child(self.suspend_all())
            .child(trouble)
            .children(
                self.plan
                    .warnings
                    .iter()
                    .map(|text| tag("p").class("told bad").text(text)),
            )
    }
}

/// The page around the parts.
pub(super) fn frame(key: &ObjectKey, parts: &Parts) -> Html {
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
        Html::from(crumbs(&[("Pipelines", "/pipelines")], &key.name)),
        tag("h1").text(&key.name).child(yaml).into(),
        parts.html("head"),
        tag("div").class("environments").children(columns).into(),
        tag("h2").text("What sets it in motion").into(),
        parts.html("triggers"),
        tag("h2").text("History").into(),
        parts.html("history"),
    ])
}
