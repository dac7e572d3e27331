//! The gates into an environment: as signs in the picture, and as a list with each answer.
//!
//! Which gates there are and what they answer comes from `planner`.

mod mark;

use std::collections::BTreeMap;

use api::{
    Promotion,
    pipeline::{Environment, PromotionSettings},
};
use planner::{GateAnswer, GateVerdict};

use super::PipelineView;
use crate::dashboard::{
    components::{counted, screen_reader_text, sentence, timestamp},
    html::{Element, tag},
    icons,
};
use mark::GateMark;

/// A gate of an environment.
pub(super) struct GateNode {
    pub(super) gate: &'static str,
    pub(super) mark: GateMark,
    pub(super) label: String,
    /// The label between two environments, where there is little space.
    pub(super) short_label: String,
    /// Its state, in few words.
    pub(super) state: String,
    /// What the gate says, if it is more than the label.
    pub(super) sentence: Option<String>,
    pub(super) opens_at: Option<planner::Timestamp>,
    /// Whether it is drawn: it is part of the settings, or it is closed.
    is_drawn: bool,
}

/// What is needed to name the gates of an environment.
struct GateLabels<'a> {
    settings: &'a PromotionSettings,
    /// The names of the source environments.
    source: Option<String>,
    /// Whether a source has checks.
    is_verified: bool,
    /// Whether a Freeze covers the environment, open or closed.
    is_covered: bool,
    /// How many approvals were given, if a promotion asks for them, and how many are needed.
    approvals: (Option<usize>, usize),
}

impl PipelineView<'_> {
    /// The gates that are drawn before an environment; none where it is changed outside of Sluice.
    pub(super) fn drawn_gates(&self, environment: &Environment) -> Vec<GateNode> {
        let mut gates = self.gates(environment);
        gates.retain(|gate| gate.is_drawn);
        gates
    }

    fn is_covered_by_freeze(&self, environment: &str) -> bool {
        let status = self.pipeline.status.as_ref();
        let mut freezes = status.into_iter().flat_map(|it| &it.freezes);
        freezes.any(|it| it.environments.iter().any(|name| name == environment))
    }

    fn gates(&self, environment: &Environment) -> Vec<GateNode> {
        let name = environment.name.as_str();
        if planner::receives_nothing(&self.pipeline.spec, name) {
            return Vec::new();
        }
        let Some(settings) = self.pipeline.spec.promotion_into(name) else {
            return Vec::new();
        };
        let promotion = self.current_promotion(name);
        let state = promotion
            .and_then(|it| planner::approval_state(it, Some(&self.pipeline), self.drawn_at));
        let given = state.as_ref().map(|it| it.approved_by.len());
        let policy = settings.approval_policy.as_ref();
        let needed = policy.map_or(1, |it| usize::try_from(it.count).unwrap_or(1));
        let needed = state.map_or(needed, |it| it.needed);
        let sources = planner::sources(&self.pipeline.spec, name);
        let labels = GateLabels {
            settings,
            source: (!sources.is_empty()).then(|| self.source_names(environment)),
            is_verified: sources.iter().any(|it| it.verify.is_some()),
            approvals: (given, needed),
            is_covered: self.is_covered_by_freeze(name),
        };
        let plan = self.plan.environments.get(name);
        let answers = plan.map(|it| it.gates.as_slice()).unwrap_or_default();
        let mut gates = match (answers, promotion) {
            ([], Some(promotion)) => labels.behind(&self.skipped_gates(promotion)),
            ([], None) => labels.settled(GateMark::Idle),
            (answers, _) => answers.iter().map(|it| labels.node(it)).collect(),
        };
        // Where nothing is promoted, no gate was asked about the Freeze.
        let frozen = plan.and_then(|it| it.frozen.as_ref());
        if let Some(frozen) = frozen.filter(|_| promotion.is_none()) {
            close_for_freeze(&mut gates, format!("{name} is {frozen}"));
        }
        end_behind_order(&mut gates);
        gates
    }

    /// The gates that the request of a promotion skips.
    fn skipped_gates(&self, promotion: &Promotion) -> Vec<GateAnswer> {
        planner::skipped_gates(promotion, &self.pipeline, &self.promotions, self.drawn_at)
    }

    /// The gates into an environment with each answer.
    pub(super) fn gate_list(&self, environment: &Environment, index: usize) -> Option<Element> {
        let gates = self.gates(environment);
        if gates.is_empty() {
            return None;
        }
        let (drawn, others): (Vec<_>, Vec<_>) = gates.iter().partition(|gate| gate.is_drawn);
        let others = (!others.is_empty()).then(|| {
            let text = counted_states(&others);
            let list = tag("ol")
                .class("gates")
                .children(others.into_iter().map(line));
            tag("details")
                .id(format_args!("gates-{index}"))
                .class("more")
                .child(tag("summary").text(text))
                .child(list)
        });
        let list = tag("ol")
            .class("gates")
            .children(drawn.into_iter().map(line));
        Some(tag("div").child(list).child(others))
    }
}

/// `3 other gates passed, 2 not required, 1 not asked yet`.
fn counted_states(gates: &[&GateNode]) -> String {
    let mut others: BTreeMap<&str, usize> = BTreeMap::new();
    for gate in gates.iter().filter(|it| it.mark != GateMark::Passed) {
        *others.entry(gate.mark.word()).or_default() += 1;
    }
    let passed = gates.len() - others.values().sum::<usize>();
    let mut text = format!("{} passed", counted(passed, "other gate"));
    for (word, count) in others.iter().rev() {
        text += &format!(", {count} {word}");
    }
    text
}

impl GateLabels<'_> {
    /// The gates of a promotion whose change is in git: they passed, unless its request skipped them.
    fn behind(&self, skipped: &[GateAnswer]) -> Vec<GateNode> {
        let mut gates = self.settled(GateMark::Passed);
        for node in skipped.iter().map(|it| self.node(it)) {
            match gates.iter().position(|it| it.gate == node.gate) {
                Some(at) => gates[at] = node,
                None if node.is_drawn => gates.push(node),
                None => {}
            }
        }
        gates
    }

    /// The gates of the settings, all with the same mark.
    fn settled(&self, mark: GateMark) -> Vec<GateNode> {
        let gates = [
            "readiness",
            "verified",
            "soak",
            "signature",
            "checks",
            "approvals",
        ];
        let gates = gates.into_iter();
        let gates = gates.filter(|gate| self.is_set(gate));
        let node = |gate| GateNode {
            gate,
            mark,
            label: self.label(gate),
            short_label: self.short_label(gate),
            state: mark.word().to_owned(),
            sentence: None,
            opens_at: None,
            is_drawn: true,
        };
        gates.map(node).collect()
    }

    fn node(&self, answer: &GateAnswer) -> GateNode {
        let mark = match GateMark::of(&answer.verdict) {
            // Without the setting the gate has verified nothing.
            GateMark::Passed | GateMark::ByRequest if !self.is_required(answer.gate) => {
                GateMark::NotRequired
            }
            mark => mark,
        };
        let (sentence, opens_at) = match &answer.verdict {
            GateVerdict::PassByRequest(text) | GateVerdict::Overridden(text) => {
                (Some(text.clone()), None)
            }
            GateVerdict::Skipped(skipped) => (Some(skipped.hold.sentence.clone()), None),
            // What resolves it is said beside the list.
            GateVerdict::Wait(hold) | GateVerdict::Fail(hold) => {
                (Some(hold.sentence.clone()), hold.opens_at)
            }
            GateVerdict::Pass | GateVerdict::NotAsked => (None, None),
        };
        let state = answer.skipped().map(planner::SkippedGate::state);
        let closed = answer
            .hold()
            .and_then(|hold| planner::closed_label(hold.reason));
        let closed = closed.map(str::to_owned);
        GateNode {
            gate: answer.gate,
            mark,
            label: closed.clone().unwrap_or_else(|| self.label(answer.gate)),
            short_label: closed.unwrap_or_else(|| self.short_label(answer.gate)),
            state: state.unwrap_or_else(|| mark.word().to_owned()),
            sentence,
            opens_at,
            is_drawn: self.is_set(answer.gate) || mark.is_closed() || mark.is_skipped(),
        }
    }

    /// Whether every promotion is asked, or the settings say so.
    fn is_required(&self, gate: &str) -> bool {
        match gate {
            "verified" | "soak" | "signature" | "checks" | "approvals" => self.is_set(gate),
            "rollout" => self.settings.rollout.is_some(),
            _ => true,
        }
    }

    /// Whether the settings ask for a gate beyond what every promotion has.
    fn is_set(&self, gate: &str) -> bool {
        match gate {
            "readiness" => true,
            "verified" => self.is_verified,
            "soak" => self.settings.soak.is_some(),
            "signature" => self.settings.require_verified_source,
            "checks" => !self.settings.checks.is_empty(),
            "approvals" => self.settings.needs_approval(),
            "freeze" => self.is_covered,
            _ => false,
        }
    }

    /// What a gate asks for, without what its place in the picture says.
    fn short_label(&self, gate: &str) -> String {
        match gate {
            "readiness" => "readiness".to_owned(),
            "verified" => "checks".to_owned(),
            "signature" => "signature".to_owned(),
            _ => self.label(gate),
        }
    }

    /// What a gate asks for, in few words. They name it, and do not read as its state.
    fn label(&self, gate: &str) -> String {
        let text = match gate {
            "valid" => "valid pipeline",
            "suspended" => "no suspension",
            "targets" => "known targets",
            "turn" => "its turn",
            "readiness" => match &self.source {
                Some(source) => return format!("readiness of {source}"),
                None => "readiness of the source",
            },
            "verified" => match &self.source {
                Some(source) => return format!("checks of {source}"),
                None => "checks of the source",
            },
            "checks" => "checks",
            "soak" => match &self.settings.soak {
                Some(soak) => return format!("soak {soak}"),
                None => "soak time",
            },
            "order" => "order of versions",
            "signature" => "signature of the source",
            "freeze" => "no freeze",
            "approvals" => match self.approvals {
                (_, 1) => "approval",
                (None, needed) => return format!("{needed} approvals"),
                (Some(given), needed) => return format!("{given} of {needed} approvals"),
            },
            other => other,
        };
        text.to_owned()
    }
}

/// A revision that is rejected or older does not wait for the gates behind.
fn end_behind_order(gates: &mut [GateNode]) {
    let is_end = |it: &GateNode| matches!(it.mark, GateMark::Failed | GateMark::Closed);
    let order = gates.iter().position(|it| it.gate == "order" && is_end(it));
    let Some(order) = order else { return };
    for gate in &mut gates[order + 1..] {
        if gate.mark == GateMark::Waits && gate.gate != "freeze" {
            gate.mark = GateMark::NotAsked;
            gate.state = gate.mark.word().to_owned();
            gate.sentence = None;
            gate.opens_at = None;
        }
    }
}

/// Shows that an environment is frozen although nothing asks to enter it.
fn close_for_freeze(gates: &mut Vec<GateNode>, sentence: String) {
    let at = gates.iter().position(|it| it.gate == "freeze");
    if at.is_some_and(|at| gates[at].mark.is_closed()) {
        return;
    }
    let frozen = GateNode {
        gate: "freeze",
        mark: GateMark::Closed,
        label: "frozen".to_owned(),
        short_label: "frozen".to_owned(),
        state: GateMark::Closed.word().to_owned(),
        sentence: Some(sentence),
        opens_at: None,
        is_drawn: true,
    };
    match at {
        Some(at) => gates[at] = frozen,
        None => {
            let behind = ["checks", "rollout", "approvals"];
            let at = gates.iter().position(|it| behind.contains(&it.gate));
            gates.insert(at.unwrap_or(gates.len()), frozen);
        }
    }
}

impl GateNode {
    pub(super) fn class(&self) -> String {
        format!("gate {} gate-{}", self.mark.class(), self.gate)
    }

    pub(super) fn drawing(&self) -> Element {
        match self.mark {
            GateMark::Failed | GateMark::FailureSkipped => icons::failed(),
            GateMark::Waits => icons::waiting_gate(self.gate),
            _ => icons::gate(self.gate),
        }
    }
}

fn line(gate: &GateNode) -> Element {
    let opens_at = gate.opens_at.map(|at| {
        let at = timestamp(&api::Time(at));
        tag("small").text("opens ").child(at)
    });
    let text = gate.sentence.as_ref();
    let text = text.map(|it| tag("small").child(sentence(&planner::shortened(it))));
    let what = tag("span").class("what").text(&gate.label);
    let is_frozen = gate.gate == "freeze" && gate.mark.is_closed();
    let freezes = is_frozen.then(|| {
        let link = tag("a").link("/freezes").text("All freezes");
        tag("small").child(link)
    });
    tag("li")
        .class(gate.class())
        .child(tag("span").class("sign").child(gate.drawing()))
        .child(what.child(text).child(opens_at).child(freezes))
        .child(screen_reader_text(": "))
        .child(tag("span").class("verdict").text(&gate.state))
}
