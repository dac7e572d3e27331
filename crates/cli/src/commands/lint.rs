//! `sluice lint`: checks manifests without a cluster.
//!
//! An embedded API with our CRDs validates the objects as a cluster would, the planner finds settings that
//! can never work, and with `--checkout` the markers in a git checkout are compared with the pipeline.

mod early_format;
mod fields;
mod markers;
mod schema;

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::bail;
use api::{Pipeline, PipelineTrigger, pipeline::PipelineSpec};
use git::repository_url::RepositoryUrl;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use net::{AddressError, AddressPolicy};
use serde_json::Value;

use super::{
    checkout::ManifestCheckout,
    format::count,
    terminal::{BOLD, RED, YELLOW, clean, paint},
    yaml::{self, YamlDocument},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Manifests, folders of manifests, or - for stdin
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Check the promotion markers in this git checkout
    #[arg(long, value_name = "FOLDER")]
    checkout: Option<PathBuf>,
    /// Namespace of objects without one
    #[arg(long, short, value_name = "NAME", default_value = "default")]
    namespace: String,
}

/// An error or a warning, and its line.
struct Finding {
    is_error: bool,
    line: usize,
    text: String,
}

impl Finding {
    fn error(line: usize, text: impl Into<String>) -> Self {
        Self {
            is_error: true,
            line,
            text: text.into(),
        }
    }
}

/// Number of objects, errors and warnings.
#[derive(Default)]
struct FindingCounts {
    objects: usize,
    errors: usize,
    warnings: usize,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let files = gather(&arguments.files)?;
    let checkout = arguments
        .checkout
        .as_deref()
        .map(ManifestCheckout::read)
        .transpose()?;
    let schema = schema::EmbeddedSchema::start().await?;
    let mut counts = FindingCounts::default();
    let mut pipelines = Vec::new();
    for file in &files {
        for document in yaml::documents(&yaml::read_text(file)?) {
            let Some(checked) = check(&document, &schema).await? else {
                continue;
            };
            counts.objects += 1;
            report(file, &checked.findings, &mut counts, out)?;
            if let Some(rewrite) = &checked.rewrite {
                write_rewrite(rewrite, out)?;
            }
            pipelines.extend(
                checked
                    .pipeline
                    .map(|pipeline| (file, document.line, pipeline)),
            );
        }
    }
    if let Some(checkout) = &checkout {
        for (file, line, mut pipeline) in pipelines {
            let namespace = pipeline.metadata.namespace.take();
            let namespace = namespace.filter(|it| !it.is_empty());
            pipeline.metadata.namespace = namespace.or(Some(arguments.namespace.clone()));
            let findings = markers::check(&pipeline, line, checkout);
            report(file, &findings, &mut counts, out)?;
        }
    }
    conclude(&counts)
}

fn write_rewrite(rewrite: &Value, out: &mut dyn Write) -> anyhow::Result<()> {
    let heading = "# In the current format (without comments):";
    writeln!(out, "{}", paint(BOLD, heading))?;
    yaml::write(out, rewrite)
}

fn conclude(counts: &FindingCounts) -> anyhow::Result<()> {
    let objects = count(counts.objects, "object");
    let warnings = count(counts.warnings, "warning");
    if counts.errors > 0 {
        let errors = count(counts.errors, "error");
        bail!("{errors} and {warnings} in {objects}");
    }
    if counts.objects == 0 {
        bail!("found no objects of Sluice's kinds");
    }
    anstream::eprintln!("{objects} checked, no errors, {warnings}");
    Ok(())
}

/// The named files, and all manifests of the named folders.
fn gather(named: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for file in named {
        if !file.is_dir() {
            files.push(file.clone());
            continue;
        }
        let checkout = ManifestCheckout::read(file)?;
        files.extend(checkout.files.keys().map(|path| checkout.locate(path)));
    }
    Ok(files)
}

#[derive(Default)]
struct CheckedDocument {
    findings: Vec<Finding>,
    /// The pipeline, if it is valid.
    pipeline: Option<Pipeline>,
    /// The object converted from an early format.
    rewrite: Option<Value>,
}

impl CheckedDocument {
    fn error(&mut self, line: usize, text: String) {
        self.findings.push(Finding::error(line, text));
    }
}

/// Checks a document; `None` for other kinds.
async fn check(
    document: &YamlDocument,
    schema: &schema::EmbeddedSchema,
) -> anyhow::Result<Option<CheckedDocument>> {
    let line = document.line;
    let mut checked = CheckedDocument::default();
    let mut value = match &document.value {
        Ok(value) => value.clone(),
        Err(error) => {
            checked.error(line, format!("invalid YAML: {error}"));
            return Ok(mentions_us(&document.text).then_some(checked));
        }
    };
    if let Some(rewrite) = early_format::rewrite(&value) {
        let is_error = !is_accepted(&value, schema).await?;
        checked
            .findings
            .extend(rewrite.notes.into_iter().map(|note| Finding {
                is_error,
                line,
                text: format!("early format: {note}"),
            }));
        value = rewrite.value;
        checked.rewrite = Some(value.clone());
    }
    let Some(root) = schema.root(&value) else {
        return Ok(None);
    };
    // Without a spec its validation rules would not run.
    if value["spec"].is_null() && root_has_spec(root) {
        value["spec"] = Value::Object(serde_json::Map::new());
    }
    let early = checked.findings.len();
    for unknown in fields::unknown(&value, root) {
        checked.error(line_of(document, &unknown.name), unknown.to_string());
    }
    for (field, text) in schema.violations(&value).await? {
        checked.error(line_of(document, last_name(&field)), text);
    }
    if checked.findings.len() == early {
        checked.pipeline = pipeline(&value);
        let trigger = trigger(&value).and_then(|it| trigger::plan::lint(&it));
        checked
            .findings
            .extend(trigger.map(|text| Finding::error(line, text)));
    }
    checked
        .findings
        .extend(planner_findings(checked.pipeline.as_ref(), line));
    Ok(Some(checked))
}

fn root_has_spec(root: &JSONSchemaProps) -> bool {
    let properties = root.properties.as_ref();
    properties.is_some_and(|properties| properties.contains_key("spec"))
}

/// Whether the API accepts an object as it is.
async fn is_accepted(value: &Value, schema: &schema::EmbeddedSchema) -> anyhow::Result<bool> {
    let Some(root) = schema.root(value) else {
        return Ok(false);
    };
    let is_known = fields::unknown(value, root).is_empty();
    Ok(is_known && schema.violations(value).await?.is_empty())
}

/// Settings that can never work.
fn planner_findings(pipeline: Option<&Pipeline>, line: usize) -> Vec<Finding> {
    let complaints = pipeline.map(|pipeline| planner::lint(&pipeline.spec));
    let complaints = complaints.into_iter().flatten();
    let complaints = complaints.map(|complaint| Finding {
        is_error: complaint.is_error,
        line,
        text: complaint.text,
    });
    let urls = pipeline.into_iter().flat_map(|it| unusable_urls(&it.spec));
    let urls = urls.map(|text| Finding {
        is_error: true,
        line,
        text,
    });
    complaints.chain(urls).collect()
}

/// Repository URLs that the controller refuses with any flags. Findings of the planner are not
/// repeated.
fn unusable_urls(spec: &PipelineSpec) -> Vec<String> {
    let whole = spec.promotion.iter().map(|it| ("the pipeline", it));
    let each = spec.environments.iter();
    let each = each.filter_map(|it| Some((it.name.as_str(), it.promotion.as_ref()?)));
    let urls = whole.chain(each).flat_map(|(name, settings)| {
        let strategy = &settings.strategy;
        let pull_request = strategy.pull_request.as_ref().map(|to| to.url.as_str());
        let commit = strategy.commit.as_ref().map(|to| to.url.as_str());
        pull_request
            .into_iter()
            .chain(commit)
            .map(move |url| (name, url))
    });
    let anywhere = AddressPolicy {
        allow_internal: true,
        allow_insecure: false,
    };
    let is_reported = |url: &str| {
        url.split_once("://").is_some_and(|(scheme, _)| {
            !["https", "ssh"]
                .iter()
                .any(|it| scheme.eq_ignore_ascii_case(it))
        })
    };
    urls.filter(|(_, url)| !url.is_empty() && !is_reported(url))
        .filter_map(|(name, url)| {
            let Err(AddressError::Invalid { because }) = RepositoryUrl::parse(url, anywhere) else {
                return None;
            };
            Some(format!(
                "the promotion of {name} has a url that cannot be used: {because}"
            ))
        })
        .collect()
}

/// `targets` of `spec.environments[0].targets[1]`.
fn last_name(field: &str) -> &str {
    let name = field.rsplit('.').next().unwrap_or_default();
    name.split('[').next().unwrap_or_default()
}

fn mentions_us(text: &str) -> bool {
    api::crds().iter().any(|crd| text.contains(&crd.spec.group))
}

/// The pipeline, unless a field has the wrong type, which the schema reports.
fn pipeline(value: &Value) -> Option<Pipeline> {
    if value["kind"] != "Pipeline" {
        return None;
    }
    serde_json::from_value(value.clone()).ok()
}

/// The trigger, likewise.
fn trigger(value: &Value) -> Option<PipelineTrigger> {
    if value["kind"] != "PipelineTrigger" {
        return None;
    }
    serde_json::from_value(value.clone()).ok()
}

/// The line of a field if its name is unique in the document, otherwise the first line.
fn line_of(document: &YamlDocument, name: &str) -> usize {
    let is_it = |line: &str| {
        let line = line.trim_start_matches([' ', '-', '{']);
        line.strip_prefix(name)
            .is_some_and(|rest| rest.trim_start().starts_with(':'))
    };
    let mut lines = document
        .text
        .lines()
        .enumerate()
        .filter(|(_, line)| is_it(line));
    match (lines.next(), lines.next()) {
        (Some((index, _)), None) if !name.is_empty() => document.line + index,
        _ => document.line,
    }
}

fn report(
    file: &Path,
    findings: &[Finding],
    counts: &mut FindingCounts,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    for finding in findings {
        let (word, style) = match finding.is_error {
            true => ("error", RED),
            false => ("warning", YELLOW),
        };
        match finding.is_error {
            true => counts.errors += 1,
            false => counts.warnings += 1,
        }
        let location = format!("{}:{}", file.display(), finding.line);
        writeln!(
            out,
            "{}: {}: {}",
            clean(&location),
            paint(style, word),
            clean(&finding.text)
        )?;
    }
    Ok(())
}
