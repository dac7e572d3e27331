//! The panel of actions, as far as the viewer may take them. Each says what it leads to before it is
//! confirmed.

mod promote;

use std::collections::{BTreeMap, BTreeSet};

use api::{
    Pipeline,
    pipeline::{CoveringFreeze, Environment, PipelineStatus},
};
use futures::future::try_join_all;
use planner::RetryTarget;
use runtime::ObjectKey;

use super::PipelineView;
use crate::{
    access::{AccessRequest, Caller},
    dashboard::{
        components::hidden_field,
        decision::{action_form, note},
        freezes::{end_form, freeze_form},
        html::{Element, tag},
        version::shortened,
    },
    problem::Problem,
    view,
};

const VERBS: [&str; 3] = ["approve", "promote", "suspend"];

/// The actions that the viewer may take.
pub(super) struct AllowedActions {
    may_suspend: bool,
    may_freeze: bool,
    /// The allowed verbs, by environment.
    verbs: BTreeMap<String, BTreeSet<&'static str>>,
}

impl AllowedActions {
    pub(super) async fn find(
        caller: &Caller,
        key: &ObjectKey,
        pipeline: &Pipeline,
    ) -> Result<Self, Problem> {
        let environments = pipeline.spec.environments.iter();
        let questions = environments.flat_map(|it| VERBS.map(|verb| (it.name.as_str(), verb)));
        let answers = questions.map(|(environment, verb)| async move {
            let access_request = AccessRequest::new(verb, key).environment(environment);
            let is_allowed = caller.may_see(&access_request).await?;
            Ok::<_, Problem>((environment, verb, is_allowed))
        });
        let mut verbs: BTreeMap<String, BTreeSet<_>> = BTreeMap::new();
        for (environment, verb, is_allowed) in try_join_all(answers).await? {
            if is_allowed {
                verbs
                    .entry(environment.to_owned())
                    .or_default()
                    .insert(verb);
            }
        }
        let may_suspend = caller.may_see(&AccessRequest::new("suspend", key)).await?;
        let may_freeze = caller
            .may_see(&AccessRequest::freeze(&key.namespace))
            .await?;
        Ok(Self {
            may_suspend,
            may_freeze,
            verbs,
        })
    }

    pub(super) fn contains(&self, verb: &str, environment: &str) -> bool {
        let verbs = self.verbs.get(environment);
        verbs.is_some_and(|verbs| verbs.contains(verb))
    }
}

impl PipelineView<'_> {
    /// The panel with everything that the viewer may do; empty where they may do nothing.
    pub(super) fn actions(&self) -> Element {
        let environments = self.pipeline.spec.environments.iter().enumerate();
        let groups = environments.filter_map(|(index, it)| self.environment_actions(it, index));
        let groups: Vec<Element> = groups.chain(self.whole_pipeline()).collect();
        let element = tag("div").id("actions");
        if groups.is_empty() {
            return element;
        }
        let summary = tag("summary").class("button").text("Actions");
        let panel = tag("div").class("panel wide").children(groups);
        let menu = tag("details").id("actions-menu").class("menu");
        element.child(menu.child(summary).child(panel))
    }

    /// What concerns all environments.
    fn whole_pipeline(&self) -> Option<Element> {
        let names = self.pipeline.spec.environments.iter();
        let names: Vec<&str> = names.map(|it| it.name.as_str()).collect();
        let freeze = self.allowed.may_freeze.then(|| {
            let form = freeze_form(self.key, &names, self.csrf);
            disclosure("freeze", "Freeze…", form)
        });
        let suspend = self.suspend_all();
        if freeze.is_none() && suspend.is_none() {
            return None;
        }
        let group = tag("div").class("group");
        let group = group.child(tag("h2").text("Whole pipeline"));
        let group = group.child(freeze).children(self.end_freezes());
        Some(group.child(suspend))
    }

    /// Ends each Freeze of this namespace that stops the pipeline without a schedule.
    fn end_freezes(&self) -> Vec<Element> {
        let status = self.pipeline.status.as_ref();
        let all = status.into_iter().flat_map(|it| &it.freezes);
        let stops = all.filter(|it| {
            let has_schedule = !it.times.closed.is_empty() || !it.times.open_only.is_empty();
            self.allowed.may_freeze && it.namespace.is_none() && !has_schedule
        });
        let end = |(index, freeze): (usize, &CoveringFreeze)| {
            let label = match freeze.reason.as_str() {
                "" => format!("End the freeze {}…", freeze.name),
                reason => format!("End the freeze “{reason}”…"),
            };
            let form = end_form(self.key, &freeze.name, self.csrf);
            disclosure(&format!("thaw-{index}"), &label, form)
        };
        stops.enumerate().map(end).collect()
    }

    fn suspend_all(&self) -> Option<Element> {
        let (verb, label, consequence) = match self.pipeline.spec.suspend {
            true => (
                "resume",
                "Resume the pipeline",
                "Promotions into all environments start again where nothing else holds them.",
            ),
            false => (
                "suspend",
                "Suspend the pipeline",
                "No promotion starts or goes on in any environment until the pipeline is resumed. What \
                 runs keeps running.",
            ),
        };
        let form = self
            .form(verb, "")
            .child(tag("p").class("dim").text(consequence))
            .child(tag("button").text(label));
        let disclosure = disclosure("suspend-all", &format!("{label}…"), form);
        self.allowed.may_suspend.then_some(disclosure)
    }

    fn environment_actions(&self, environment: &Environment, index: usize) -> Option<Element> {
        let name = environment.name.as_str();
        let may_promote = self.allowed.contains("promote", name);
        let may_suspend = self.allowed.contains("suspend", name);
        if !may_promote && !may_suspend {
            return None;
        }
        let mut group = tag("div").class("group").child(tag("h2").text(name));
        if may_promote {
            group = group
                .child(self.promote(name, index))
                .child(self.roll_back(name, index))
                .child(self.cancel(name, index))
                .child(self.retry(name, index));
        }
        if may_suspend {
            group = group.child(self.suspend(environment, index));
        }
        Some(group)
    }

    fn suspend(&self, environment: &Environment, index: usize) -> Element {
        let name = &environment.name;
        let (verb, label, consequence) = match environment.suspend {
            true => (
                "resume",
                format!("Resume {name}"),
                format!("Promotions into {name} start again where nothing else holds them."),
            ),
            false => (
                "suspend",
                format!("Suspend {name}"),
                format!(
                    "No promotion into {name} starts or goes on until it is resumed. What runs there \
                     keeps running."
                ),
            ),
        };
        let form = self
            .form(verb, name)
            .child(tag("p").class("dim").text(consequence))
            .child(tag("button").text(&label));
        disclosure(&format!("suspend-{index}"), &format!("{label}…"), form)
    }

    /// The form to go back to an earlier revision.
    fn roll_back(&self, environment: &str, index: usize) -> Option<Element> {
        let status = view::status_of(&self.pipeline, environment);
        let targets = status.into_iter().flat_map(|it| &it.targets);
        let failed: BTreeSet<_> = targets.filter_map(planner::failed_revision).collect();
        // Where a release failed, it is replaced, and not the last good one that still runs.
        let replaced = match failed.is_empty() {
            true => view::revisions(status),
            false => failed,
        };
        let earlier = planner::rollback_targets(self.pipeline.status.as_ref()?, environment);
        if earlier.is_empty() {
            return None;
        }
        let options = earlier.into_iter().map(|target| {
            let option = tag("option").with("value", target.revision);
            match target.caution {
                Some(caution) => option.text(format_args!("{} ({caution})", target.revision)),
                None => option.text(target.revision),
            }
        });
        let field = format!("earlier-{index}");
        let select = tag("select")
            .id(&field)
            .with("name", "revision")
            .children(options);
        let replaced: Vec<_> = replaced.into_iter().map(shortened).collect();
        let consequence = format!(
            "Replaces {} in {environment}. It is then rejected here: the pipeline does not promote it \
             again unless you ask for it.",
            replaced.join(", ")
        );
        let form = self
            .form("rollback", environment)
            .child(tag("p").class("dim").text(consequence))
            .child(tag("label").with("for", &field).text("Roll back to"))
            .child(select)
            .child(note())
            .child(
                tag("button")
                    .class("danger")
                    .text(format_args!("Roll {environment} back")),
            );
        Some(disclosure(&format!("rollback-{index}"), "Roll back…", form))
    }

    /// Takes back what is under way and not merged, or a request that waits.
    fn cancel(&self, environment: &str, index: usize) -> Option<Element> {
        let unobserved = PipelineStatus::default();
        let model = self.pipeline.status.as_ref().unwrap_or(&unobserved);
        let revision = planner::cancellable(&self.pipeline, model, &self.promotions, environment)?;
        let revision = shortened(&revision);
        let consequence = format!(
            "Takes {revision} back before it is merged: its pull request is closed, and the pipeline skips \
             {revision} in {environment} until you ask for it."
        );
        let form = self
            .form("cancel", environment)
            .child(tag("p").class("dim").text(consequence))
            .child(note())
            .child(
                tag("button")
                    .class("danger")
                    .text(format_args!("Cancel {revision}")),
            );
        Some(disclosure(&format!("cancel-{index}"), "Cancel…", form))
    }

    /// Starts the promotion or the checks that failed again.
    fn retry(&self, environment: &str, index: usize) -> Option<Element> {
        let unobserved = PipelineStatus::default();
        let model = self.pipeline.status.as_ref().unwrap_or(&unobserved);
        let found = planner::retryable(&self.pipeline, model, &self.promotions, environment)?;
        let (revision, what) = match &found {
            RetryTarget::Checks(it) => (shortened(it), "checks"),
            RetryTarget::Promotion(it) => (shortened(it), "promotion"),
        };
        let consequence = format!("Starts the failed {what} of {revision} again.");
        let form = self
            .form("retry", environment)
            .child(tag("p").class("dim").text(consequence))
            .child(note())
            .child(
                tag("button")
                    .class("main")
                    .text(format_args!("Retry {revision}")),
            );
        Some(disclosure(&format!("retry-{index}"), "Retry…", form))
    }

    pub(super) fn form(&self, verb: &str, environment: &str) -> Element {
        action_form(self.key, self.csrf)
            .child(hidden_field("verb", verb))
            .child(hidden_field("environment", environment))
    }
}

/// A form behind a button that opens it.
pub(super) fn disclosure(id: &str, label: &str, form: Element) -> Element {
    // Of those with the same name, browsers keep one open.
    tag("details")
        .id(id)
        .with("name", "action")
        .child(tag("summary").text(label))
        .child(form)
}
