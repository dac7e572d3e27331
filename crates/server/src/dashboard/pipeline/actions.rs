//! The actions of an environment, as far as the viewer may take them.

use std::collections::{BTreeMap, BTreeSet};

use api::{Pipeline, pipeline::Environment};
use futures::future::try_join_all;
use runtime::ObjectKey;

use super::PipelineView;
use crate::{
    access::{AccessRequest, Caller},
    dashboard::{
        components::{address, hidden_field},
        html::{Element, tag},
    },
    problem::Problem,
    view,
};

const VERBS: [&str; 3] = ["approve", "promote", "suspend"];

/// The actions that the viewer may take.
pub(super) struct AllowedActions {
    may_suspend: bool,
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
        Ok(Self { may_suspend, verbs })
    }

    fn contains(&self, verb: &str, environment: &str) -> bool {
        let verbs = self.verbs.get(environment);
        verbs.is_some_and(|verbs| verbs.contains(verb))
    }
}

impl PipelineView<'_> {
    pub(super) fn suspend_all(&self) -> Option<Element> {
        let (verb, label) = match self.pipeline.spec.suspend {
            true => ("resume", "Resume the pipeline"),
            false => ("suspend", "Suspend the pipeline"),
        };
        let button = tag("button").class("quiet").text(label);
        let form = self.form(verb, "").class("inline").child(button);
        self.allowed.may_suspend.then_some(form)
    }

    pub(super) fn actions(&self, environment: &Environment, index: usize) -> Element {
        let name = environment.name.as_str();
        let mut all = tag("div").class("actions");
        if self.allowed.contains("approve", name) {
            all = all.children(
                self.awaiting_approval(name)
                    .map(|revision| self.approve(name, revision)),
            );
        }
        if self.allowed.contains("promote", name) {
            all = all
                .child(self.promote(name, index))
                .child(self.roll_back(name, index));
        }
        if self.allowed.contains("suspend", name) {
            let (verb, label) = match environment.suspend {
                true => ("resume", "Resume"),
                false => ("suspend", "Suspend"),
            };
            let label = tag("button")
                .class("quiet")
                .with("aria-label", format_args!("{label} {name}"))
                .text(label);
            all = all.child(self.form(verb, name).child(label));
        }
        all
    }

    /// The revisions that await approval in an environment.
    fn awaiting_approval(&self, environment: &str) -> impl Iterator<Item = &str> {
        let waiting = planner::approvable(&self.promotions, &self.key.name, environment);
        let revisions: BTreeSet<_> = waiting.iter().map(|it| it.spec.revision.as_str()).collect();
        revisions.into_iter()
    }

    fn approve(&self, environment: &str, revision: &str) -> Element {
        self.form("approve", environment)
            .class("approve")
            .child(hidden_field("revision", revision))
            .child(note())
            .child(
                tag("button")
                    .class("main")
                    .text(format_args!("Approve {revision}")),
            )
    }

    /// Any revision can be requested. Those of other environments are suggested, and one that was never
    /// observed must be confirmed.
    fn promote(&self, environment: &str, index: usize) -> Element {
        let status = self.pipeline.status.as_ref();
        let others = status.into_iter().flat_map(|it| it.environments.values());
        let known: BTreeSet<_> = others
            .flat_map(|other| view::revisions(Some(other)))
            .collect();
        let options = known
            .iter()
            .map(|revision| tag("option").with("value", revision));
        let (field, list) = (format!("revision-{index}"), format!("revisions-{index}"));
        let input = tag("input")
            .id(&field)
            .with("name", "revision")
            .with("list", &list)
            .with("autocomplete", "off")
            .with("maxlength", 256)
            .set("required", true);
        let form = self
            .form("promote", environment)
            .child(tag("label").with("for", &field).text("Revision"))
            .child(input)
            .child(tag("datalist").id(&list).children(options))
            .child(note())
            .child(unseen(index))
            .child(tag("button").text(format_args!("Promote into {environment}")));
        let summary = tag("summary").text("Promote…");
        tag("details")
            .id(format_args!("promote-{index}"))
            .child(summary)
            .child(form)
    }

    /// The form to go back to an earlier revision.
    fn roll_back(&self, environment: &str, index: usize) -> Option<Element> {
        let status = view::status_of(&self.pipeline, environment);
        let running = view::revisions(status);
        let ran = status.map(|status| status.ran.as_slice());
        let earlier = ran.unwrap_or_default().iter();
        let earlier: Vec<_> = earlier
            .filter(|revision| !running.contains(revision.as_str()))
            .collect();
        if earlier.is_empty() {
            return None;
        }
        let options = earlier
            .into_iter()
            .map(|revision| tag("option").with("value", revision).text(revision));
        let field = format!("earlier-{index}");
        let select = tag("select")
            .id(&field)
            .with("name", "revision")
            .children(options);
        let form = self
            .form("rollback", environment)
            .child(tag("label").with("for", &field).text("Roll back to"))
            .child(select)
            .child(note())
            .child(
                tag("button")
                    .class("danger")
                    .text(format_args!("Roll {environment} back")),
            );
        let details = tag("details").id(format_args!("rollback-{index}"));
        Some(details.child(tag("summary").text("Roll back…")).child(form))
    }

    fn form(&self, verb: &str, environment: &str) -> Element {
        form(self.key, self.csrf)
            .child(hidden_field("verb", verb))
            .child(hidden_field("environment", environment))
    }
}

/// The confirmation that an unknown revision is wanted.
fn unseen(index: usize) -> Element {
    let input = tag("input")
        .id(format_args!("unseen-{index}"))
        .with("name", "unseen")
        .with("type", "checkbox")
        .with("value", "true");
    tag("label")
        .class("note")
        .child(input)
        .text(" even if no target, source or report has this revision")
}

/// A form that acts on a pipeline.
pub(in crate::dashboard) fn form(key: &ObjectKey, csrf: &str) -> Element {
    tag("form")
        .with("method", "post")
        .link(&format!("{}/act", address(key)))
        .child(hidden_field("csrf", csrf))
}

/// The input for a note.
pub(in crate::dashboard) fn note() -> Element {
    let input = tag("input")
        .with("name", "note")
        .with("maxlength", 1024)
        .with("autocomplete", "off")
        .with("placeholder", "reason (optional)");
    tag("label").class("note").text("Note ").child(input)
}
