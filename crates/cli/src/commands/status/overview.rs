//! Two or three lines for each pipeline: its state, what each environment runs, and what holds a promotion.

use std::io::{self, Write};

use api::Pipeline;
use jiff::Timestamp;

use super::super::{
    cluster::key,
    terminal::{BOLD, clean, paint, painted_glyph, shown, wrap},
};

const INDENT: &str = "    ";

pub(super) fn write(
    pipelines: &[Pipeline],
    width: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let room = width.map(|width| width.saturating_sub(INDENT.len()));
    for pipeline in pipelines {
        let (namespace, name) = key(pipeline);
        let model = pipeline.status.clone().unwrap_or_default();
        let state = planner::pipeline_summary(pipeline, &model).state;
        let title = paint(BOLD, &clean(&format!("{namespace}/{name}")));
        let words = clean(&planner::state_text(pipeline, &model));
        writeln!(out, "{} {title}  {words}", painted_glyph(state))?;
        let runs = planner::runs_text(pipeline, &model);
        for text in [runs].into_iter().chain(holds(pipeline, Timestamp::now())) {
            for line in wrap(&shown(&text), room) {
                writeln!(out, "{INDENT}{line}")?;
            }
        }
    }
    Ok(())
}

/// Why each environment waits, that it is frozen, and what a promotion would fail at.
fn holds(pipeline: &Pipeline, now: Timestamp) -> Vec<String> {
    let model = pipeline.status.clone().unwrap_or_default();
    let names = pipeline.spec.environments.iter().map(|it| it.name.as_str());
    let holds = names.flat_map(|name| {
        let hold = planner::hold_text(&model, name, now);
        let told = hold.clone().unwrap_or_default();
        let texts = [hold, planner::preflight_text(&model, name, &told)];
        let texts = texts.into_iter().flatten();
        texts.map(move |text| format!("{name}: {text}"))
    });
    holds.collect()
}
