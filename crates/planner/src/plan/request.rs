//! Requests of people: stored by the server, or written with kubectl in an annotation.
//!
//! A request is handled once, by its id. Of two that wait, the one with the later timestamp counts (of two
//! of the same second, one that cancels), and the other one is dropped.

mod annotation;

pub(super) use annotation::warnings;
pub(crate) use annotation::written;

use std::collections::BTreeSet;

use super::{
    EnvironmentPlan,
    input::PlanInput,
    retry,
    site::{SiteDecision, WantedRevision},
};
use crate::{
    fold::{push_front, revision_and_version},
    gate::freeze,
    hold::{Hold, HoldReason, list},
    overrides::{self, refuse_override},
    promotion_phase::was_merged,
    sources::sources,
    time::Timestamp,
};
use api::{
    Pipeline, Time,
    app::AppType,
    pipeline::{
        Environment, EnvironmentStatus, HandledRequest, PipelineSpec, PipelineStatus,
        PromotionSummary, Report, Request, RequestKind, TargetStatus,
    },
    promotion::Phase,
    revision::{SourceRevision, identity, is_digest, is_usable, tag},
};

/// The pending request for an environment.
pub(crate) fn pending(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    environment: &str,
) -> Option<Request> {
    let status = model.environments.get(environment)?;
    let handled = status.last_request.as_ref();
    // Another request with the id of an override would pass the same gates.
    let is_used = |id: &str| status.overrides.iter().any(|it| it.request == id);
    let is_handled =
        |it: &Request| handled.is_some_and(|last| last.covers(&it.id)) || is_used(&it.id);
    let waiting = present(pipeline, model, environment).filter(|request| !is_handled(request));
    waiting.max_by_key(|request| {
        let cancels = request.kind == RequestKind::Cancel;
        (at(request.at.as_ref()), cancels)
    })
}

/// Every request for an environment in the status and in the annotation.
pub(super) fn present(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    environment: &str,
) -> impl Iterator<Item = Request> {
    let stored = model.requests.get(environment).cloned();
    let written = annotation::read(pipeline).ok().flatten();
    let written = written.and_then(|value| annotation::for_environment(&value, environment));
    let written = written.map(|request| with_override(pipeline, request));
    written.into_iter().chain(stored)
}

/// The override of a written request is in an annotation of its own, which needs another right.
fn with_override(pipeline: &Pipeline, request: Request) -> Request {
    Request {
        override_gates: overrides::written(pipeline, &request.id),
        ..request
    }
}

fn at(time: Option<&Time>) -> Timestamp {
    time.map_or(Timestamp::MIN, |time| time.0)
}

/// Why the override of a request is refused. Who overrides must be known: others have to approve.
fn refused_override(input: &PlanInput<'_>, environment: &str, request: &Request) -> Option<String> {
    let wanted = request.override_gates.as_ref()?;
    let nobody = request
        .by
        .is_none()
        .then(|| "an override needs `by`".to_owned());
    let unknown = || {
        let known = passable(input, environment);
        let unknown = wanted.passes.iter().find(|it| !known.contains(*it))?;
        if let Some(source) = source_that_checks(input.spec, environment, unknown) {
            return Some(format!(
                "{unknown} is a check of {source}, which a request skips without an override"
            ));
        }
        let known = match known.is_empty() {
            true => "nothing can be overridden there".to_owned(),
            false => format!("an override can pass {}", list(&known)),
        };
        Some(format!(
            "there is no {unknown} before {environment}; {known}"
        ))
    };
    refuse_override(wanted).or(nobody).or_else(unknown)
}

/// The source environment that has a check in its `verify`.
fn source_that_checks<'a>(
    spec: &'a PipelineSpec,
    environment: &str,
    pass: &str,
) -> Option<&'a str> {
    let check = pass.strip_prefix("check/")?;
    let mut names = sources(spec, environment).into_iter().map(|it| &*it.name);
    names.find(|it| spec.verify_checks(it).iter().any(|it| it == check))
}

/// What an override of the environment can name: the Freezes that cover it and the checks before it.
fn passable(input: &PlanInput<'_>, environment: &str) -> Vec<String> {
    let freezes = input.model.freezes.iter();
    let freezes = freezes.filter(|it| it.environments.iter().any(|it| it == environment));
    let settings = input.settings(environment);
    let checks = settings.into_iter().flat_map(|it| &it.checks);
    let checks = checks.map(|check| format!("check/{check}"));
    freezes.map(freeze::pass_name).chain(checks).collect()
}

/// What the request asks for, or why that is refused.
pub(super) fn wanted(
    input: &PlanInput<'_>,
    environment: &str,
    request: &Request,
) -> Result<WantedRevision, String> {
    if let Some(text) = refused_override(input, environment, request) {
        return Err(text);
    }
    let settings = input.settings(environment);
    let policy = settings.and_then(|settings| settings.approval_policy.as_ref());
    if request.by.is_none() && policy.is_some_and(|policy| policy.not_requester) {
        let text =
            "somebody else than who asks must approve, and it does not say who asks; add \"by\"";
        return Err(text.to_owned());
    }
    if request.kind == RequestKind::Retry {
        return retry::failed(input, environment, request);
    }
    if !is_usable(&request.revision) {
        return Err("it names no revision".to_owned());
    }
    let revision = meant(input, &request.revision)?;
    if !request.unseen && !is_known(input, &revision, request) {
        return Err(format!(
            "no target, source or report of this pipeline has {revision}, and it never ran; \
             check the revision, or ask for it as unseen (`--unseen`, `unseen: true`)"
        ));
    }
    Ok(WantedRevision {
        version: known_version(input, &request.revision),
        revision,
        verified_at: None,
        request: Some(request.clone()),
        cause: None,
    })
}

/// The revision that a text names: itself, or the one digest that it is the tag of.
fn meant(input: &PlanInput<'_>, text: &str) -> Result<String, String> {
    let revision = identity(text);
    let environments = input.model.environments.values();
    let mut targets = environments.clone().flat_map(|it| &it.targets);
    let is_known = targets.any(|target| target.revision.as_deref() == Some(revision))
        || environments
            .clone()
            .any(|it| it.ran_revisions().any(|ran| ran == revision));
    if is_digest(revision) || is_known {
        return Ok(revision.to_owned());
    }
    let ran = environments.clone().flat_map(|it| &it.ran);
    let ran = ran.filter(|ran| ran.version.as_deref() == Some(text));
    let running = environments
        .flat_map(|it| &it.targets)
        .filter_map(|target| {
            let digest = target.revision.as_deref()?;
            (target.version.as_deref() == Some(text)).then_some(digest)
        });
    let promotions = input.promotions.iter().map(|promotion| &promotion.spec);
    let promoted = promotions.filter(|spec| spec.version == text);
    let all = running
        .chain(promoted.map(|spec| spec.revision.as_str()))
        .chain(ran.map(|ran| ran.revision.as_str()));
    let digests: BTreeSet<&str> = all.filter(|digest| is_digest(digest)).collect();
    let digests: Vec<&str> = digests.into_iter().collect();
    match digests[..] {
        [] => Ok(revision.to_owned()),
        [digest] => Ok(digest.to_owned()),
        _ => Err(format!(
            "{text} is the tag of several digests; name one of {}",
            list(&digests)
        )),
    }
}

/// Whether a target, the source, a report or the history of the pipeline has the revision.
fn is_known(input: &PlanInput<'_>, revision: &str, request: &Request) -> bool {
    let model = input.model;
    let runs = |target: &TargetStatus| {
        let known = [&target.revision, &target.failed];
        known.into_iter().flatten().any(|it| it == revision)
    };
    let has = |environment: &EnvironmentStatus| {
        let rejected = environment.rejected.iter();
        let failed = environment.failures.iter().map(|it| &it.revision);
        let reported = environment.reported.iter().map(|it| &it.revision);
        let named = rejected.chain(failed).chain(reported).map(String::as_str);
        let mut named = environment.ran_revisions().chain(named);
        named.any(|it| identity(it) == revision) || environment.targets.iter().any(runs)
    };
    let is_reported =
        |report: &Report| revision_and_version(input.spec, &report.revision).0 == revision;
    let proposal = model.proposal.as_ref();
    let proposed = proposal.and_then(|proposal| proposal.revision.as_deref());
    let mut promotions = input.promotions.iter();
    model.environments.values().any(has)
        || model.reports.values().any(is_reported)
        || proposed == Some(revision)
        || promotions.any(|promotion| {
            // A requested promotion does not prove that the revision exists until it was merged.
            let asked = promotion.spec.request.as_ref();
            let is_others = asked.is_some_and(|asked| asked.id != request.id);
            promotion.spec.revision == revision && (!is_others || was_merged(promotion))
        })
}

/// What to write to git for a revision: the tag that is named with it, the version of a target or a
/// promotion, else by its form.
pub(super) fn known_version(input: &PlanInput<'_>, text: &str) -> String {
    let revision = identity(text);
    if tag(text) != revision {
        return tag(text).to_owned();
    }
    let environments = input.model.environments.values();
    let ran = environments.clone().flat_map(|it| &it.ran);
    let ran = ran.filter(|ran| ran.revision == revision);
    // Entries that earlier versions stored have nothing but the revision.
    let mut ran = ran.filter_map(|ran| ran.version.clone().filter(|it| it != revision));
    let seen = environments
        .flat_map(|environment| &environment.targets)
        .filter(|target| target.revision.as_deref() == Some(revision))
        .find_map(|target| target.version.clone());
    let written = || {
        let promotions = input.promotions.iter().rev();
        let mut same = promotions.filter(|promotion| promotion.spec.revision == revision);
        same.next().map(|promotion| promotion.spec.version.clone())
    };
    let by_form = || {
        let app = input.spec.app_ref.clone().unwrap_or_default();
        let is_git = AppType::of(&app.api_version, &app.kind) == AppType::Kustomization;
        let source = SourceRevision::parse(revision);
        let version = source
            .version()
            .filter(|_| is_git && input.spec.track.is_none());
        version.unwrap_or_else(|| revision.to_owned())
    };
    let seen = seen.or_else(written);
    seen.or_else(|| ran.next()).unwrap_or_else(by_form)
}

/// Refuses a request for an environment that is only shown.
pub(super) fn refuse_where_nothing_is_promoted(
    input: &PlanInput<'_>,
    environment: &Environment,
    says: &mut EnvironmentPlan,
) {
    if let Some(request) = pending(input.pipeline, input.model, &environment.name) {
        let text = "nothing is promoted into this environment";
        says.last_request = Some(refused(input, &environment.name, &request, text));
    }
}

/// Records a request that all sites have started, with what it `waits` for, and what it rejects. Returns whether
/// all have.
pub(super) fn conclude(
    input: &PlanInput<'_>,
    environment: &str,
    wanted: &WantedRevision,
    (sites, waits): (&[SiteDecision], Option<Hold>),
    says: &mut EnvironmentPlan,
) -> bool {
    let Some(request) = &wanted.request else {
        return false;
    };
    let is_taken_up = |site: &SiteDecision| site.hold.is_none() || site.promotion.is_some();
    if sites.is_empty() || !sites.iter().all(is_taken_up) {
        return false;
    }
    let promotion = sites.iter().find_map(|site| site.promotion.as_ref());
    let revision = &wanted.revision;
    let text = match promotion {
        Some(_) => progress(wanted, says.hold.clone().or(waits).as_ref()),
        None => format!("{} runs already", wanted.shown()),
    };
    let name = promotion.map(|promotion| promotion.name.as_str());
    let handled = HandledRequest {
        revision: name.map(|_| revision.clone()),
        ..handled(input, environment, request, (name, &text))
    };
    let overrides = std::mem::take(&mut says.overrides);
    says.overrides = overrides::remember(overrides, request, &handled, input.now);
    says.last_request = Some(handled);
    let is_abandoned = |promotion: &PromotionSummary| promotion.phase == Some(Phase::Abandoned);
    if !promotion.is_some_and(is_abandoned) {
        says.rejected.retain(|rejected| rejected != revision);
    }
    if request.kind == RequestKind::Rollback {
        for left in sites.iter().rev().flat_map(|site| site.leaves.iter().rev()) {
            push_front(&mut says.rejected, left);
        }
    }
    true
}

/// What comes of a request whose promotion exists: what that waits for, if anything.
fn progress(wanted: &WantedRevision, waits: Option<&Hold>) -> String {
    match waits {
        None => format!("bringing {}", wanted.shown()),
        Some(hold) if hold.reason == HoldReason::AwaitingApproval => {
            format!("waits for {}", hold.resolved_by)
        }
        Some(hold) => hold.sentence.clone(),
    }
}

/// The record of a refused request.
pub(super) fn refused(
    input: &PlanInput<'_>,
    environment: &str,
    request: &Request,
    because: &str,
) -> HandledRequest {
    let text = format!("refused: {because}");
    HandledRequest {
        refused: true,
        ..handled(input, environment, request, (None, &text))
    }
}

/// The record of a handled request, with its promotion and a message.
pub(super) fn handled(
    input: &PlanInput<'_>,
    environment: &str,
    request: &Request,
    (promotion, text): (Option<&str>, &str),
) -> HandledRequest {
    let others = present(input.pipeline, input.model, environment).map(|other| other.id);
    HandledRequest {
        id: request.id.clone(),
        by: request.by.clone(),
        promotion: promotion.map(str::to_owned),
        revision: None,
        message: Some(text.to_owned()),
        refused: false,
        others: others.filter(|id| *id != request.id).collect(),
    }
}
