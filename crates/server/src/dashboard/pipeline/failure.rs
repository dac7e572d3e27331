//! The card of an environment whose release failed: what failed, what still runs, and what helps.

use planner::EnvironmentFailure;

use super::PipelineView;
use crate::dashboard::{
    components::{counted, hidden_field, timestamp},
    decision::note,
    html::{Element, Html, tag},
    version::{chip, shortened},
};

impl PipelineView<'_> {
    /// The card of an environment; hidden where no release fails.
    pub(super) fn failure(&self, environment: &str, index: usize) -> Element {
        let id = format!("failure-{index}");
        let model = self.pipeline.status.as_ref();
        let failure =
            model.and_then(|it| planner::environment_failure(&self.pipeline, it, environment));
        // The map of a rollout has what failed, and what can be done about it.
        let current = self.current_promotion(environment);
        let is_rollout = current.is_some_and(|it| it.spec.rollout.is_some());
        let Some(failure) = failure.filter(|_| !is_rollout) else {
            return tag("div").id(id).set("hidden", true);
        };
        let heading = format!("{id}-title");
        let title = format!("{environment} failed: {}", shortened(failure.revision));
        let card = tag("div")
            .class("card")
            .child(tag("h2").id(&heading).text(title))
            .child(facts(&failure))
            .child(self.roll_failure_back(environment, index, &failure));
        tag("section")
            .id(id)
            .class("next wait failure")
            .with("aria-labelledby", heading)
            .child(card)
    }

    /// The button that goes back to the last good revision, behind what it leads to.
    fn roll_failure_back(
        &self,
        environment: &str,
        index: usize,
        failure: &EnvironmentFailure<'_>,
    ) -> Option<Element> {
        let earlier = failure.rollback?;
        let is_allowed = self.allowed.contains("promote", environment);
        let (earlier_text, failed) = (shortened(earlier), shortened(failure.revision));
        let consequence = format!(
            "Replaces {failed} in git. It is then rejected for {environment}: the pipeline does not promote \
             it again unless you ask for it."
        );
        let summary = tag("summary")
            .class("button danger")
            .child(
                tag("span")
                    .class("when-closed")
                    .text(format_args!("Roll back to {earlier_text}…")),
            )
            .child(tag("span").class("when-open").text("Cancel"));
        let button = tag("button")
            .class("danger")
            .text(format_args!("Roll {environment} back to {earlier_text}"));
        let details = tag("details")
            .id(format_args!("failure-rollback-{index}"))
            .class("reject")
            .child(summary)
            .child(tag("p").class("dim").text(consequence))
            .child(note())
            .child(button);
        let form = self
            .form("rollback", environment)
            .class("approve")
            .child(hidden_field("revision", earlier));
        is_allowed.then(|| form.child(details))
    }
}

fn facts(failure: &EnvironmentFailure<'_>) -> Element {
    let (failed, all) = failure.targets;
    let what = tag("p")
        .child(chip(failure.revision))
        .text(format_args!(" on {failed} of {}", counted(all, "target")))
        .children(
            failure
                .since
                .map(|at| Html::all([Html::from(", "), timestamp(at).into()])),
        );
    let message = failure.message;
    let message = message.map(|text| tag("p").class("bad").text(text));
    let runs = match failure.still_runs.is_empty() {
        true => tag("p").text("nothing else"),
        false => tag("p").children(failure.still_runs.iter().map(|it| chip(it))),
    };
    let rows = [
        ("Failed", Some(what)),
        ("Why", message),
        ("Still runs", Some(runs)),
        ("Next step", Some(tag("p").text(failure.advice()))),
    ];
    let rows = rows.into_iter().filter_map(|(name, value)| {
        let value = tag("dd").child(value?);
        Some(Html::all([tag("dt").text(name), value]))
    });
    tag("dl").class("facts").children(rows)
}
