//! The form that requests a revision: known ones can be chosen, any other one is typed.

use std::collections::BTreeSet;

use super::{super::PipelineView, disclosure};
use crate::{
    dashboard::{
        decision::note,
        html::{Element, tag},
        version::chip,
    },
    view,
};

/// How many known revisions can be chosen.
const MAX_CHOICES: usize = 8;

impl PipelineView<'_> {
    /// The revisions that are known in other environments and here, without what runs here already.
    fn known_revisions(&self, environment: &str) -> Vec<String> {
        let status = self.pipeline.status.as_ref();
        let all = status.into_iter().flat_map(|it| it.environments.iter());
        let mut known = BTreeSet::new();
        for (name, other) in all {
            known.extend(view::revisions(Some(other)).into_iter().map(str::to_owned));
            if name == environment {
                known.extend(other.ran_revisions().map(str::to_owned));
            }
        }
        let proposal = status.and_then(|it| it.proposal.as_ref()?.revision.clone());
        known.extend(proposal);
        let here = view::revisions(view::status_of(&self.pipeline, environment));
        known.retain(|revision| !here.contains(revision.as_str()));
        let mut known: Vec<_> = known.into_iter().collect();
        if let Some(model) = status {
            planner::sort_choices(&mut known, model, environment);
        }
        known
    }

    /// Known revisions are offered; any other can be typed, and one that was never observed must be
    /// confirmed.
    pub(super) fn promote(&self, environment: &str, index: usize) -> Element {
        let known = self.known_revisions(environment);
        let field = format!("revision-{index}");
        let input = tag("input")
            .id(&field)
            .with("name", "revision")
            .with("autocomplete", "off")
            .with("maxlength", 256)
            .set("required", known.is_empty());
        let label = match known.is_empty() {
            true => "Revision (no other one is known)",
            false => "Or another revision",
        };
        let consequence = match planner::sources(&self.pipeline.spec, environment).is_empty() {
            true => format!("Brings the revision into {environment}."),
            false => format!(
                "Brings the revision into {environment} without waiting for the environments that it comes \
                 after."
            ),
        };
        let consequence = format!("{consequence} Approval, suspension and freezes still hold it.");
        let form = self
            .form("promote", environment)
            .child(tag("p").class("dim").text(consequence))
            .child(self.known_choices(&known, environment))
            .child(tag("label").with("for", &field).text(label))
            .child(input)
            .child(note())
            .child(unseen(index))
            .child(
                tag("button")
                    .class("main")
                    .text(format_args!("Promote into {environment}")),
            );
        disclosure(&format!("promote-{index}"), "Promote…", form)
    }

    /// The known revisions to choose from; nothing where none is known.
    fn known_choices(&self, known: &[String], environment: &str) -> Option<Element> {
        let status = self.pipeline.status.as_ref();
        let choices = known.iter().take(MAX_CHOICES).map(|revision| {
            let input = tag("input")
                .with("type", "radio")
                .with("name", "known")
                .with("value", revision);
            let caution = status.and_then(|it| planner::caution(it, environment, revision));
            let caution = caution.map(|it| tag("span").class("dim").text(format_args!(" ({it})")));
            tag("label")
                .child(input)
                .child(chip(revision))
                .child(caution)
        });
        let choices = tag("fieldset")
            .class("known")
            .child(tag("legend").text("Revision"))
            .children(choices);
        (!known.is_empty()).then_some(choices)
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
        .class("check-line")
        .child(input)
        .text(" unseen: ask for it even if no target, source or report has it")
}
