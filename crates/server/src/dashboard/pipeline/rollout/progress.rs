//! The waves of a rollout on the card of an environment: a small bar for each.

use api::pipeline::WaveSummary;

use super::PipelineView;
use crate::{
    dashboard::html::{Element, Html, tag},
    view,
};

impl PipelineView<'_> {
    /// A bar for each wave of the rollout under way, linked to its map.
    pub(in super::super) fn wave_progress(
        &self,
        environment: &str,
        index: usize,
    ) -> Option<Element> {
        let rollout = view::status_of(&self.pipeline, environment)?
            .rollout
            .as_ref()
            .filter(|it| it.finished_at.is_none())?;
        let waves = rollout.waves.len();
        let bars = rollout.waves.iter().enumerate();
        let bars = bars.map(|(number, wave)| bar(number + 1, waves, wave));
        let list = tag("ol").class("wave-bars").children(bars);
        let link = tag("a").link(&format!("#rollout-{index}"));
        let link = match &rollout.stopped {
            Some(_) => link.text("Rollout stopped"),
            None => link.text("Rollout"),
        };
        Some(tag("div").class("wave-progress").child(link).child(list))
    }
}

fn bar(number: usize, waves: usize, wave: &WaveSummary) -> Element {
    let parts = [
        ("ready", wave.ready),
        ("in-flight", wave.in_flight),
        ("failed", wave.failed),
        ("unreachable", wave.unreachable),
    ];
    let total = wave.targets.max(1);
    let percent = |count: i64| {
        format!(
            "{}.{:02}%",
            count * 100 / total,
            count * 10_000 / total % 100
        )
    };
    let mut before = 0;
    let mut rects = Vec::new();
    for (state, count) in parts.into_iter().filter(|(_, count)| *count > 0) {
        let rect = tag("rect")
            .class(state)
            .with("x", percent(before))
            .with("width", percent(count))
            .with("height", "100%");
        rects.push(Html::from(rect));
        before += count;
    }
    let (ready, all) = (wave.ready, wave.targets);
    let further = parts.iter().skip(1).filter(|(_, count)| *count > 0);
    let further = further.map(|(state, count)| format!(", {count} {}", state.replace('-', " ")));
    let done = wave.done_at.as_ref().map_or("", |_| ", done");
    let label = format!(
        "Wave {number} of {waves}: {ready} of {all} ready{}{done}",
        further.collect::<String>()
    );
    let drawing = tag("svg")
        .class("wave-bar")
        .with("role", "img")
        .with("aria-label", &label)
        .child(tag("title").text(&label))
        .children(rects);
    let count = tag("span")
        .class("dim")
        .with("aria-hidden", "true")
        .text(format_args!("{ready}/{all}"));
    tag("li").child(drawing).child(count)
}
