//! `sluice report`: stores the result of an external check.

use std::io::Write;

use anyhow::bail;
use api::{CheckRun, Time, check_run::CheckResult, pipeline::PipelineSpec};
use clap::ValueEnum;
use jiff::Timestamp;
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use planner::hook::{ReportedCheck, external_checks, refuse_result, reported_run};
use serde_json::json;

use super::{
    approve::whole_seconds,
    cluster::{ClusterFlags, FIELD_MANAGER, key, require_environment},
    cluster_error::cluster_error,
    terminal::clean,
};

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Verdict {
    Pass,
    Fail,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pipeline, as NAME or NAMESPACE/NAME
    pipeline: String,
    /// Environment that the check is for
    environment: String,
    /// Name of the external check
    check: String,
    /// Whether it passed
    verdict: Verdict,
    /// Report only if this revision is checked
    #[arg(long, value_name = "REVISION")]
    revision: Option<String>,
    /// Message to store with the result
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// Where people read more
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    connection: ClusterFlags,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let pipeline = cluster.pipeline(&arguments.pipeline).await?;
    require_environment(&pipeline, &arguments.environment)?;
    let check = arguments.check.as_str();
    require_external_check(&pipeline.spec, check)?;
    let (namespace, name) = key(&pipeline);
    let user = cluster.user().await?;
    let by = user.username.unwrap_or_default();
    let result = CheckResult {
        passed: matches!(arguments.verdict, Verdict::Pass),
        message: arguments.message.clone(),
        url: arguments.url.clone(),
        by: Some(by.clone()),
        at: Some(Time(whole_seconds(Timestamp::now()))),
        signature: None,
    };
    refuse_result(&result).map_err(|refusal| anyhow::anyhow!(refusal.to_string()))?;
    let api = cluster.api::<CheckRun>(namespace);
    let labels = format!(
        "{}={}",
        api::names::PIPELINE_LABEL,
        api::names::label_value(name)
    );
    let runs = api.list(&ListParams::default().labels(&labels)).await;
    let runs = runs
        .map_err(|error| cluster_error("list check runs", error))?
        .items;
    let reported = ReportedCheck {
        pipeline: name,
        environment: &arguments.environment,
        check,
        revision: arguments.revision.as_deref(),
        signature: None,
    };
    let run = reported_run(&runs, &reported);
    let run = run.map_err(|refusal| anyhow::anyhow!("cannot report {check}: {refusal}"))?;
    let body = json!({
        "metadata": {"resourceVersion": run.resource_version()},
        "spec": {"result": result},
    });
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patched = api
        .patch(&run.name_any(), &parameters, &Patch::Merge(body))
        .await;
    patched.map_err(|error| cluster_error(&format!("report check {check}"), error))?;
    let verdict = if result.passed { "passed" } else { "failed" };
    let revision = clean(&run.spec.shown_revision());
    let environment = clean(&arguments.environment);
    writeln!(
        out,
        "reported {check} of {revision} in {environment} as {verdict}, by {}",
        clean(&by)
    )?;
    Ok(out.flush()?)
}

fn require_external_check(spec: &PipelineSpec, check: &str) -> anyhow::Result<()> {
    let checks = external_checks(spec);
    if checks.contains(&check) {
        return Ok(());
    }
    if let Some(other) = spec.check(check) {
        let name = &other.name;
        bail!("{name} is no external check: Sluice measures it, so nobody reports its result");
    }
    match checks.is_empty() {
        true => bail!("the pipeline has no check {check}, and no external check at all"),
        false => bail!(
            "the pipeline has no external check {check}; it has {}",
            checks.join(", ")
        ),
    }
}
