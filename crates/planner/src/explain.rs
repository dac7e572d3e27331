//! A plan as text: what every environment runs, and why the next promotion waits.

use api::{
    Pipeline,
    pipeline::{Environment, PipelineStatus, PromotionSummary, RanRevision, TargetStatus},
};

use crate::{
    evidence::is_silent,
    gate::{GateAnswer, GateVerdict},
    hold::{HoldReason, closed_label, hold_label, list, waits_further},
    hook::{how_to_sign, unsigned_report},
    inputs,
    overview::preflight_text,
    plan::{EnvironmentPlan, Plan, Step},
    release::{failed_release, failed_revision, failure_message, running},
    rollout::summary_text,
    site::target_name,
    sources::{is_chain, sources},
    validity, version_order,
};

/// Up to how many targets are not counted in the text.
const FEW: usize = 5;
/// The verdicts of gates that do not simply pass, and what people read.
const VERDICTS: [(&str, &str); 5] = [
    ("wait", "waiting"),
    ("fail", "failed"),
    ("requested", "passed by request"),
    ("skipped", "skipped by request"),
    ("unknown", "not known yet"),
];

/// What a person reads about a pipeline. The plan is the one that is carried out.
pub fn explain(pipeline: &Pipeline, model: &PipelineStatus, plan: &Plan) -> String {
    let mut lines = Vec::new();
    if plan.ready.status != "True" {
        lines.push(format!("{}: {}", plan.ready.reason, plan.ready.message));
    }
    if pipeline.spec.suspend {
        lines.push("the pipeline is suspended: nothing starts".to_owned());
    }
    for environment in &pipeline.spec.environments {
        lines.push(environment_text(pipeline, environment, model, plan));
    }
    lines.extend(plan.warnings.iter().cloned());
    lines.join("\n")
}

/// What a person reads about one environment of a pipeline.
pub fn explain_environment(
    pipeline: &Pipeline,
    name: &str,
    model: &PipelineStatus,
    plan: &Plan,
) -> Option<String> {
    let mut environments = pipeline.spec.environments.iter();
    let environment = environments.find(|it| it.name == name)?;
    Some(environment_text(pipeline, environment, model, plan))
}

fn environment_text(
    pipeline: &Pipeline,
    environment: &Environment,
    model: &PipelineStatus,
    plan: &Plan,
) -> String {
    let name = environment.name.as_str();
    let status = model.environments.get(name);
    let targets = status.map(|status| status.targets.as_slice());
    let targets = targets.unwrap_or_default();
    let reported = status.and_then(|status| status.reported.as_ref());
    let runs = match reported.filter(|_| targets.iter().all(is_silent)) {
        Some(reported) => format!("runs {}, as reported", reported.revision),
        None => running_text(targets),
    };
    let mut lines = vec![format!("{name}: {runs}")];
    lines.extend(sources_line(pipeline, name));
    let published = status.map(inputs::published_revisions).unwrap_or_default();
    if !published.is_empty() {
        lines.push(format!("  clusters that ask get {}", list(&published)));
    }
    if let Some(report) = unsigned_report(pipeline, model, name) {
        let how = how_to_sign(pipeline, name);
        let revision = &report.revision;
        lines.push(format!(
            "  {revision} was reported without a signature and does not count; use {how}"
        ));
    }
    if let Some(says) = plan.environments.get(name) {
        lines.extend(plan_lines(pipeline, environment, (says, model), plan));
    }
    let told = lines.join("\n");
    let preflight = preflight_text(model, name, &told);
    let preflight = preflight.map(|text| format!("\n  {text}"));
    told + &preflight.unwrap_or_default()
}

/// Which environments it comes after, where the list does not say so.
fn sources_line(pipeline: &Pipeline, name: &str) -> Option<String> {
    if is_chain(&pipeline.spec) {
        return None;
    }
    let sources = sources(&pipeline.spec, name);
    let names: Vec<_> = sources.iter().map(|it| it.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("  comes after {}", list(&names)))
}

/// What the targets of an environment run, and which are not ready.
fn running_text(targets: &[TargetStatus]) -> String {
    if targets.is_empty() {
        return "no targets".to_owned();
    }
    if targets.iter().all(is_silent) {
        return "nothing has reported from it".to_owned();
    }
    // Where the only release failed, nothing runs, and the failure is in the list of unready targets.
    let is_in_unready_list =
        |target: &TargetStatus| target.revision.is_none() && failed_revision(target).is_some();
    let running: Vec<_> = targets
        .iter()
        .filter(|it| !is_in_unready_list(it))
        .collect();
    let unready: Vec<_> = targets.iter().filter(|target| !target.ready).collect();
    let unready: Vec<_> = unready.into_iter().map(why_unready).collect();
    let runs = (!running.is_empty()).then(|| format!("runs {}", list(&revisions(&running))));
    match (runs, unready.is_empty()) {
        (Some(runs), true) => format!("{runs}, ready"),
        (Some(runs), false) => format!("{runs}; not ready: {}", list(&unready)),
        (None, _) => format!("not ready: {}", list(&unready)),
    }
}

/// The revisions that targets run, with how many do where they differ and are many.
fn revisions(targets: &[&TargetStatus]) -> Vec<String> {
    let mut all: Vec<_> = targets
        .iter()
        .map(|target| running(target).unwrap_or_else(|| "nothing yet".to_owned()))
        .collect();
    all.sort_by(|one, other| version_order::total(one, other));
    let groups: Vec<_> = all.chunk_by(|one, other| one == other).collect();
    let are_counted = groups.len() > 1 && targets.len() > FEW;
    let shown = groups.into_iter().map(|group| match are_counted {
        true => format!("{} on {}", group[0], group.len()),
        false => group[0].to_owned(),
    });
    shown.collect()
}

fn why_unready(target: &TargetStatus) -> String {
    let name = target_name(target);
    match (&target.error, failed_release(target)) {
        (Some(error), _) => format!("{name} ({error})"),
        (None, Some(failed)) => format!("{name} ({failed})"),
        (None, None) => match failure_message(target) {
            Some(message) => format!("{name} ({message})"),
            None => name,
        },
    }
}

fn plan_lines(
    pipeline: &Pipeline,
    environment: &Environment,
    (says, model): (&EnvironmentPlan, &PipelineStatus),
    plan: &Plan,
) -> Vec<String> {
    let name = environment.name.as_str();
    let status = model.environments.get(name);
    let targets = status.map(|status| status.targets.as_slice());
    let mut lines = Vec::new();
    if environment.suspend {
        lines.push(format!("  {name} is suspended: nothing starts"));
    }
    let mut closed = says
        .gates
        .iter()
        .filter_map(GateAnswer::hold)
        .chain(&says.hold);
    let is_told = closed.any(|it| it.reason == HoldReason::Frozen);
    let frozen = says.frozen.iter().filter(|_| !is_told);
    lines.extend(frozen.map(|frozen| format!("  {name} is {frozen}")));
    lines.extend(starts(plan, name));
    let waits = says
        .hold
        .as_ref()
        .map(|hold| format!("{} [{}]", hold.message(), hold.reason.word()));
    // A promotion that waits for a gate says the same as the gate.
    let is_said = |line: &String| line.strip_prefix("because: ") == waits.as_deref();
    let promotion = says.promotion.iter();
    let promotion = promotion.flat_map(|it| promotion_lines(model, it));
    let promotion = promotion.filter(|line| waits.is_none() || !is_said(line));
    lines.extend(promotion.map(|line| format!("  {line}")));
    let rollout = says.rollout.as_ref().and_then(summary_text);
    lines.extend(rollout.map(|line| format!("  {line}")));
    let label = says.hold.as_ref().map(|it| hold_label(it.reason.word()));
    let waits = label.zip(waits);
    lines.extend(waits.map(|(label, waits)| format!("  {label}: {waits}")));
    lines.extend(
        gate_lines(says, targets.unwrap_or_default())
            .into_iter()
            .map(|line| format!("  {line}")),
    );
    if pipeline.spec.promotion_into(name).is_none() {
        lines.push("  nothing is promoted into it".to_owned());
    }
    lines
}

/// What a person reads about the gates in front of an environment: how many pass, the names of the others, and
/// why those keep the revision out that the hold does not tell of. Names of gates that pass are left out: some,
/// such as `suspended`, would read as a state.
fn gate_lines(says: &EnvironmentPlan, targets: &[TargetStatus]) -> Vec<String> {
    if says.gates.is_empty() {
        return Vec::new();
    }
    let named = |word: &str| -> Vec<String> {
        let gates = says.gates.iter().filter(|it| it.verdict.word() == word);
        gates.map(named_gate).collect()
    };
    let passed = named(GateVerdict::Pass.word());
    let mut groups = vec![match passed.len() == says.gates.len() {
        true => "all pass".to_owned(),
        false => format!("{} of {} pass", passed.len(), says.gates.len()),
    }];
    for (word, text) in VERDICTS {
        let names = named(word);
        groups.extend((!names.is_empty()).then(|| format!("{text}: {}", names.join(", "))));
    }
    let groups = groups.join("; ");
    // Where the environment runs it already, the gates are about whatever comes next.
    let runs = |target: &TargetStatus, next: &str| running(target).as_deref() == Some(next);
    let is_everywhere = |next: &str| !targets.is_empty() && targets.iter().all(|it| runs(it, next));
    let revision = says.next.as_deref().filter(|next| !is_everywhere(next));
    let revision = revision.map(|next| format!(" for {next}"));
    let mut lines = vec![format!("gates{}: {groups}", revision.unwrap_or_default())];
    let further = says.gates.iter().filter_map(GateAnswer::hold);
    let further = further.filter(|hold| Some(*hold) != says.hold.as_ref());
    let held = says.hold.as_ref().map(|it| it.reason.word());
    let further = further.filter(|_| held.is_none_or(waits_further));
    lines.extend(
        further.map(|hold| format!("also waits: {} [{}]", hold.message(), hold.reason.word())),
    );
    lines
}

/// A gate, with what its request skips, or how it fails.
fn named_gate(answer: &GateAnswer) -> String {
    let because = match &answer.verdict {
        GateVerdict::Skipped(skipped) => Some(skipped.hold.sentence.as_str()),
        GateVerdict::Fail(hold) => closed_label(hold.reason),
        _ => None,
    };
    let because = because.map(|it| format!(" ({it})"));
    format!("{}{}", answer.gate, because.unwrap_or_default())
}

/// What a person reads about a promotion: its phase, what to know before it is approved, its problem, and what
/// resolves that.
pub fn promotion_lines(model: &PipelineStatus, promotion: &PromotionSummary) -> Vec<String> {
    let Some(phase) = promotion.phase else {
        return Vec::new();
    };
    let url = promotion.url.as_deref().map(|url| format!(" {url}"));
    let url = url.unwrap_or_default();
    let shown = known_version(model, &promotion.revision);
    let shown = shown.unwrap_or_else(|| promotion.revision.clone());
    let mut lines = vec![format!("promotion of {shown}: {phase:?}{url}")];
    lines.extend(
        promotion
            .caution
            .as_ref()
            .map(|it| format!("caution: {it}")),
    );
    if let (Some(reason), Some(message)) = (&promotion.reason, &promotion.message) {
        lines.push(format!("because: {message} [{reason}]"));
    }
    lines
}

/// A revision with its version, as an environment ran it or runs it.
fn known_version(model: &PipelineStatus, revision: &str) -> Option<String> {
    let statuses = || model.environments.values();
    let mut targets = statuses().flat_map(|it| &it.targets);
    let runs = targets.find(|it| it.revision.as_deref() == Some(revision));
    let mut ran = statuses().flat_map(|it| &it.ran);
    let ran = ran.find(|it| it.revision == revision);
    let runs = runs.and_then(TargetStatus::shown_revision);
    runs.or_else(|| ran.map(RanRevision::shown_revision))
}

/// The promotions that start in an environment; those into many targets on one line.
fn starts(plan: &Plan, environment: &str) -> Vec<String> {
    let steps = plan.steps.iter();
    let lines: Vec<_> = steps.filter_map(|step| start(step, environment)).collect();
    let same = lines.chunk_by(|one, other| one == other);
    same.map(|same| match same.len() {
        1 => same[0].clone(),
        count => format!("{}, into {count} targets", same[0]),
    })
    .collect()
}

fn start(step: &Step, environment: &str) -> Option<String> {
    let Step::StartPromotion(promotion) = step else {
        return None;
    };
    let spec = &promotion.spec;
    let strategy = validity::strategies(&spec.strategy).join(", ");
    (spec.environment == environment)
        .then(|| format!("  next: {} by {strategy}", spec.shown_revision()))
}
