//! The rollout into an environment: a map with one cell for each target and one column for each wave, and
//! the forms that stop it, resume it, or skip a target.
//!
//! States are told apart by a symbol and a text, not by colour alone. The forms are a part of their own, so
//! that the map changes while a person fills one in.

mod map;
mod orders;
mod progress;

use std::collections::BTreeMap;

use api::pipeline::{Environment, TargetStatus};
use planner::RolloutView;

use super::PipelineView;
use crate::{
    dashboard::{
        components::timestamp,
        html::{Element, Html, tag},
        page::PageParts,
        version::chip,
    },
    view,
};

impl PipelineView<'_> {
    /// Adds the parts of an environment's rollout; empty ones where it has none, for the script to replace.
    pub(super) fn push_rollout(
        &self,
        parts: &mut PageParts,
        environment: &Environment,
        index: usize,
    ) {
        let name = environment.name.as_str();
        let view = planner::rollout_view(&self.pipeline, &self.promotions, name, self.drawn_at);
        let (id, orders) = (format!("rollout-{index}"), format!("orders-{index}"));
        let none = |id: &str| tag("div").id(id).set("hidden", true);
        let Some(view) = view else {
            parts.push(&id, none(&id));
            parts.push(&orders, none(&orders));
            return;
        };
        parts.push(&id, self.rollout(name, index, &view));
        let forms = self.rollout_orders(name, index, &view);
        parts.push(&orders, forms.unwrap_or_else(|| none(&orders)));
    }

    fn rollout(&self, environment: &str, index: usize, view: &RolloutView) -> Element {
        let title = format!("rollout-{index}-title");
        let heading = tag("h2")
            .id(&title)
            .text("Rollout of ")
            .child(chip(&view.revision))
            .text(format_args!(" into {environment}"));
        let section = tag("section")
            .id(format_args!("rollout-{index}"))
            .class("rollout-map")
            .with("aria-labelledby", &title)
            .child(heading.child(state_tag(view)))
            .child(self.stopped(view));
        let targets = self.targets_by_key(environment);
        let map = self.map(environment, view, &targets);
        if !view.has_ended {
            return section.children(map);
        }
        let summary = tag("summary").text("Show its waves and targets");
        let id = format!("rollout-{index}-ended");
        let details = tag("details").id(id).class("more").child(summary);
        section.child(details.children(map))
    }

    /// Who or what stopped it, when and why.
    fn stopped(&self, view: &RolloutView) -> Option<Element> {
        let stop = view.stopped.as_ref()?;
        let by = match &stop.by {
            Some(by) => format!("Stopped by {by}"),
            None => "Stopped".to_owned(),
        };
        // A stop that is not stored yet has the time at which the page was drawn.
        let at = stop.at.as_ref().filter(|at| at.0 < self.drawn_at);
        let why = (!stop.message.is_empty()).then(|| format!(": {}", stop.message));
        let text = tag("p").class("notice bad").text(by);
        let text = match at {
            Some(at) => text.text(" ").child(timestamp(at)),
            None => text,
        };
        Some(text.text(why.unwrap_or_default()))
    }

    /// The targets of an environment, by the keys that a rollout has for them.
    fn targets_by_key(&self, environment: &str) -> BTreeMap<String, &TargetStatus> {
        let status = view::status_of(&self.pipeline, environment);
        let targets = status.map(|it| it.targets.as_slice()).unwrap_or_default();
        let home = &self.key.namespace;
        let targets = targets.iter();
        targets
            .map(|it| (planner::target_key(it, home), it))
            .collect()
    }
}

fn state_tag(view: &RolloutView) -> Element {
    let class = match (view.has_ended, &view.stopped) {
        (true, _) => "badge",
        (false, Some(_)) => "badge failed",
        (false, None) => "badge promoting",
    };
    tag("span").class(class).text(view.word())
}

/// The rollouts of all environments, each as a card with its map and its forms.
pub(super) fn frame(parts: &PageParts) -> Html {
    let maps = parts.fixed.iter().filter_map(|(id, part)| {
        let index = id.strip_prefix("rollout-")?;
        let card = tag("div").class("card rollout").child(part.html.clone());
        Some(card.child(parts.html(&format!("orders-{index}"))))
    });
    Html::all(maps)
}
