//! Requests of people: a revision in an environment, or what is to become of the promotion that is under way.
//!
//! A request is written into an annotation of the Pipeline, which the planner reads; the controller answers in
//! the status.

use std::{io::Write, time::Duration};

use anyhow::{anyhow, bail};
use api::{
    Pipeline, Time,
    names::{OVERRIDE_ANNOTATION, REQUEST_ANNOTATION, short_hash},
    pipeline::{HandledRequest, Override, Request, RequestKind},
    revision::is_usable,
};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use planner::SummaryState;
use serde_json::json;

use super::{
    approve::{PATCH_RETRIES, whole_seconds, write_caution},
    cluster::{Cluster, ClusterFlags, FIELD_MANAGER, key, require_environment},
    cluster_error::cluster_error,
    short_revision::whole_revision,
    status::{WaitingPromotions, suggested_command},
    terminal::clean,
    wait::{WaitFlags, WaitState, ended_state, promotions_state, wait_until},
};

/// What a revision may pass that would stop it otherwise.
#[derive(Debug, Default, clap::Args)]
pub(super) struct GateFlags {
    /// Request the revision even if no target, source or report has it
    #[arg(long)]
    unseen: bool,
    /// Freeze or check that the promotion passes although it is closed or failed: freeze/NAME,
    /// freeze/NAMESPACE/NAME or check/NAME. Valid for one hour. Needs --note, the verb override on pipelines and,
    /// where approvals are needed, the approval of somebody else
    #[arg(long = "override", value_name = "GATE/NAME", requires = "note")]
    overrides: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct RequestFlags {
    /// Note to store with the request
    #[arg(long, value_name = "TEXT", alias = "reason")]
    pub(super) note: Option<String>,
    /// How long to wait until the controller has accepted or refused the request, such as 5s. After that the
    /// request stays and may still be processed
    #[arg(long, value_name = "TIME", default_value = "10s")]
    answer_timeout: api::Duration,
    /// Replace requests of other people that the controller has not processed yet, instead of refusing this
    /// one because of them
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    wait: WaitFlags,
    #[command(flatten)]
    pub(super) connection: ClusterFlags,
}

/// The content of a request.
pub(super) struct RequestedRevision<'a> {
    pub(super) environment: &'a str,
    /// Empty where whatever is in progress or failed is meant.
    pub(super) revision: &'a str,
    pub(super) kind: RequestKind,
    /// The target that a rollout goes on without.
    pub(super) target: Option<&'a str>,
    pub(super) gates: &'a GateFlags,
}

pub(super) async fn send_request(
    cluster: &Cluster,
    pipeline: &Pipeline,
    requested: RequestedRevision<'_>,
    flags: &RequestFlags,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let environment = requested.environment;
    require_environment(pipeline, environment)?;
    if pipeline.spec.promotion_into(environment).is_none() {
        let (_, name) = key(pipeline);
        bail!("pipeline {name} has no promotion settings for {environment}");
    }
    let promotions = cluster.promotions(pipeline).await?;
    let revision = whole_revision(pipeline, &promotions, requested.revision);
    let requested = RequestedRevision {
        revision: &revision,
        ..requested
    };
    let request = request(cluster.caller().await?, &requested, flags)?;
    let annotation = |newest: &Pipeline| annotation(newest, environment, &request, flags);
    write(cluster, pipeline, annotation, &request).await?;
    let answer = wait_for_answer(cluster, pipeline, environment, (&request.id, flags)).await?;
    let revision = clean(requested.revision);
    let summary = match requested.kind {
        RequestKind::Promote => format!("requested {revision} in {environment}"),
        RequestKind::Rollback => format!("requested a rollback of {environment} to {revision}"),
        RequestKind::Cancel => format!("requested to cancel in {environment}"),
        RequestKind::Retry => format!("requested to retry in {environment}"),
        RequestKind::StopRollout => format!("requested to stop the rollout into {environment}"),
        RequestKind::ResumeRollout => format!("requested to resume the rollout into {environment}"),
        RequestKind::SkipTarget => {
            let target = clean(requested.target.unwrap_or_default());
            format!("requested to skip {target} in {environment}")
        }
    };
    writeln!(out, "{summary}{}", clean(&answer.text))?;
    write_caution(out, answer.caution.as_deref())?;
    out.flush()?;
    let state = |pipeline: &Pipeline, promotions: &[api::Promotion]| {
        request_state(pipeline, environment, &request, promotions)
    };
    let environment = (pipeline, environment);
    flags.wait.wait(cluster, environment, state).await
}

/// What the controller answered to a request.
#[derive(Default)]
struct Answer {
    /// The end of a sentence.
    text: String,
    /// What people should know before they approve the promotion.
    caution: Option<String>,
}

/// The answer of the controller. A refusal is an error. Without an answer in time the request stays and may still
/// be processed.
async fn wait_for_answer(
    cluster: &Cluster,
    pipeline: &Pipeline,
    environment: &str,
    (id, flags): (&str, &RequestFlags),
) -> anyhow::Result<Answer> {
    let only_text = |text| Answer {
        text,
        caution: None,
    };
    let timeout = Duration::from(&flags.answer_timeout);
    let state =
        |pipeline: &Pipeline, _: &[api::Promotion]| match last_request(pipeline, environment) {
            Some(last) if last.covers(id) => WaitState::Done,
            _ => WaitState::Waiting(not_processed(pipeline, environment)),
        };
    let (pipeline, state) = match wait_until(cluster, timeout, pipeline, state).await {
        Ok(last) => last,
        // The request has been written nevertheless.
        Err(error) => return Ok(only_text(format!("; cannot read the answer: {error:#}"))),
    };
    if let WaitState::Waiting(text) | WaitState::Failed(text) = state {
        return Ok(only_text(format!("; {text}")));
    }
    let Some(last) = last_request(&pipeline, environment).filter(|last| last.id == id) else {
        bail!("a later request for {environment} replaced this one");
    };
    let message = last.message.as_deref().unwrap_or("accepted");
    if last.refused {
        bail!("{}", clean(message));
    }
    let promotion = last.promotion.as_deref();
    let promotion = promotion.map(|name| format!(" ({name})"));
    let promotion = promotion.unwrap_or_default();
    let next = match promotion.is_empty() {
        true => String::new(),
        false => next_step(cluster, &pipeline, environment).await,
    };
    Ok(Answer {
        text: format!(": {message}{promotion}{next}"),
        caution: stored_caution(&pipeline, environment, last),
    })
}

/// What people should know about the promotion that a request led to.
fn stored_caution(
    pipeline: &Pipeline,
    environment: &str,
    request: &HandledRequest,
) -> Option<String> {
    let status = pipeline.status.as_ref()?.environments.get(environment)?;
    let promotion = status.promotion.as_ref()?;
    let is_it = request.revision.as_ref() == Some(&promotion.revision);
    promotion.caution.clone().filter(|_| is_it)
}

/// Who approves what the request led to, and how, as the end of a sentence.
async fn next_step(cluster: &Cluster, pipeline: &Pipeline, environment: &str) -> String {
    let model = pipeline.status.clone().unwrap_or_default();
    let state = planner::environment_state(pipeline, &model, environment);
    if state != SummaryState::AwaitingApproval {
        return String::new();
    }
    let waiting = WaitingPromotions::of(cluster, pipeline).await;
    let command = suggested_command(pipeline, &model, environment, &waiting);
    command.map(|it| format!("; {it}")).unwrap_or_default()
}

/// The last request for an environment that the controller processed.
fn last_request<'a>(pipeline: &'a Pipeline, environment: &str) -> Option<&'a HandledRequest> {
    let status = pipeline.status.as_ref()?;
    status.environments.get(environment)?.last_request.as_ref()
}

/// Says that a request has not been processed, and what keeps it waiting.
fn not_processed(pipeline: &Pipeline, environment: &str) -> String {
    let status = pipeline.status.as_ref();
    let status = status.and_then(|status| status.environments.get(environment));
    let hold = status.and_then(|status| status.hold.as_ref());
    let hold = hold.filter(|hold| planner::holds_requests(&hold.reason));
    let hold = hold.map(|hold| format!(": {}", hold.message));
    format!(
        "the controller has not processed the request yet{}",
        hold.unwrap_or_default()
    )
}

fn request(
    by: String,
    requested: &RequestedRevision<'_>,
    flags: &RequestFlags,
) -> anyhow::Result<Request> {
    let revision = requested.revision;
    let is_needed = matches!(requested.kind, RequestKind::Promote | RequestKind::Rollback);
    let is_left_out = !is_needed && revision.is_empty();
    if !is_left_out && !is_usable(revision) {
        bail!("{revision:?} is not a revision");
    }
    let at = whole_seconds(Timestamp::now());
    let moment = Timestamp::now().to_string();
    Ok(Request {
        id: short_hash(&[requested.environment, revision, &by, &moment]),
        revision: revision.to_owned(),
        target: requested.target.map(without_escapes),
        kind: requested.kind,
        // The admission policy refuses escapes; the name is optional.
        by: (!by.contains(['"', '\\'])).then_some(by),
        at: Some(Time(at)),
        note: flags.note.as_deref().map(without_escapes),
        unseen: requested.gates.unseen,
        override_gates: overriding(requested.gates, flags)?,
    })
}

/// What the request passes although it is closed.
fn overriding(gates: &GateFlags, flags: &RequestFlags) -> anyhow::Result<Option<Override>> {
    if gates.overrides.is_empty() {
        return Ok(None);
    }
    let wanted = Override {
        reason: flags.note.clone().unwrap_or_default(),
        passes: gates.overrides.clone(),
    };
    match planner::refuse_override(&wanted) {
        Some(text) => bail!("{text}"),
        None => Ok(Some(wanted)),
    }
}

/// The note without characters that JSON escapes, which the admission policy refuses.
fn without_escapes(note: &str) -> String {
    let replace = |c: char| match c {
        '"' => '\'',
        '\\' => '/',
        c if c.is_control() => ' ',
        c => c,
    };
    note.chars().map(replace).collect()
}

/// The annotation with the request and those of others that wait.
fn annotation(
    pipeline: &Pipeline,
    environment: &str,
    request: &Request,
    flags: &RequestFlags,
) -> anyhow::Result<String> {
    let annotation = planner::request_annotation(pipeline, environment, request, flags.replace);
    annotation.map_err(|other| {
        let (by, environment) = (clean(&other.by), clean(&other.environment));
        let revision = match other.revision.is_empty() {
            true => "something".to_owned(),
            false => clean(&other.revision),
        };
        anyhow!(
            "{by} requested {revision} in {environment}, which the controller has not processed yet; \
             wait, or replace the request with --replace"
        )
    })
}

/// Writes the request. The controller and others write the pipeline too: then it is written again.
async fn write(
    cluster: &Cluster,
    pipeline: &Pipeline,
    annotation: impl Fn(&Pipeline) -> anyhow::Result<String>,
    request: &Request,
) -> anyhow::Result<()> {
    let (namespace, name) = key(pipeline);
    let failed = |error| cluster_error(&format!("write the request to pipeline {name}"), error);
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let pipelines = cluster.api::<Pipeline>(namespace);
    let mut newest = pipeline.clone();
    for _ in 0..PATCH_RETRIES {
        let mut annotations = json!({REQUEST_ANNOTATION: annotation(&newest)?});
        if let Some(wanted) = &request.override_gates {
            let written = json!({
                "request": request.id, "reason": wanted.reason, "passes": wanted.passes,
            });
            annotations[OVERRIDE_ANNOTATION] = written.to_string().into();
        }
        // With the resourceVersion, so that requests written in the meantime are not lost.
        let patch = json!({"metadata": {
            "resourceVersion": newest.metadata.resource_version,
            "annotations": annotations,
        }});
        match pipelines
            .patch(name, &parameters, &Patch::Merge(patch))
            .await
        {
            Err(kube::Error::Api(refusal)) if refusal.code == 409 => {
                newest = pipelines.get(name).await.map_err(failed)?;
            }
            patched => return patched.map(drop).map_err(failed),
        }
    }
    bail!("cannot write the request to pipeline {name}: it changes all the time; try again")
}

/// The state of a request and of its promotion; of one about a rollout, that of the rollout's promotion.
fn request_state(
    pipeline: &Pipeline,
    environment: &str,
    request: &Request,
    promotions: &[api::Promotion],
) -> WaitState {
    let last = last_request(pipeline, environment);
    let Some(last) = last.filter(|last| last.id == request.id) else {
        return WaitState::Waiting(not_processed(pipeline, environment));
    };
    let continued = continued_rollout(pipeline, environment, request.kind);
    match last.promotion.as_ref().or(continued) {
        _ if last.refused => WaitState::Failed(last.message.clone().unwrap_or_default()),
        Some(name) if request.kind == RequestKind::Cancel => ended_state(name, promotions),
        Some(name) => promotions_state(std::slice::from_ref(name), promotions),
        None => WaitState::Done,
    }
}

/// The promotion of the rollout that a request continues.
fn continued_rollout<'a>(
    pipeline: &'a Pipeline,
    environment: &str,
    kind: RequestKind,
) -> Option<&'a String> {
    use RequestKind::{ResumeRollout, Retry, SkipTarget};
    let status = pipeline.status.as_ref()?.environments.get(environment)?;
    let rollout = status.rollout.as_ref()?;
    let is_continued = matches!(kind, ResumeRollout | Retry | SkipTarget);
    (is_continued && rollout.finished_at.is_none()).then_some(&rollout.promotion)
}
