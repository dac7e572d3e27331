//! Gate `freeze`: no Freeze that covers the site is closed.
//!
//! It is asked of the existing promotion, so that people can read and approve it during a freeze, and
//! again before each external step. What is merged is followed. A rollback to a revision that ran here
//! passes the Freezes that allow it, whatever a request calls itself. A person passes others by an
//! override that names them.

use api::{
    Pipeline, Promotion,
    freeze::AllowedPromotion,
    names::stop_name,
    pipeline::{CoveringFreeze, PipelineStatus},
};

use super::{Gate, GateStage, GateVerdict, PromotionQuestion};
use crate::{
    attempt::freeze_hold,
    freeze,
    hold::{Hold, HoldReason, list},
    overrides,
    promotion_phase::{is_rollback, is_unmerged},
    site::{cluster_key, cluster_of_status},
    time::Timestamp,
    version_order,
};

pub(super) const GATE: Gate = Gate {
    name: "freeze",
    skipped: None,
    rollback_skips: false,
    stage: GateStage::Promotion,
    again: Some(ask_again),
};

pub(crate) fn ask_again(question: &PromotionQuestion<'_>) -> GateVerdict {
    if !is_unmerged(question.promotion) {
        return GateVerdict::Pass;
    }
    let (freezes, now) = (question.model.freezes.iter(), question.now);
    let covering = freezes.filter(|it| covers(it, question));
    let returns_to_earlier = returns_to_earlier(question);
    let allowed = AllowedPromotion::Rollback;
    let asked = covering.filter(|it| !(returns_to_earlier && it.times.allow.contains(&allowed)));
    let overriding = overrides::valid(question);
    let passes = |it: &&CoveringFreeze| overriding.is_some_and(|by| by.passes(&pass_name(it)));
    let (passed, asked): (Vec<_>, Vec<_>) = asked.partition(passes);
    let closed: Vec<_> = asked
        .iter()
        .copied()
        .filter(|it| freeze::is_closed(it, now))
        .collect();
    if !closed.is_empty() {
        return GateVerdict::Wait(hold(question, &closed, &asked));
    }
    let is_needed = passed.iter().any(|it| freeze::is_closed(it, now));
    match overriding.filter(|_| is_needed) {
        Some(overriding) => GateVerdict::Overridden(overriding.sentence()),
        None => GateVerdict::Pass,
    }
}

/// Whether a Freeze covers the site.
fn covers(freeze: &CoveringFreeze, question: &PromotionQuestion<'_>) -> bool {
    if !freeze.environments.contains(&question.environment.name) {
        return false;
    }
    let Some(clusters) = &freeze.clusters else {
        return true;
    };
    let namespace = question.pipeline.metadata.namespace.as_deref();
    let targets = question.site.targets.iter();
    let mut own = targets.filter_map(|target| cluster_of_status(target));
    own.any(|cluster| clusters.contains(&cluster_key(cluster, namespace.unwrap_or_default())))
}

/// Whether the promotion is a rollback, whatever its request says: to a revision that ran in the site, was not
/// rejected there, differs from what runs now and is no newer.
fn returns_to_earlier(question: &PromotionQuestion<'_>) -> bool {
    let (spec, site) = (&question.promotion.spec, question.site);
    let status = question.model.environments.get(&question.environment.name);
    let has_run =
        status.is_some_and(|status| status.ran.iter().any(|it| it.revision == spec.revision));
    let is_rejected = question.rejected.contains(&spec.revision);
    let leads_away = !site.runs(&spec.revision) || site.failed_at_another(&spec.revision);
    let shown = spec.shown_revision();
    let mut running = site.targets.iter().filter_map(|it| it.shown_revision());
    let is_newer = running.any(|running| version_order::is_older(&running, &shown));
    has_run && !is_rejected && leads_away && !is_newer
}

/// The name by which an override passes a Freeze.
pub(crate) fn pass_name(freeze: &CoveringFreeze) -> String {
    format!("freeze/{}", shown_name(freeze))
}

/// The name, with the namespace where that is not the pipeline's.
fn shown_name(freeze: &CoveringFreeze) -> String {
    match &freeze.namespace {
        Some(namespace) => format!("{namespace}/{}", freeze.name),
        None => freeze.name.clone(),
    }
}

fn hold(
    question: &PromotionQuestion<'_>,
    closed: &[&CoveringFreeze],
    asked: &[&CoveringFreeze],
) -> Hold {
    let revision = question.promotion.spec.shown_revision();
    if let Some((freeze, error)) = closed
        .iter()
        .find_map(|it| Some((it, it.invalid.as_ref()?)))
    {
        let name = shown_name(freeze);
        return Hold::new(
            HoldReason::InvalidFreeze,
            format!(
                "the Freeze {name} is not understood and counts as closed ({error}), {revision} waits"
            ),
            format!("correcting or deleting the Freeze {name}"),
        );
    }
    let removals: Vec<_> = closed
        .iter()
        .map(|it| removal(it, question.pipeline))
        .collect();
    let environment = &question.environment.name;
    let opens_at = freeze::opens_at(asked, question.now);
    let resolved_by = match opens_at {
        Some(opens_at) => format!("waiting until {opens_at:.0}"),
        None => list(&removals),
    };
    let sentence = format!(
        "{environment} is frozen by {}, {revision} waits",
        described(closed)
    );
    Hold {
        opens_at,
        ..Hold::new(HoldReason::Frozen, sentence, resolved_by)
    }
}

/// The Freezes with their reasons.
fn described(freezes: &[&CoveringFreeze]) -> String {
    let described = freezes.iter().map(|it| match it.reason.as_str() {
        "" => shown_name(it),
        reason => format!("{} ({reason})", shown_name(it)),
    });
    list(&described.collect::<Vec<_>>())
}

/// What ends a Freeze: the command, where `sluice freeze` created it.
fn removal(freeze: &CoveringFreeze, pipeline: &Pipeline) -> String {
    let namespace = freeze.namespace.as_ref();
    // Of another namespace, it can only be one of all pipelines.
    let own = pipeline.metadata.name.as_deref();
    let own = own.filter(|_| namespace.is_none());
    let own = own.map(|name| (Some(name), name, ""));
    let namespace = namespace.or(pipeline.metadata.namespace.as_ref());
    let in_namespace = namespace.map(|it| format!(" -n {it}"));
    let in_namespace = in_namespace.unwrap_or_default();
    for (scope, word, flag) in own.into_iter().chain([(None, "--all", "-e ")]) {
        let whole: &[String] = &[];
        for environments in [whole, &freeze.environments] {
            if freeze.name == stop_name(scope, environments) {
                let names = environments.iter().map(|it| format!(" {flag}{it}"));
                let names = names.collect::<String>();
                return format!("ending the Freeze (`sluice thaw {word}{names}{in_namespace}`)");
            }
        }
    }
    format!("deleting or editing the Freeze {}", shown_name(freeze))
}

/// By which of these Freezes environments of a pipeline are frozen now, and what ends that, as a clause; all
/// environments where none is named. Nothing where none of them is closed.
pub fn frozen_and_removal(
    pipeline: &Pipeline,
    freezes: &[CoveringFreeze],
    environments: &[String],
    now: Timestamp,
) -> Option<String> {
    let is_meant = |it: &&CoveringFreeze| {
        let mut covered = it.environments.iter();
        environments.is_empty() || covered.any(|it| environments.contains(it))
    };
    let closed = freezes.iter().filter(|it| freeze::is_closed(it, now));
    let closed: Vec<_> = closed.filter(is_meant).collect();
    let removals: Vec<_> = closed.iter().map(|it| removal(it, pipeline)).collect();
    let by = described(&closed);
    (!closed.is_empty()).then(|| format!("frozen by {by}, resolved by {}", list(&removals)))
}

/// That an environment is frozen now, whether or not something waits, and what that means:
/// `frozen by weekend until …: only rollbacks pass`.
pub fn frozen_now(model: &PipelineStatus, environment: &str, now: Timestamp) -> Option<String> {
    let allowed = AllowedPromotion::Rollback;
    let closed = closed_now(model, environment, now);
    let effect = match closed.iter().all(|it| it.times.allow.contains(&allowed)) {
        true => "only rollbacks pass",
        false => "nothing starts",
    };
    Some(format!("{}: {effect}", frozen_by(model, environment, now)?))
}

/// Why an environment is frozen now, in few words: the reasons of its closed Freezes, or the names of those without
/// one.
pub fn frozen_because(model: &PipelineStatus, environment: &str, now: Timestamp) -> Option<String> {
    let closed = closed_now(model, environment, now);
    let words = closed.iter().map(|it| match it.reason.as_str() {
        "" => shown_name(it),
        reason => reason.to_owned(),
    });
    (!closed.is_empty()).then(|| list(&words.collect::<Vec<_>>()))
}

/// What the closed Freezes of an environment mean for a promotion that has all its approvals; nothing where none
/// is closed.
pub fn frozen_promotion(
    promotion: &Promotion,
    pipeline: &Pipeline,
    now: Timestamp,
) -> Option<String> {
    let model = pipeline.status.as_ref()?;
    let environment = &promotion.spec.environment;
    let frozen = frozen_by(model, environment, now)?;
    let waits = freeze_hold(promotion, pipeline, model.freezes.clone(), now).is_some();
    let effect = match () {
        () if waits => "it waits for that to end",
        () if is_rollback(promotion) => "rollbacks pass",
        () => "this promotion passes",
    };
    Some(format!("{environment} is {frozen}: {effect}"))
}

/// By which Freezes an environment is frozen now: `frozen by weekend until …`.
fn frozen_by(model: &PipelineStatus, environment: &str, now: Timestamp) -> Option<String> {
    let closed = closed_now(model, environment, now);
    if closed.is_empty() {
        return None;
    }
    let covering: Vec<_> = covering(model, environment).collect();
    let until = freeze::opens_at(&covering, now).map(|at| format!(" until {at:.0}"));
    let until = until.unwrap_or_default();
    Some(format!("frozen by {}{until}", described(&closed)))
}

/// The closed Freezes of an environment.
fn closed_now<'a>(
    model: &'a PipelineStatus,
    environment: &str,
    now: Timestamp,
) -> Vec<&'a CoveringFreeze> {
    let covering = covering(model, environment);
    covering.filter(|it| freeze::is_closed(it, now)).collect()
}

fn covering<'a>(
    model: &'a PipelineStatus,
    environment: &str,
) -> impl Iterator<Item = &'a CoveringFreeze> {
    let freezes = model.freezes.iter();
    freezes.filter(move |it| it.environments.iter().any(|it| it == environment))
}
