//! The map of a rollout: a legend, a column of cells for each wave, and the targets to look at.

use std::collections::BTreeMap;

use api::pipeline::TargetStatus;
use planner::{RolloutState, RolloutView, TargetView, WaveView};

use super::PipelineView;
use crate::dashboard::{
    components::{external_link, pull_request_label, screen_reader_text, timestamp},
    html::{Element, Html, tag},
    objects::objects_address,
    version::shortened,
};

/// More targets than this have small cells.
const MAX_LARGE_CELLS: usize = 150;
/// Of waves with more targets than this, screen readers read the counts and the targets to look at.
const MAX_READ_CELLS: usize = 60;
/// How many targets are described below the map.
const MAX_DESCRIBED: usize = 6;

impl PipelineView<'_> {
    pub(super) fn map(
        &self,
        environment: &str,
        view: &RolloutView,
        targets: &BTreeMap<String, &TargetStatus>,
    ) -> Vec<Html> {
        let address = |target: &TargetView| {
            let status = targets.get(&target.target)?;
            Some(objects_address(self.key, environment, status))
        };
        let is_small = view.targets().count() > MAX_LARGE_CELLS;
        let waves = view.waves.iter().map(|wave| {
            let read = wave.targets.len() <= MAX_READ_CELLS;
            let cells = wave
                .targets
                .iter()
                .map(|target| cell(target, read, address(target)));
            column(wave, view.waves.len(), is_small, cells)
        });
        let described = view.targets().filter(|it| it.state.needs_attention());
        let described: Vec<_> = described.take(MAX_DESCRIBED).collect();
        let list = (!described.is_empty()).then(|| {
            let items = described.into_iter();
            let items = items.map(|target| description(target, address(target)));
            tag("ul").class("targets").children(items)
        });
        vec![
            legend(view).into(),
            tag("ol").class("waves").children(waves).into(),
            list.into(),
        ]
    }
}

/// How many targets are in each state, with its symbol.
fn legend(view: &RolloutView) -> Element {
    let states = RolloutState::ALL.map(|state| (state, view.count(state)));
    let states = states.into_iter().filter(|(_, count)| *count > 0);
    let items = states.map(|(state, count)| {
        let symbol = tag("i").class(class(state)).with("aria-hidden", "true");
        tag("li")
            .child(symbol)
            .text(format_args!("{count} {}", state.word()))
    });
    tag("ul")
        .class("legend")
        .with("aria-label", "Targets by state")
        .children(items)
}

fn class(state: RolloutState) -> String {
    format!("map-cell {}", state.id())
}

/// A wave with its cells.
fn column(
    wave: &WaveView,
    waves: usize,
    is_small: bool,
    cells: impl Iterator<Item = Element>,
) -> Element {
    let size = match wave.targets.len() {
        0..=20 => "wave",
        21..=150 => "wave large",
        _ => "wave largest",
    };
    let class = match wave.is_open {
        true => format!("{size} open"),
        false => size.to_owned(),
    };
    let heading = tag("h3")
        .text(format_args!("Wave {} of {waves}", wave.number))
        .child(tag("small").text(&wave.takes));
    let cells_class = if is_small { "cells small" } else { "cells" };
    tag("li")
        .class(class)
        .child(heading)
        .child(progress_line(wave))
        .child(tag("ol").class(cells_class).children(cells))
}

/// How many of its targets are ready, and what comes next.
fn progress_line(wave: &WaveView) -> Element {
    let ready = wave.count(RolloutState::Ready);
    let line = tag("p")
        .class("dim")
        .text(format_args!("{ready} of {} ready", wave.targets.len()));
    let line = match (&wave.done_at, wave.soaks_until) {
        (Some(at), _) => line.text(", done ").child(timestamp(at)),
        (None, Some(until)) => line
            .text(", soaks until ")
            .child(timestamp(&api::Time(until))),
        (None, None) => line.text(format_args!(", {}", wave.word())),
    };
    match wave.max_concurrent.filter(|_| wave.done_at.is_none()) {
        Some(most) => line.text(format_args!(", at most {most} at a time")),
        None => line,
    }
}

/// One target. Only those that are not as they should be can be reached by the keyboard: with hundreds of
/// stops nobody would get past the map.
fn cell(target: &TargetView, is_read: bool, address: Option<String>) -> Element {
    let text = cell_text(target);
    let class = class(target.state);
    let state = target.state;
    if state.needs_attention() || state == RolloutState::InFlight {
        let inner = match &address {
            Some(address) => tag("a").link(address),
            None => tag("span"),
        };
        let inner = inner.with("title", &text).child(screen_reader_text(&text));
        return tag("li").class(class).child(inner);
    }
    let item = tag("li").class(class).with("title", &text);
    match is_read {
        true => item.child(screen_reader_text(&text)),
        false => item.with("aria-hidden", "true"),
    }
}

/// `eu-3/shop: failed, runs 1.0.0`.
fn cell_text(target: &TargetView) -> String {
    let (name, state) = (&target.target, target.state.word());
    match &target.runs {
        Some(runs) => format!("{name}: {state}, runs {}", shortened(runs)),
        None => format!("{name}: {state}"),
    }
}

/// A target to look at: why it is not ready, and the pull request that changed it.
fn description(target: &TargetView, address: Option<String>) -> Element {
    let name = match &address {
        Some(address) => tag("a").link(address).text(&target.target),
        None => tag("span").text(&target.target),
    };
    let symbol = tag("i")
        .class(class(target.state))
        .with("aria-hidden", "true");
    let state = tag("span").class("dim").text(target.state.word());
    let message = target.message.as_ref();
    let message = message.map(|message| tag("p").class("bad").text(message));
    let url = target.url.as_deref();
    let url = url.map(|url| external_link(url, &pull_request_label(url)));
    let runs = target.runs.as_deref();
    let runs = runs.map(|runs| tag("span").text(format_args!("runs {} ", shortened(runs))));
    let facts = tag("p").class("dim").child(runs).child(url);
    tag("li")
        .class(format_args!("target {}", target.state.id()))
        .child(
            tag("p")
                .class("target-name")
                .child(symbol)
                .child(name)
                .child(state),
        )
        .child(message)
        .child(facts)
}
