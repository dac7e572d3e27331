//! `sluice check`: checks what promotions need before they need it: versions, CRDs, the caller's rights, and
//! for each pipeline its Secrets, repositories and clusters.
//!
//! Repositories and forges are not contacted from here: the controller does that, with its own network and
//! credentials, and stores the result in the status of the pipeline.

mod installation;
mod pipelines;
mod rights;
mod sign_in;

use std::io::Write;

use anyhow::bail;
use serde_json::{Value, json};

use super::{
    cluster::{Cluster, ClusterFlags},
    error_text,
    format::count,
    message::print_message,
    output::OutputFormat,
    terminal::{GREEN, RED, YELLOW, clean, paint},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only this pipeline, as NAME or NAMESPACE/NAME [default: all of the namespace]
    pipeline: Option<String>,
    /// Check the pipelines of all namespaces
    #[arg(long, short = 'A', conflicts_with_all = ["pipeline", "namespace"])]
    all_namespaces: bool,
    /// Output format
    #[arg(long, short, value_enum, default_value = "text")]
    output: OutputFormat,
    #[command(flatten)]
    connection: ClusterFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckResult {
    Passed,
    /// Something may be wrong, or could not be checked.
    Warning,
    Failed,
}

impl CheckResult {
    const fn word(self) -> &'static str {
        match self {
            Self::Passed => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// The result of one check: what was checked, and what was found.
#[derive(Clone, Debug)]
struct Check {
    result: CheckResult,
    subject: String,
    text: String,
}

impl Check {
    fn new(result: CheckResult, subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            result,
            subject: subject.into(),
            text: text.into(),
        }
    }

    fn passed(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(CheckResult::Passed, subject, text)
    }

    fn warning(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(CheckResult::Warning, subject, text)
    }

    fn failed(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(CheckResult::Failed, subject, text)
    }

    fn document(&self) -> Value {
        json!({"result": self.result.word(), "subject": self.subject, "text": self.text})
    }

    fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let (glyph, style) = match self.result {
            CheckResult::Passed => ("✔", GREEN),
            CheckResult::Warning => ("!", YELLOW),
            CheckResult::Failed => ("✖", RED),
        };
        let text = clean(&format!("{}: {}", self.subject, self.text));
        writeln!(out, "{} {text}", paint(style, glyph))
    }
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let mut checks = installation::check(&cluster).await?;
    let has_crds = checks.iter().all(|it| it.result != CheckResult::Failed);
    if has_crds {
        checks.extend(rights::check(&cluster, &arguments.namespace(&cluster)).await?);
        checks.extend(check_pipelines(arguments, &cluster).await?);
    }
    let documents = || {
        let checks = checks.iter().map(Check::document);
        json!({"checks": checks.collect::<Vec<_>>()})
    };
    arguments.output.write(out, documents, |out| {
        checks.iter().try_for_each(|check| check.write(out))?;
        Ok(())
    })?;
    out.flush()?;
    let of = |result| checks.iter().filter(|it| it.result == result).count();
    let warnings = count(of(CheckResult::Warning), "warning");
    let scope = match arguments.all_namespaces {
        true => "all namespaces".to_owned(),
        false => format!("namespace {}", arguments.namespace(&cluster)),
    };
    match of(CheckResult::Failed) {
        0 => print_message(&format!("no check of {scope} failed, {warnings}")),
        failed => bail!("{} of {scope} failed, {warnings}", count(failed, "check")),
    }
    Ok(())
}

impl Arguments {
    /// The namespace of the named pipeline, or the selected one.
    fn namespace(&self, cluster: &Cluster) -> String {
        let named = self.pipeline.as_deref().and_then(|it| it.split_once('/'));
        let named = named.map(|(namespace, _)| namespace.to_owned());
        named.unwrap_or_else(|| cluster.namespace.clone())
    }
}

/// Checks the selected pipelines. Pipelines that cannot be read are a failed check, so that the other
/// results are shown.
async fn check_pipelines(arguments: &Arguments, cluster: &Cluster) -> anyhow::Result<Vec<Check>> {
    let read = match &arguments.pipeline {
        Some(name) => cluster.pipeline(name).await.map(|pipeline| vec![pipeline]),
        None => cluster.list_pipelines(arguments.all_namespaces).await,
    };
    let pipelines = match read {
        Ok(pipelines) => pipelines,
        Err(error) => return Ok(vec![Check::failed("pipelines", error_text(&error))]),
    };
    if pipelines.is_empty() {
        let text = match arguments.all_namespaces {
            true => "there are none in any namespace".to_owned(),
            false => format!(
                "there are none in namespace {}; select another with -n, or all with -A",
                cluster.namespace
            ),
        };
        return Ok(vec![Check::warning("pipelines", text)]);
    }
    let mut checks = Vec::new();
    for pipeline in &pipelines {
        checks.extend(pipelines::check(cluster, pipeline).await?);
    }
    Ok(checks)
}
