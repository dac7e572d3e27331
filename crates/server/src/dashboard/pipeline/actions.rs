//! What people may do, shown only to who may.

use std::collections::{BTreeMap, BTreeSet};

use api::{Pipeline, pipeline::Environment, promotion::Phase};
use futures::future::try_join_all;

use super::Subject;
use crate::{
    dashboard::{
        html::{Element, tag},
        words::{address, hidden},
    },
    rest::access::{Caller, Wish},
    view,
    watched::ObjectKey,
};

const RIGHTS: [&str; 3] = ["approve", "promote", "suspend"];

/// What somebody may do.
pub(super) struct Rights {
    may_suspend: bool,
    /// By environment, the verbs that are allowed.
    verbs: BTreeMap<String, BTreeSet<&'static str>>,
}

impl Rights {
    pub(super) async fn find(
        caller: &Caller,
        key: &ObjectKey,
        pipeline: &Pipeline,
    ) -> Result<Self, kube::Error> {
        let places = pipeline.spec.environments.iter();
        let questions = places.flat_map(|it| RIGHTS.map(|verb| (it.name.as_str(), verb)));
        let answers = questions.map(|(environment, verb)| async move {
            let wish = Wish::new(verb, key).environment(environment);
            let is_allowed = caller.may_see(&wish).await?;
            Ok::<_, kube::Error>((environment, verb, is_allowed))
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
        let may_suspend = caller.may_see(&Wish::new("suspend", key)).await?;
        Ok(Self { may_suspend, verbs })
    }

    fn allow(&self, verb: &str, environment: &str) -> bool {
        let verbs = self.verbs.get(environment);
        verbs.is_some_and(|verbs| verbs.contains(verb))
    }
}

impl Subject<'_> {
    pub(super) fn suspend_all(&self) -> Option<Element> {
        let (verb, label) = match self.pipeline.spec.suspend {
            true => ("resume", "Resume the pipeline"),
            false => ("suspend", "Suspend the pipeline"),
        };
        let button = tag("button").class("quiet").text(label);
        let form = self.form(verb, "").class("inline").child(button);
        self.rights.may_suspend.then_some(form)
    }

    pub(super) fn actions(&self, environment: &Environment, index: usize) -> Element {
        let name = environment.name.as_str();
        let mut all = tag("div").class("actions");
        if self.rights.allow("approve", name) {
            all = all.children(
                self.waiting(name)
                    .map(|revision| self.approve(name, revision)),
            );
        }
        if self.rights.allow("promote", name) {
            all = all
                .child(self.promote(name, index))
                .child(self.roll_back(name, index));
        }
        if self.rights.allow("suspend", name) {
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

    /// The revisions that wait for a person in an environment, each once.
    fn waiting(&self, environment: &str) -> impl Iterator<Item = &str> {
        let waiting = self.promotions.iter().filter(move |promotion| {
            let phase = promotion.status.as_ref().and_then(|status| status.phase);
            let spec = &promotion.spec;
            let is_open = spec.approval.is_none() && spec.withdrawn.is_none();
            spec.environment == environment && is_open && phase == Some(Phase::AwaitingApproval)
        });
        let revisions: BTreeSet<_> = waiting.map(|it| it.spec.revision.as_str()).collect();
        revisions.into_iter()
    }

    fn approve(&self, environment: &str, revision: &str) -> Element {
        self.form("approve", environment)
            .class("approve")
            .child(hidden("revision", revision))
            .child(note())
            .child(
                tag("button")
                    .class("main")
                    .text(format_args!("Approve {revision}")),
            )
    }

    /// Any revision may be asked for; those that run elsewhere are suggested, and one that was never
    /// seen needs a tick.
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

    /// To what ran before.
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
            .child(tag("label").with("for", &field).text("Back to"))
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
            .child(hidden("verb", verb))
            .child(hidden("environment", environment))
    }
}

/// Whether to ask for a revision that nothing is known to have.
fn unseen(index: usize) -> Element {
    let input = tag("input")
        .id(format_args!("unseen-{index}"))
        .with("name", "unseen")
        .with("type", "checkbox")
        .with("value", "true");
    tag("label")
        .class("note")
        .child(input)
        .text(" even if nothing has run this revision yet")
}

/// A form that acts on a pipeline.
pub(in crate::dashboard) fn form(key: &ObjectKey, csrf: &str) -> Element {
    tag("form")
        .with("method", "post")
        .link(&format!("{}/act", address(key)))
        .child(hidden("csrf", csrf))
}

/// Room for a reason.
pub(in crate::dashboard) fn note() -> Element {
    let input = tag("input")
        .with("name", "note")
        .with("maxlength", 1024)
        .with("autocomplete", "off")
        .with("placeholder", "why (optional)");
    tag("label").class("note").text("Note ").child(input)
}
