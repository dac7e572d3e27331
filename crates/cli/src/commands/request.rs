//! `sluice promote` and `sluice rollback`: a person asks for a revision.
//!
//! The request goes into an annotation of the pipeline, where the planner finds it.

use std::{io::Write, time::Duration};

use anyhow::{Context, anyhow, bail};
use api::{
    Pipeline, Revision, Time,
    names::{REQUEST_ANNOTATION, short_hash},
    pipeline::{HandledRequest, Request, RequestKind},
};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{
    approve::{Waiting, arrival, whole_seconds},
    cluster::{Cluster, Connection, FIELD_MANAGER, key, must_have},
    follow::{Progress, Until, follow},
    terminal::clean,
    trouble::trouble,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Promote {
    /// The pipeline, or namespace/pipeline
    pipeline: String,
    /// The environment to bring it into
    environment: String,
    /// The revision to bring
    revision: String,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Rollback {
    /// The pipeline, or namespace/pipeline
    pipeline: String,
    /// The environment to take back
    environment: String,
    /// The revision to go back to, instead of the one that ran before
    revision: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct Common {
    /// Why, in your words
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Ask for it even if no target, source or report has this revision
    #[arg(long)]
    unseen: bool,
    /// How long to wait for the controller's answer, such as 5s
    #[arg(long, value_name = "TIME", default_value = "10s")]
    answer_timeout: api::Duration,
    /// Drop requests of others that have not been taken up yet
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn promote(arguments: &Promote, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.common.connection.connect().await?;
    let pipeline = cluster.pipeline(&arguments.pipeline).await?;
    let wish = Wish {
        environment: &arguments.environment,
        revision: &arguments.revision,
        kind: RequestKind::Promote,
    };
    ask(&cluster, &pipeline, wish, &arguments.common, out).await
}

pub(super) async fn rollback(arguments: &Rollback, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.common.connection.connect().await?;
    let pipeline = cluster.pipeline(&arguments.pipeline).await?;
    let environment = arguments.environment.as_str();
    must_have(&pipeline, environment)?;
    let status = pipeline.status.as_ref();
    let status = status.and_then(|status| status.environments.get(environment));
    let previous = status.and_then(planner::previous_revision);
    let revision = arguments
        .revision
        .as_deref()
        .or(previous)
        .with_context(|| {
            format!("nothing is known to have run in {environment} before; name the revision")
        })?;
    let wish = Wish {
        environment,
        revision,
        kind: RequestKind::Rollback,
    };
    ask(&cluster, &pipeline, wish, &arguments.common, out).await
}

/// What is asked for.
struct Wish<'a> {
    environment: &'a str,
    revision: &'a str,
    kind: RequestKind,
}

async fn ask(
    cluster: &Cluster,
    pipeline: &Pipeline,
    wish: Wish<'_>,
    common: &Common,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let environment = wish.environment;
    must_have(pipeline, environment)?;
    if pipeline.spec.promotion_into(environment).is_none() {
        bail!("nothing is promoted into {environment}: the pipeline has no promotion for it");
    }
    let request = request(cluster.caller().await?, &wish, common)?;
    let annotation = planner::request_annotation(pipeline, environment, &request, common.replace);
    let annotation = annotation.map_err(|other| {
        let (by, environment) = (clean(&other.by), clean(&other.environment));
        let revision = clean(&other.revision);
        anyhow!(
            "{by} asked for {revision} in {environment} and that has not been taken up yet; \
             wait, or drop it with --replace"
        )
    })?;
    write(cluster, pipeline, annotation).await?;
    let answer = answer(cluster, pipeline, environment, (&request.id, common)).await?;
    let revision = clean(wish.revision);
    let asked = match wish.kind {
        RequestKind::Promote => format!("asked for {revision} in {environment}"),
        RequestKind::Rollback => format!("asked for {environment} to go back to {revision}"),
    };
    writeln!(out, "{asked}{}", clean(&answer))?;
    out.flush()?;
    let judge = |pipeline: &Pipeline, promotions: &[api::Promotion]| {
        taken_up(pipeline, environment, &request.id, promotions)
    };
    common.waiting.outcome(cluster, pipeline, judge).await
}

/// What the controller answered, as the end of a sentence. A refusal is an error; without an answer
/// the request stays and may yet be taken up.
async fn answer(
    cluster: &Cluster,
    pipeline: &Pipeline,
    environment: &str,
    (id, common): (&str, &Common),
) -> anyhow::Result<String> {
    let until = Until {
        cluster,
        timeout: Duration::from(&common.answer_timeout),
    };
    let judge = |pipeline: &Pipeline, _: &[api::Promotion]| match handled(pipeline, environment) {
        Some(last) if last.covers(id) => Progress::Done,
        _ => Progress::Waiting(not_taken_up(pipeline, environment)),
    };
    let (pipeline, progress) = match follow(until, pipeline, judge).await {
        Ok(followed) => followed,
        // The request is written all the same.
        Err(error) => return Ok(format!("; the answer cannot be read: {error:#}")),
    };
    if let Progress::Waiting(text) | Progress::Failed(text) = progress {
        return Ok(format!("; {text}"));
    }
    let Some(last) = handled(&pipeline, environment).filter(|last| last.id == id) else {
        bail!(
            "somebody asked for something else in {environment} later, which was taken up instead"
        );
    };
    let message = last.message.as_deref().unwrap_or("taken up");
    if last.refused {
        bail!("{}", clean(message));
    }
    let promotion = last.promotion.as_deref();
    let promotion = promotion.map(|name| format!(" ({name})"));
    Ok(format!(": {message}{}", promotion.unwrap_or_default()))
}

/// The last request of an environment that was taken up.
fn handled<'a>(pipeline: &'a Pipeline, environment: &str) -> Option<&'a HandledRequest> {
    let status = pipeline.status.as_ref()?;
    status.environments.get(environment)?.last_request.as_ref()
}

/// That a request waits, and for what.
fn not_taken_up(pipeline: &Pipeline, environment: &str) -> String {
    let status = pipeline.status.as_ref();
    let status = status.and_then(|status| status.environments.get(environment));
    let hold = status.and_then(|status| status.hold.as_ref());
    let hold = hold.map(|hold| format!(": {}", hold.message));
    format!(
        "the request has not been taken up yet{}",
        hold.unwrap_or_default()
    )
}

fn request(by: String, wish: &Wish<'_>, common: &Common) -> anyhow::Result<Request> {
    let Some(revision) = Revision::new(wish.revision) else {
        bail!("{:?} is not a revision", wish.revision);
    };
    let at = whole_seconds(Timestamp::now());
    let moment = Timestamp::now().to_string();
    Ok(Request {
        id: short_hash(&[wish.environment, revision.as_str(), &by, &moment]),
        revision: revision.into(),
        kind: wish.kind,
        // The policy takes no escapes; who asks may also be left out.
        by: (!by.contains(['"', '\\'])).then_some(by),
        at: Some(Time(at)),
        note: common.note.as_deref().map(plain),
        unseen: common.unseen,
    })
}

/// The admission policy takes no escapes in requests, so that nobody can hide a name in one.
fn plain(note: &str) -> String {
    let plain = |c: char| match c {
        '"' => '\'',
        '\\' => '/',
        c if c.is_control() => ' ',
        c => c,
    };
    note.chars().map(plain).collect()
}

async fn write(cluster: &Cluster, pipeline: &Pipeline, annotation: String) -> anyhow::Result<()> {
    let (namespace, name) = key(pipeline);
    // Requests that somebody else wrote in the meantime must not be lost.
    let patch = json!({"metadata": {
        "resourceVersion": pipeline.metadata.resource_version,
        "annotations": {REQUEST_ANNOTATION: annotation},
    }});
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let pipelines = cluster.api::<Pipeline>(namespace);
    let patched = pipelines
        .patch(name, &parameters, &Patch::Merge(patch))
        .await;
    patched.map_err(|error| trouble(&format!("write the request to pipeline {name}"), error))?;
    Ok(())
}

/// What has become of a request.
fn taken_up(
    pipeline: &Pipeline,
    environment: &str,
    id: &str,
    promotions: &[api::Promotion],
) -> Progress {
    let Some(last) = handled(pipeline, environment).filter(|last| last.id == id) else {
        return Progress::Waiting(not_taken_up(pipeline, environment));
    };
    match &last.promotion {
        Some(name) => arrival(std::slice::from_ref(name), promotions),
        None if last.refused => Progress::Failed(last.message.clone().unwrap_or_default()),
        None => Progress::Done,
    }
}
