//! Reads an event: whether it is about this pipeline, what to store and how to answer.

use std::{collections::BTreeMap, time::Duration};

use api::{
    Pipeline,
    pipeline::{AppReference, Environment, Report, SourceKind},
    revision::is_usable,
};
use serde::Deserialize;

use super::{
    answer::{HookAnswer, HookDecision, HookRefusal},
    attribution,
    result::AwaitedPromotion,
    secret::report_secret,
    unsigned::{self, SignatureTrust},
};
use crate::{
    conditions::cut,
    fold::{ReportMeaning, proposed_revision_and_version, revision_and_version},
    site::{RELEASE_REPORT, is_report_of},
    sources::{followers, takes_proposals},
    time::{Timestamp, later, stored},
    validity,
};

/// The longest message, in bytes. Reports of a thousand targets must fit into an object.
const LONGEST_MESSAGE: usize = 256;
/// How far an event's clock may be ahead of ours. An event from the far future would outlast all others.
const SKEW: Duration = Duration::from_secs(300);

/// An event of Flux as notification-controller sends it; of its fields those that matter here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FluxEvent {
    /// What it is about.
    pub involved_object: Option<InvolvedObject>,
    /// `info`, `error` or `trace`.
    pub severity: Option<String>,
    /// When it happened.
    pub timestamp: Option<Timestamp>,
    /// What happened, for people.
    pub message: Option<String>,
    /// What happened, in a word.
    pub reason: Option<String>,
    /// The revision, and what the Alert adds.
    pub metadata: Option<BTreeMap<String, String>>,
}

/// The object an event is about.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InvolvedObject {
    /// Its API group and version.
    pub api_version: Option<String>,
    /// Its kind.
    pub kind: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its uid.
    pub uid: Option<String>,
}

/// Evaluates an event that claims to come from an environment.
pub fn evaluate_event(
    pipeline: &Pipeline,
    environment: &str,
    event: &FluxEvent,
    trust: SignatureTrust,
    now: Timestamp,
) -> HookDecision {
    let is_signed = trust == SignatureTrust::Signed;
    let revision = match revision(event) {
        Ok(revision) => revision,
        Err(refusal) => return refuse(refusal),
    };
    let mut environments = pipeline.spec.environments.iter();
    let Some(reporting) = environments.find(|it| it.name == environment) else {
        return refuse(HookRefusal::unknown(pipeline, environment));
    };
    let answer = answer(pipeline, reporting, &revision);
    let Some(key) = about(pipeline, reporting, event, is_signed) else {
        return match answer {
            HookAnswer::NothingNext(refusal) => refuse(refusal),
            _ => refuse(HookRefusal::OtherObject),
        };
    };
    let report = report(event, revision, is_signed, now);
    let counts = ReportMeaning::of(&report) == ReportMeaning::Deployed;
    let novelty = match is_outranked(pipeline, environment, &key, is_signed) {
        true => ReportNovelty::Outdated,
        false => novelty(pipeline, &key, &report),
    };
    let leads_nowhere = matches!(
        answer,
        HookAnswer::NothingNext(_) | HookAnswer::CannotPromote
    );
    let model = pipeline.status.clone().unwrap_or_default();
    let is_ignored = trust == SignatureTrust::UnsignedIgnored
        && unsigned::would_count(pipeline, &model, environment, &key);
    HookDecision {
        answer: match leads_nowhere || counts && novelty != ReportNovelty::Outdated {
            _ if is_ignored => HookAnswer::NotSigned(unsigned::how_to_sign(pipeline, environment)),
            true => answer,
            false => HookAnswer::Noted,
        },
        report: (novelty == ReportNovelty::New).then_some((key, report)),
    }
}

/// Evaluates a revision that CI proposes. `at` is when it was proposed, by the caller's clock.
pub fn evaluate_release(pipeline: &Pipeline, revision: &str, at: Timestamp) -> HookDecision {
    let source = pipeline.spec.source.as_ref();
    if source.is_none_or(|source| source.kind != SourceKind::Hook) {
        return refuse(HookRefusal::NoHook);
    }
    if !is_usable(revision) {
        return refuse(HookRefusal::BadRevision);
    }
    let mut environments = pipeline.spec.environments.iter();
    let first = environments.find(|it| takes_proposals(&pipeline.spec, &it.name));
    let report = Report {
        revision: revision.to_owned(),
        at: Some(stored(at)),
        signed: true,
        ..Report::default()
    };
    let novelty = novelty(pipeline, RELEASE_REPORT, &report);
    HookDecision {
        answer: match first {
            _ if novelty == ReportNovelty::Outdated => HookAnswer::Noted,
            None => HookAnswer::CannotPromote,
            Some(first) => {
                let (revision, _) = proposed_revision_and_version(&pipeline.spec, revision);
                promote_into(pipeline, None, &first.name, revision)
            }
        },
        report: (novelty == ReportNovelty::New).then(|| (RELEASE_REPORT.to_owned(), report)),
    }
}

fn refuse(refusal: HookRefusal) -> HookDecision {
    HookDecision {
        report: None,
        answer: HookAnswer::Refuse(refusal),
    }
}

fn revision(event: &FluxEvent) -> Result<String, HookRefusal> {
    let metadata = event.metadata.as_ref();
    let named = metadata.and_then(|metadata| metadata.get("revision"));
    match named.filter(|text| !text.is_empty()) {
        None => Err(HookRefusal::NoRevision),
        Some(text) if is_usable(text) => Ok(text.clone()),
        Some(_) => Err(HookRefusal::BadRevision),
    }
}

/// The answer to an event that is about the right object.
fn answer(pipeline: &Pipeline, environment: &Environment, revision: &str) -> HookAnswer {
    let followers = followers(&pipeline.spec, &environment.name);
    let Some(next) = followers.first() else {
        return HookAnswer::NothingNext(HookRefusal::LastEnvironment(environment.name.clone()));
    };
    let with_targets = followers.iter().filter(|it| !it.targets.is_empty());
    let (revision, _) = revision_and_version(&pipeline.spec, revision);
    let mut answers = with_targets
        .map(|it| promote_into(pipeline, Some(environment), &it.name, revision.clone()))
        .peekable();
    if answers.peek().is_none() {
        return HookAnswer::NothingNext(HookRefusal::NoTargets(next.name.clone()));
    }
    // Of several, the first that promotions lead into.
    let awaited = answers.find(|it| matches!(it, HookAnswer::Await(_)));
    awaited.unwrap_or(HookAnswer::CannotPromote)
}

fn promote_into(
    pipeline: &Pipeline,
    source: Option<&Environment>,
    environment: &str,
    revision: String,
) -> HookAnswer {
    let settings = pipeline.spec.promotion_into(environment);
    let is_able =
        settings.is_some_and(|settings| !validity::strategies(&settings.strategy).is_empty());
    if !is_able {
        return HookAnswer::CannotPromote;
    }
    HookAnswer::Await(AwaitedPromotion {
        source: source.map(|source| source.name.clone()),
        environment: environment.to_owned(),
        revision,
    })
}

/// The key for what the event is about; nothing where that is not the app of this environment.
fn about(
    pipeline: &Pipeline,
    environment: &Environment,
    event: &FluxEvent,
    is_signed: bool,
) -> Option<String> {
    let object = event.involved_object.as_ref()?;
    let app = pipeline.spec.app_ref.as_ref()?;
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let mut targets = environment.targets.iter();
    let is_ours = is_same_app(app, object) && targets.any(|it| it.namespace == namespace);
    let uid = object.uid.as_deref().unwrap_or_default();
    if !is_ours || lives_elsewhere(pipeline, &environment.name, uid, is_signed) {
        return None;
    }
    let cluster = event.metadata.as_ref().and_then(|it| it.get("cluster"));
    let cluster = cluster.map(String::as_str);
    Some(attribution::report_key(
        pipeline,
        environment,
        namespace,
        cluster,
    ))
}

/// The API version does not matter: Flux raises it from time to time.
fn is_same_app(app: &AppReference, object: &InvolvedObject) -> bool {
    let group = |version: &str| version.rsplit_once('/').map(|(group, _)| group.to_owned());
    let api_version = object.api_version.as_deref().unwrap_or_default();
    let is_same_group = match (group(&app.api_version), group(api_version)) {
        (None, None) => app.api_version == api_version,
        (one, other) => one == other,
    };
    is_same_group
        && object.kind.as_deref() == Some(&app.kind)
        && object.name.as_deref() == Some(&app.name)
}

/// Whether the same object has reported from another environment. An unsigned report does not count
/// against a signed one.
fn lives_elsewhere(pipeline: &Pipeline, environment: &str, uid: &str, is_signed: bool) -> bool {
    let reports = pipeline.status.iter().flat_map(|status| &status.reports);
    let reports = reports.filter(|(_, report)| report.signed || !is_signed);
    let mut same = reports.filter(|(_, report)| !uid.is_empty() && is_uid(report, uid));
    let environments = &pipeline.spec.environments;
    same.any(|(key, _)| {
        let mut environments = environments.iter();
        !is_report_of(key, environment) && environments.any(|known| is_report_of(key, &known.name))
    })
}

fn is_uid(report: &Report, uid: &str) -> bool {
    report.uid.as_deref() == Some(&cut_plain(uid, 128))
}

/// How a report compares with the stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportNovelty {
    New,
    Known,
    Outdated,
}

fn novelty(pipeline: &Pipeline, key: &str, report: &Report) -> ReportNovelty {
    let known = pipeline.status.as_ref();
    let Some(known) = known.and_then(|status| status.reports.get(key)) else {
        return ReportNovelty::New;
    };
    let at = |report: &Report| report.at.as_ref().map(|time| time.0);
    if at(report) < at(known) {
        ReportNovelty::Outdated
    } else if report == known {
        ReportNovelty::Known
    } else {
        ReportNovelty::New
    }
}

/// Whether an unsigned report would replace a signed one, although there is a key to sign with: then
/// anybody could overwrite what is known.
fn is_outranked(pipeline: &Pipeline, environment: &str, key: &str, is_signed: bool) -> bool {
    let known = pipeline.status.as_ref();
    let known = known.and_then(|status| status.reports.get(key));
    !is_signed
        && known.is_some_and(|known| known.signed)
        && report_secret(&pipeline.spec, environment).is_some()
}

fn report(event: &FluxEvent, revision: String, signed: bool, now: Timestamp) -> Report {
    let at = event.timestamp.filter(|at| *at <= later(now, SKEW));
    let uid = event
        .involved_object
        .as_ref()
        .and_then(|it| it.uid.as_ref());
    let kept = |text: Option<&String>, limit| {
        let text = text.filter(|text| !text.is_empty());
        text.map(|text| cut_plain(text, limit))
    };
    Report {
        revision,
        at: Some(stored(at.unwrap_or(now))),
        severity: kept(event.severity.as_ref(), 64),
        reason: kept(event.reason.as_ref(), 256),
        message: event
            .message
            .as_ref()
            .map(|text| cut(text, LONGEST_MESSAGE)),
        uid: kept(uid, 128),
        signed,
    }
}

fn cut_plain(text: &str, limit: usize) -> String {
    text.chars().take(limit).collect()
}
