//! The page of a pipeline: the picture of its environments, what each waits for, the actions that the
//! viewer may take, its history, targets and triggers.

mod actions;
mod checks;
mod failure;
mod gates;
mod graph;
mod history;
mod picture;
mod progress;
mod rollout;
mod targets;
mod timeline;
mod triggers;

use std::{cmp::Reverse, sync::Arc};

use api::{Pipeline, Promotion, conditions, pipeline::Environment};
use http::StatusCode;
use kube::ResourceExt;
use planner::{EnvironmentForecast, Hold, HoldReason, Plan};
use runtime::ObjectKey;

use super::{
    components::{address, badge, breadcrumbs, sentence, timestamp},
    decision::{self, DecisionContext},
    html::{Element, Html, tag},
    page::PageParts,
    shared_targets,
    sign_in::Viewer,
    version::shortened,
};
use crate::{
    AppState,
    access::AccessRequest,
    problem::Problem,
    triggers::{ShownTrigger, visible_triggers},
    view,
};
use actions::AllowedActions;
pub(super) use triggers::status_line;

/// Everything that the page shows.
struct PipelineView<'a> {
    key: &'a ObjectKey,
    pipeline: Arc<Pipeline>,
    /// Newest first.
    promotions: Vec<Promotion>,
    plan: Plan,
    forecast: Vec<EnvironmentForecast>,
    triggers: Vec<ShownTrigger>,
    /// Targets that another pipeline promotes into, too.
    shared_targets: Vec<String>,
    allowed: AllowedActions,
    csrf: &'a str,
    /// The name of the viewer.
    viewer: &'a str,
    now: planner::Timestamp,
    /// Now, to the minute: a page that shows nothing new is not sent again.
    drawn_at: planner::Timestamp,
}

pub(super) async fn parts(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    key: &ObjectKey,
) -> Result<PageParts, Problem> {
    let pipeline = visible_pipeline(app_state, viewer, key).await?;
    let promotions = promotions(app_state, key);
    let model = pipeline.status.clone().unwrap_or_default();
    let now = app_state.clock.now();
    let plan = planner::plan(&pipeline, &model, &promotions, now);
    let forecast = planner::forecast(&pipeline, &model, &promotions, now);
    let allowed = AllowedActions::find(&viewer.caller, key, &pipeline).await?;
    let triggers = visible_triggers(app_state, &viewer.caller, &pipeline).await?;
    let shared_targets = shared_targets::warnings(app_state, viewer, &pipeline).await?;
    let view = PipelineView {
        key,
        shared_targets,
        pipeline,
        promotions,
        plan,
        forecast,
        triggers,
        allowed,
        csrf: &viewer.session.csrf,
        viewer: viewer.caller.name(),
        now,
        drawn_at: to_the_minute(now),
    };
    Ok(view.parts())
}

fn to_the_minute(now: planner::Timestamp) -> planner::Timestamp {
    let seconds = now.as_second() / 60 * 60 + 59;
    planner::Timestamp::from_second(seconds).unwrap_or(now)
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
        parts.push("notices", self.notices());
        parts.push("actions", self.actions());
        parts.push("picture", self.picture());
        for (index, environment) in self.pipeline.spec.environments.iter().enumerate() {
            let failure = self.failure(&environment.name, index);
            parts.push(&format!("failure-{index}"), failure);
            parts.push(&format!("next-{index}"), self.next(environment, index));
            let targets = self.environment_targets(environment, index);
            parts.push(&format!("targets-{index}"), targets);
            self.push_rollout(&mut parts, environment, index);
        }
        parts.push("triggers", self.triggers());
        parts.push("idle", self.idle());
        parts.push("checks", self.checks());
        parts.push("timeline", self.timeline());
        parts.push("history", self.history());
        parts
    }

    fn head(&self) -> Element {
        let spec = &self.pipeline.spec;
        let tag_with = |text: &str| tag("span").class("tag").text(text);
        let app = spec.app_ref.as_ref();
        let app = app.map(|app| tag_with(&format!("{} {}", app.kind, app.name)));
        tag("div")
            .id("head")
            .class("head")
            .child(tag_with(&self.key.namespace))
            .child(app)
            .child(badge(view::pipeline_state(&self.pipeline)))
    }

    /// What is wrong with the pipeline as a whole.
    fn notices(&self) -> Element {
        let status = self.pipeline.status.as_ref();
        let ready = status.and_then(|it| conditions::find(&it.conditions, conditions::READY));
        let not_ready = ready.filter(|it| it.status == "False").map(|ready| {
            let text = format!("{}: {}", ready.reason, ready.message);
            tag("p").class("notice bad").text(text)
        });
        let preflight = status.into_iter().flat_map(|it| &it.preflight);
        let preflight = preflight.map(|(environment, problem)| {
            let text = format!("{environment}: {} [{}]", problem.message, problem.reason);
            tag("p").class("notice warn").text(text)
        });
        let shared = self.shared_targets.iter();
        let shared = shared.map(|text| tag("p").class("notice warn").text(format_args!("{text}.")));
        let warnings = self.plan.warnings.iter();
        let warnings = warnings.map(|text| tag("p").class("notice bad").text(text));
        tag("div")
            .id("notices")
            .class("notices")
            .child(not_ready)
            .children(preflight)
            .children(shared)
            .children(warnings)
    }

    /// Says that there is nothing to say.
    fn idle(&self) -> Element {
        let element = tag("p").id("idle").class("dim");
        let mut names = self.pipeline.spec.environments.iter().map(|it| &it.name);
        let is_busy = |name: &String| {
            let plan = self.plan.environments.get(name);
            plan.is_some_and(|it| it.hold.is_some()) || self.current_promotion(name).is_some()
        };
        match names.any(is_busy) {
            true => element.set("hidden", true),
            false => element.text("Nothing waits, and nothing is on its way."),
        }
    }

    /// What happens next in an environment, and what it waits for; empty where nothing is to be said.
    fn next(&self, environment: &Environment, index: usize) -> Element {
        let id = format!("next-{index}");
        let name = environment.name.as_str();
        let promotion = self.current_promotion(name);
        let hold = self.plan.environments.get(name);
        let hold = hold.and_then(|it| it.hold.as_ref());
        // The card and the gates say already what a decision waits for.
        let is_decided_here = promotion.is_some_and(|it| self.is_awaiting_approval(it))
            && hold.is_some_and(|it| it.reason == HoldReason::AwaitingApproval);
        let title = match (promotion, hold) {
            (None, None) => return tag("div").id(id).set("hidden", true),
            (Some(promotion), _) => {
                let revision = shortened(&promotion.spec.shown_revision());
                match self.is_awaiting_approval(promotion) {
                    true => decision::question(promotion),
                    false => format!("{revision} on its way into {name}"),
                }
            }
            (None, Some(hold)) if hold.reason == HoldReason::OlderThanRunning => {
                format!("Nothing newer for {name}")
            }
            (None, Some(_)) => format!("Why {name} waits"),
        };
        let heading = format!("next-{index}-title");
        let left = tag("div")
            .class("card")
            .child(tag("h2").id(&heading).text(title))
            .child(promotion.map(|promotion| self.decision_or_progress(promotion)))
            .child(self.reason(name, hold.filter(|_| !is_decided_here), promotion.is_none()));
        let gates = self.gate_list(environment, index);
        let section = tag("section").id(id).with("aria-labelledby", &heading);
        if promotion.is_none() {
            return section.class("next wait").child(left.child(gates));
        }
        let gates = gates.map(|list| {
            let title = tag("h2").text(format_args!("Gates into {name}"));
            let card = tag("div").class("card").child(title).child(list);
            card.child(self.forecast_of(name))
        });
        section.class("next").child(left).child(gates)
    }

    /// What an environment waits for and, beside a hold that nothing was started for, the forecast.
    fn reason(
        &self,
        environment: &str,
        hold: Option<&Hold>,
        has_forecast: bool,
    ) -> Option<Element> {
        let forecast = self.forecast_beside(environment, hold);
        let forecast = forecast.filter(|_| has_forecast);
        let is_known = hold.is_some() || forecast.is_some();
        let reason = tag("div").class("reasons").child(hold.map(waiting_for));
        is_known.then(|| reason.child(forecast))
    }

    /// The forecast where it says more than the hold.
    fn forecast_beside(&self, environment: &str, hold: Option<&Hold>) -> Option<Element> {
        let mut all = self.forecast.iter();
        let forecast = all.find(|it| it.environment == environment)?;
        let has_more = hold.is_none_or(|hold| forecast.adds_to(hold));
        self.forecast_of(environment).filter(|_| has_more)
    }

    /// When the environment gets its next revision, and what time alone does not bring.
    fn forecast_of(&self, environment: &str) -> Option<Element> {
        let mut all = self.forecast.iter();
        let forecast = all.find(|it| it.environment == environment)?;
        let is_known = !forecast.waits.is_empty() || !forecast.needs.is_empty();
        let text = tag("p")
            .class("forecast")
            .child(tag("strong").text("Forecast "))
            .child(sentence(&planner::shortened(&forecast.text())));
        is_known.then_some(text)
    }

    fn is_awaiting_approval(&self, promotion: &Promotion) -> bool {
        view::is_awaiting_approval(promotion)
    }

    fn decision_or_progress(&self, promotion: &Promotion) -> Element {
        if !self.is_awaiting_approval(promotion) {
            let from_to = tag("p").child(decision::from_to(promotion));
            return tag("div").child(from_to).child(self.progress(promotion));
        }
        let may_approve = self
            .allowed
            .contains("approve", &promotion.spec.environment);
        let context = DecisionContext {
            key: self.key,
            diff: decision::diff_of(&self.pipeline, promotion, &self.promotions),
            forecast: None,
            approvals: planner::approval_state(promotion, Some(&self.pipeline), self.drawn_at),
            now: self.drawn_at,
            rejection: Some(planner::rejection_effect(&self.pipeline, promotion)),
            viewer: self.viewer,
            csrf: may_approve.then_some(self.csrf),
            back: None,
        };
        decision::decision(promotion, &context)
    }
}

/// Why nothing starts, what resolves that, and when time alone does.
fn waiting_for(hold: &Hold) -> Element {
    let opens_at = hold.opens_at.map(|at| {
        tag("span")
            .text(" Opens ")
            .child(timestamp(&api::Time(at)))
            .text(".")
    });
    let resolved_by = tag("span")
        .class("resolved")
        .text("Resolved by: ")
        .child(sentence(&planner::shortened(&hold.resolved_by)))
        .text(".");
    let (class, label) = match hold.reason {
        HoldReason::OlderThanRunning => ("hold settled", "Nothing newer to bring: "),
        _ => ("hold", "Waiting: "),
    };
    tag("p")
        .class(class)
        .child(tag("strong").text(label))
        .child(sentence(&planner::shortened(&hold.sentence)))
        .text(". ")
        .child(resolved_by.child(opens_at))
        .child(tag("small").text(format_args!(" {}", hold.reason.word())))
}

/// The page around the parts.
pub(super) fn frame(key: &ObjectKey, parts: &PageParts) -> Html {
    let numbered = |prefix: &str| {
        let all = parts.fixed.iter().filter(|(id, _)| id.starts_with(prefix));
        Html::joined(all.map(|(_, part)| &part.html))
    };
    let section = |id: &'static str, title: &str, content: Html| {
        tag("section")
            .class("card")
            .with("aria-labelledby", id)
            .child(tag("h2").id(id).text(title))
            .child(content)
    };
    Html::all([
        Html::from(breadcrumbs(&[("Pipelines", "/pipelines")], &key.name)),
        title(key, parts).into(),
        parts.html("notices"),
        picture_card(parts).into(),
        parts.html("idle"),
        tag("div")
            .class("decisions")
            .child(numbered("failure-"))
            .child(numbered("next-"))
            .into(),
        rollout::frame(parts),
        parts.html("checks"),
        parts.html("timeline"),
        section("history-title", "History", parts.html("history")).into(),
        tag("div")
            .class("columns")
            .child(numbered("targets-"))
            .into(),
        section("triggers-title", "Triggers", parts.html("triggers")).into(),
    ])
}

fn title(key: &ObjectKey, parts: &PageParts) -> Element {
    let yaml = format!("{}/yaml", address(key));
    tag("div")
        .class("title")
        .child(tag("h1").text(&key.name))
        .child(parts.html("head"))
        .child(tag("a").class("button").link(&yaml).text("YAML"))
        .child(parts.html("actions"))
}

fn picture_card(parts: &PageParts) -> Element {
    let title = tag("h2").id("picture-title").class("vh");
    tag("section")
        .class("card picture")
        .with("aria-labelledby", "picture-title")
        .child(title.text("Environments"))
        .child(parts.html("picture"))
}
