//! Draws environments as boxes from left to right, or below each other in a narrow terminal, followed by
//! remarks on each. Environments that do not simply follow each other are drawn as a graph.

mod boxes;
mod graph;

use api::{
    Pipeline, conditions,
    pipeline::{Environment, EnvironmentStatus, PipelineSpec, PipelineStatus},
    promotion::Phase,
};
use jiff::Timestamp;
use planner::{HoldReason, SummaryState, running_revisions};

use super::super::{
    cluster::key,
    format::{duration, target_names},
    rollout_bars::environment_bars,
    terminal::{BOLD, DIM, PLAIN, clean, paint, painted_glyph, shown, state_style, wrap},
};
use super::suggestion::{WaitingPromotions, suggested_command};
use boxes::{BoxLine, EnvironmentBox};
use graph::Graph;

/// How many targets of an environment are listed.
const MAX_TARGETS: usize = 8;

/// Draws the diagram, or only the box and the remarks of one environment. `width` is that of the terminal; `None` if
/// the output is not a terminal.
pub(super) fn draw(
    (pipeline, only): (&Pipeline, Option<&str>),
    waiting: &WaitingPromotions,
    width: Option<usize>,
    now: Timestamp,
) -> String {
    let mut text = format!("{}\n\n", title(pipeline));
    let names = pipeline.spec.environments.iter().map(|it| it.name.as_str());
    let names: Vec<&str> = names
        .filter(|name| only.is_none_or(|only| only == *name))
        .collect();
    let all: Vec<EnvironmentBox> = names
        .iter()
        .map(|name| environment(pipeline, name))
        .collect();
    let is_chain = only.is_some() || planner::is_chain(&pipeline.spec);
    let wide = width.and_then(|width| match is_chain {
        true => boxes::horizontal(&all, width),
        false => graph(&pipeline.spec, &all).draw(width),
    });
    text.push_str(&wide.unwrap_or_else(|| boxes::vertical(&all, is_chain)));
    for name in names {
        for line in remarks((pipeline, waiting), name, width, now) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}

/// Which column each environment is in, and who comes after whom.
fn graph<'a>(spec: &PipelineSpec, boxes: &'a [EnvironmentBox]) -> Graph<'a> {
    let position = |wanted: &Environment| {
        let mut environments = spec.environments.iter();
        environments.position(|it| it.name == wanted.name)
    };
    let positions = |all: Vec<&Environment>| all.into_iter().filter_map(position).collect();
    let edges = spec.environments.iter().enumerate();
    let edges = edges.flat_map(|(index, it)| {
        let sources: Vec<usize> = positions(planner::sources(spec, &it.name));
        sources.into_iter().map(move |source| (source, index))
    });
    Graph {
        boxes,
        columns: planner::environment_columns(spec)
            .into_iter()
            .map(positions)
            .collect(),
        edges: edges.collect(),
    }
}

fn title(pipeline: &Pipeline) -> String {
    let (namespace, name) = key(pipeline);
    let app = pipeline.spec.app_ref.as_ref();
    let app = app.map(|app| format!("  {} {}", app.kind, app.name));
    let mut title = paint(BOLD, &clean(&format!("{namespace}/{name}")));
    title.push_str(&clean(&app.unwrap_or_default()));
    if pipeline.spec.suspend {
        let glyph = painted_glyph(SummaryState::Suspended);
        title.push_str(&format!(
            "\n{glyph} suspended; try: sluice resume {name} -n {namespace}"
        ));
    }
    let status = pipeline.status.as_ref();
    let ready = status.and_then(|it| conditions::find(&it.conditions, conditions::READY));
    match ready {
        None => title.push_str("  not reconciled yet; is the controller running?"),
        Some(ready) if ready.status != "True" => {
            let text = clean(&format!("{}: {}", ready.reason, ready.message));
            title.push_str(&format!("\n{} {text}", painted_glyph(SummaryState::Failed)));
        }
        Some(_) => {}
    }
    title
}

fn environment(pipeline: &Pipeline, name: &str) -> EnvironmentBox {
    let model = pipeline.status.clone().unwrap_or_default();
    let status = model.environments.get(name);
    let state = planner::environment_state(pipeline, &model, name);
    let runs = clean(&running_revisions(status));
    let has_several = runs.contains(" + ");
    let mut lines = vec![BoxLine::new(runs, BOLD), state_line(state)];
    lines.extend(sources_line(pipeline, name));
    let targets = status.map(|it| it.targets.as_slice()).unwrap_or_default();
    for (target, name) in targets.iter().zip(target_names(targets)).take(MAX_TARGETS) {
        let name = clean(&name);
        let release = planner::release(target).unwrap_or("-".to_owned());
        let text = match has_several {
            true => format!("{name} {}", clean(&release)),
            false => name,
        };
        lines.push(BoxLine::with_glyph(planner::target_state(target), text));
    }
    if targets.len() > MAX_TARGETS {
        let ready = targets.iter().filter(|target| target.ready).count();
        let (more, all) = (targets.len() - MAX_TARGETS, targets.len());
        lines.push(BoxLine::new(
            format!("and {more} more; {ready} of {all} ready"),
            DIM,
        ));
    }
    EnvironmentBox {
        title: clean(name),
        lines,
    }
}

/// What an environment comes after, where the order of the list does not say so.
fn sources_line(pipeline: &Pipeline, name: &str) -> Option<BoxLine> {
    let sources = planner::sources(&pipeline.spec, name);
    if planner::is_chain(&pipeline.spec) || sources.is_empty() {
        return None;
    }
    let names: Vec<_> = sources.iter().map(|it| clean(&it.name)).collect();
    Some(BoxLine::new(format!("after {}", names.join(", ")), DIM))
}

fn state_line(state: SummaryState) -> BoxLine {
    BoxLine {
        glyph: Some(state),
        text: state.word().to_owned(),
        style: state_style(state),
    }
}

impl BoxLine {
    fn new(text: String, style: anstyle::Style) -> Self {
        Self {
            glyph: None,
            text,
            style,
        }
    }

    fn with_glyph(state: SummaryState, text: String) -> Self {
        Self {
            glyph: Some(state),
            text,
            style: PLAIN,
        }
    }
}

/// The waves of its rollout, the hold of an environment, its promotion, and the errors of its targets.
fn remarks(
    (pipeline, waiting): (&Pipeline, &WaitingPromotions),
    name: &str,
    width: Option<usize>,
    now: Timestamp,
) -> Vec<String> {
    let model = pipeline.status.clone().unwrap_or_default();
    let Some(status) = model.environments.get(name) else {
        return Vec::new();
    };
    let mut texts = Vec::new();
    let held = status.hold.iter().map(|hold| hold.reason.as_str());
    let mut reasons = held.chain(status.gates.iter().map(|gate| gate.reason.as_str()));
    if !reasons.any(|it| it == HoldReason::Frozen.word()) {
        texts.extend(planner::frozen_now(&model, name, now));
    }
    if let Some(hold) = &status.hold {
        let mut clauses = hold.message.splitn(2, "; ");
        texts.extend(clauses.next().map(|it| {
            format!(
                "{}: {it} [{}]",
                planner::hold_label(&hold.reason),
                hold.reason
            )
        }));
        texts.extend(clauses.next().map(str::to_owned));
        if let Some(opens_at) = &hold.opens_at {
            let left = duration(opens_at.0.as_second() - now.as_second());
            texts.push(format!("opens at {}, in {left}", opens_at.0));
        }
    }
    texts.extend(further_gates(status));
    texts.extend(promotion(&model, status));
    texts.extend(planner::preflight_text(&model, name, &texts.join("\n")));
    for (target, name) in status.targets.iter().zip(target_names(&status.targets)) {
        let error = target.error.clone();
        let error = error.or_else(|| planner::failed_release(target));
        if let Some(error) = error {
            texts.push(format!("{name}: {error}"));
        }
    }
    let state = planner::environment_state(pipeline, &model, name);
    texts.extend(suggested_command(pipeline, &model, name, waiting));
    let room = width.map(|width| width.saturating_sub(4));
    let bars = environment_bars(status, room);
    if texts.is_empty() && bars.is_empty() {
        return texts;
    }
    let wrapped = texts.iter().flat_map(|text| wrap(&shown(text), room));
    let heading = format!("\n{} {}", painted_glyph(state), paint(BOLD, &clean(name)));
    let lines = bars.into_iter().chain(wrapped);
    let lines = lines.map(|line| format!("    {line}"));
    [heading].into_iter().chain(lines).collect()
}

/// The closed gates that the hold does not tell of.
fn further_gates(status: &EnvironmentStatus) -> Vec<String> {
    let told = status.hold.as_ref().map(|hold| hold.message.as_str());
    let further = status.gates.iter();
    let further = further.filter(|gate| Some(gate.message.as_str()) != told);
    let held = status.hold.as_ref().map(|hold| hold.reason.as_str());
    let further = further.filter(|_| held.is_none_or(planner::waits_further));
    further
        .map(|gate| format!("also waits: {} [{}]", gate.message, gate.reason))
        .collect()
}

fn promotion(model: &PipelineStatus, status: &EnvironmentStatus) -> Vec<String> {
    let promotion = status.promotion.as_ref();
    let promotion = promotion.filter(|it| it.phase != Some(Phase::Succeeded));
    let mut lines = promotion.map_or_else(Vec::new, |it| planner::promotion_lines(model, it));
    let told = status.hold.as_ref().map(|it| it.message.as_str());
    if told.is_some() && promotion.and_then(|it| it.message.as_deref()) == told {
        lines.retain(|line| !line.starts_with("because: "));
    }
    lines
}

#[cfg(test)]
mod tests;
