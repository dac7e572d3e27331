//! The picture of a pipeline: a card for each environment, joined by the gates between them, with the
//! release that is on its way.
//!
//! The chip of that release has the same `data-move` wherever it stands, so that the script can move it
//! when an update puts it somewhere else.

use std::collections::BTreeMap;

use api::{
    Promotion, Time,
    pipeline::{Environment, TargetStatus},
    promotion::Phase,
    revision::identity,
};

use planner::HoldReason;

use super::{PipelineView, gates::GateNode};
use crate::{
    dashboard::{
        components::{badge, counted, duration_since, screen_reader_text, timestamp},
        html::{Element, Html, tag},
        icons,
        objects::objects_address,
        version::{chip, colour, headline, shortened},
    },
    view,
};

/// Up to this many targets have a segment each; more are drawn as shares of a bar.
const MAX_SEGMENTS: usize = 24;

impl PipelineView<'_> {
    pub(super) fn picture(&self) -> Element {
        if !planner::is_chain(&self.pipeline.spec) {
            return self.graph();
        }
        let environments = self.pipeline.spec.environments.iter().enumerate();
        let stages = environments.map(|(index, environment)| self.stage(environment, index));
        tag("ol").id("picture").class("flow").children(stages)
    }

    pub(super) fn stage(&self, environment: &Environment, index: usize) -> Element {
        let nodes = self.drawn_gates(environment);
        let connector = (!nodes.is_empty()).then(|| self.connector(environment, &nodes));
        tag("li")
            .class("stage")
            .child(connector)
            .child(self.card(environment, index))
    }

    /// The gates before an environment, and the release that waits between them.
    fn connector(&self, environment: &Environment, nodes: &[GateNode]) -> Element {
        let coming = self.coming(environment);
        let closed = nodes.iter().position(|node| !node.mark.is_open());
        let stop = closed.unwrap_or(nodes.len());
        let moving = coming.map(|revision| {
            let chip = chip(&revision);
            let key = format!("{}-{}", environment.name, shortened(&revision));
            let (revision, name) = (shortened(&revision), &environment.name);
            let text = match closed {
                Some(_) => format!("{revision} waits before {name}"),
                None => format!("{revision} on its way into {name}"),
            };
            tag("li")
                .class("moving")
                .with("data-move", key)
                .child(screen_reader_text(&text))
                .child(tag("span").with("aria-hidden", "true").child(chip))
        });
        let (before, after) = nodes.split_at(stop);
        let state = match (moving.is_some(), closed) {
            (true, None) => "connector going",
            (true, Some(_)) => "connector closed",
            (false, _) => "connector",
        };
        tag("ol")
            .class(state)
            .with(
                "aria-label",
                format_args!("Gates into {}", environment.name),
            )
            .children(before.iter().map(node))
            .child(moving)
            .children(after.iter().map(node))
    }

    /// The revision that is on its way into an environment, as it is shown.
    fn coming(&self, environment: &Environment) -> Option<String> {
        if let Some(promotion) = self.current_promotion(&environment.name) {
            return Some(promotion.spec.shown_revision());
        }
        let plan = self.plan.environments.get(&environment.name)?;
        // What is older than what runs does not come.
        let hold = plan.hold.as_ref().map(|hold| hold.reason);
        let next = plan.next.clone();
        let next = next.filter(|_| hold != Some(HoldReason::OlderThanRunning))?;
        let running = view::revisions(view::status_of(&self.pipeline, &environment.name));
        let is_here = running.iter().all(|it| *it == identity(&next)) && !running.is_empty();
        (!is_here).then_some(next)
    }

    /// The promotion that is under way into an environment.
    pub(super) fn current_promotion(&self, environment: &str) -> Option<&Promotion> {
        self.promotions.iter().find(|promotion| {
            let phase = promotion.status.as_ref().and_then(|status| status.phase);
            let is_over = phase.is_some_and(Phase::is_terminal);
            promotion.spec.environment == environment && !is_over
        })
    }

    fn card(&self, environment: &Environment, index: usize) -> Element {
        let state = view::environment_state(&self.pipeline, &environment.name);
        let status = view::status_of(&self.pipeline, &environment.name);
        let targets = status.map(|it| it.targets.as_slice()).unwrap_or_default();
        let name = tag("h3").child(
            tag("a")
                .link(&format!("#targets-{index}"))
                .text(&environment.name),
        );
        let reported = status.and_then(|it| it.reported.as_ref());
        let reported = reported.map(|it| it.revision.clone());
        tag("div")
            .class(format_args!("environment {}", state.id()))
            .child(tag("header").child(name).child(badge(state)))
            .child(self.after(environment))
            .child(self.frozen(&environment.name))
            .child(versions(targets, reported))
            .child(self.strip(&environment.name, targets))
            .child(self.wave_progress(&environment.name, index))
            .child(foot(targets))
    }

    /// That an environment is frozen, whether or not something waits for it.
    fn frozen(&self, environment: &str) -> Option<Element> {
        let plan = self.plan.environments.get(environment)?;
        let frozen = plan.frozen.as_ref()?;
        let model = self.pipeline.status.as_ref()?;
        let because = planner::frozen_because(model, environment, self.now)?;
        let link = tag("a")
            .link("/freezes")
            .with("title", frozen)
            .text(format_args!("frozen: {because}"));
        Some(
            tag("p")
                .class("freeze-note")
                .child(icons::gate("freeze"))
                .child(link),
        )
    }

    /// The targets of an environment, each with the colour of its version.
    fn strip(&self, environment: &str, targets: &[TargetStatus]) -> Element {
        if targets.len() > MAX_SEGMENTS {
            return shares(targets);
        }
        let segments = targets.iter().map(|target| {
            let state = planner::target_state(target);
            let text = target_text(target);
            let link = tag("a")
                .link(&objects_address(self.key, environment, target))
                .with("title", &text)
                .child(screen_reader_text(&text));
            let class = format!("{} {}", state.id(), colour(&shown(target)));
            tag("li").class(class).child(link)
        });
        tag("ul").class("segments").children(segments)
    }
}

/// A gate between two environments.
fn node(node: &GateNode) -> Element {
    let label = tag("span").class("label").text(&node.short_label);
    let until = node
        .opens_at
        .map(|at| timestamp(&Time(at)).with("data-left", ""));
    tag("li")
        .class(node.class())
        .with("title", node.sentence.as_ref().unwrap_or(&node.label))
        .child(tag("span").class("sign").child(node.drawing()))
        .child(label.child(until))
        .child(screen_reader_text(&node.state))
}

/// The revision of a target as it is shown; empty where nothing is known.
pub(super) fn shown(target: &TargetStatus) -> String {
    let failed = planner::failed_revision(target).map(str::to_owned);
    failed
        .or_else(|| target.shown_revision())
        .or_else(|| target.apps.iter().find_map(|app| app.revision.clone()))
        .unwrap_or_default()
}

/// A target, what it runs and its state, in words.
pub(super) fn target_text(target: &TargetStatus) -> String {
    let release = planner::release(target).unwrap_or("not deployed yet".to_owned());
    let state = planner::target_state(target).word();
    format!("{}: {release}, {state}", view::target_label(target))
}

/// How many targets run each version, the most frequent first.
fn counts(targets: &[TargetStatus]) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for target in targets {
        let version = target.shown_revision().unwrap_or_else(|| shown(target));
        *counts.entry(version).or_default() += 1;
    }
    let mut counts: Vec<_> = counts
        .into_iter()
        .filter(|(it, _)| !it.is_empty())
        .collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

/// The version that most targets run as the largest text, and the others.
fn versions(targets: &[TargetStatus], reported: Option<String>) -> Element {
    let counts = counts(targets);
    let all = tag("p").class("versions");
    let Some((main, _)) = counts.first() else {
        return match reported {
            Some(revision) => all.child(headline(&revision)),
            None => all.child(tag("span").class("headline none").text("nothing yet")),
        };
    };
    let others = counts.iter().skip(1).take(3).map(|(version, count)| {
        let text = tag("span").class("dim").text(format_args!(" on {count} "));
        tag("span").class("other").child(chip(version)).child(text)
    });
    let failed = targets.iter().find_map(planner::failed_revision);
    let failed = failed.map(|revision| {
        tag("span")
            .class("other failed")
            .child(chip(revision))
            .child(tag("span").class("bad").text(" failed"))
    });
    all.child(headline(main)).children(others).child(failed)
}

/// How many targets are ready, and since when all are.
fn foot(targets: &[TargetStatus]) -> Element {
    let ready = targets.iter().filter(|target| target.ready).count();
    let count = match targets.len() {
        0 => "no targets".to_owned(),
        all => format!("{ready} of {} ready", counted(all, "target")),
    };
    let since = targets
        .iter()
        .filter_map(|it| it.ready_since.as_ref())
        .max();
    let since = since.filter(|_| ready == targets.len()).map(duration_since);
    tag("p")
        .class("foot")
        .child(tag("span").text(count))
        .child(since)
}

/// Many targets as a bar: a share for each version and state.
fn shares(targets: &[TargetStatus]) -> Element {
    let mut shares: BTreeMap<(String, &'static str), usize> = BTreeMap::new();
    for target in targets {
        let state = planner::target_state(target).id();
        *shares.entry((shown(target), state)).or_default() += 1;
    }
    let total = targets.len();
    let percent = |count: usize| format!("{}%", count * 10_000 / total / 100);
    let mut before = 0;
    let mut bars = Vec::new();
    for ((version, state), count) in &shares {
        let class = format!("{state} {}", colour(version));
        let title = tag("title").text(format_args!("{version}: {count} {state}"));
        let bar = tag("rect")
            .class(class)
            .with("x", percent(before))
            .with("width", percent(*count))
            .with("height", "100%");
        bars.push(Html::from(bar.child(title)));
        before += count;
    }
    tag("svg")
        .class("shares")
        .with("role", "img")
        .with("aria-label", format_args!("{total} targets by version"))
        .children(bars)
}
