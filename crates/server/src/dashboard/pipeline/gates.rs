//! The gates into an environment: as signs in the picture, and as a list with each verdict.

use api::pipeline::Environment;
use planner::{Hold, HoldReason};

use super::PipelineView;
use crate::dashboard::{
    components::{screen_reader_text, timestamp},
    html::{Element, tag},
    icons,
};

/// The order in which gates are asked.
const ORDER: [&str; 8] = [
    "valid",
    "suspended",
    "targets",
    "turn",
    "readiness",
    "soak",
    "order",
    "approvals",
];

/// What is known about a gate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum GateMark {
    Passed,
    Waits,
    Failed,
    /// A gate before it is closed.
    Later,
    /// Nothing is on its way.
    Idle,
}

impl GateMark {
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Passed | Self::Idle)
    }

    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Waits => "waits",
            Self::Failed => "closed",
            Self::Later => "later",
            Self::Idle => "idle",
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Waits => "waits",
            Self::Failed => "failed",
            Self::Later => "not asked yet",
            Self::Idle => "nothing to do",
        }
    }
}

/// A gate of an environment.
pub(super) struct GateNode {
    pub(super) gate: &'static str,
    pub(super) mark: GateMark,
    pub(super) label: String,
    pub(super) sentence: String,
    pub(super) opens_at: Option<planner::Timestamp>,
}

impl PipelineView<'_> {
    /// The gates that are drawn before an environment; none before the first, which is changed outside
    /// of Sluice.
    pub(super) fn gate_nodes(&self, environment: &Environment, index: usize) -> Vec<GateNode> {
        if index == 0 && self.pipeline.spec.source.is_none() {
            return Vec::new();
        }
        let Some(settings) = self.pipeline.spec.promotion_into(&environment.name) else {
            return Vec::new();
        };
        let hold = self.plan.environments.get(&environment.name);
        let hold = hold.and_then(|it| it.hold.as_ref());
        let closed = hold.map(|hold| hold.reason.gate());
        let is_drawn = |gate: &str| match gate {
            "readiness" => true,
            "soak" => settings.soak.is_some() || closed == Some(gate),
            "approvals" => settings.needs_approval() || closed == Some(gate),
            _ => closed == Some(gate),
        };
        let drawn = ORDER.into_iter().filter(|gate| is_drawn(gate));
        drawn
            .map(|gate| self.gate_node(environment, gate, hold))
            .collect()
    }

    fn gate_node(
        &self,
        environment: &Environment,
        gate: &'static str,
        hold: Option<&Hold>,
    ) -> GateNode {
        let place = |name: &str| ORDER.iter().position(|it| *it == name);
        let is_coming = self.current_promotion(&environment.name).is_some();
        let closed = hold.map(|hold| hold.reason.gate());
        let is_failed = hold.is_some_and(|hold| hold.reason == HoldReason::PromotionFailed);
        let mark = match closed {
            Some(closed) if closed == gate && is_failed => GateMark::Failed,
            Some(closed) if closed == gate => GateMark::Waits,
            Some(closed) if place(gate) < place(closed) => GateMark::Passed,
            Some(_) => GateMark::Later,
            None if is_coming => GateMark::Passed,
            None => GateMark::Idle,
        };
        let hold = hold.filter(|hold| hold.reason.gate() == gate);
        GateNode {
            gate,
            mark,
            label: label(gate).to_owned(),
            sentence: hold.map_or(label(gate).to_owned(), Hold::message),
            opens_at: hold.and_then(|hold| hold.opens_at),
        }
    }

    /// The gates into an environment with each verdict.
    pub(super) fn gate_list(&self, environment: &Environment, index: usize) -> Option<Element> {
        let nodes = self.gate_nodes(environment, index);
        if nodes.is_empty() {
            return None;
        }
        let lines = nodes.iter().map(|node| {
            let opens_at = node.opens_at.map(|at| {
                let at = timestamp(&api::Time(at));
                tag("small").text("opens ").child(at)
            });
            let sentence = (node.sentence != node.label).then(|| tag("small").text(&node.sentence));
            tag("li")
                .class(format_args!("gate {}", node.mark.class()))
                .child(tag("span").class("sign").child(icons::gate(node.gate)))
                .child(
                    tag("span")
                        .class("what")
                        .text(&node.label)
                        .child(sentence)
                        .child(opens_at),
                )
                .child(screen_reader_text(": "))
                .child(tag("span").class("verdict").text(node.mark.word()))
        });
        Some(tag("ol").class("gates").children(lines))
    }
}

/// What a gate asks for, in few words.
fn label(gate: &str) -> &'static str {
    match gate {
        "valid" => "valid pipeline",
        "suspended" => "not suspended",
        "targets" => "targets known",
        "turn" => "its turn",
        "readiness" => "source ready",
        "soak" => "soak time",
        "order" => "newer and good",
        _ => "approval",
    }
}
