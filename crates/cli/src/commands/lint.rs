//! `sluice lint`: checks manifests without a cluster.
//!
//! An embedded API with our CRDs validates the objects as a cluster would, the planner finds settings that
//! can never work, and with `--checkout` the markers in a git checkout are compared with the pipeline.

mod early_format;
mod fields;
mod findings;
mod freezes;
mod lines;
mod live;
mod markers;
mod schema;
mod urls;
mod version_tags;

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use api::{FromJson, Pipeline, PipelineTrigger, pipeline::PipelineSpec};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::Value;

use super::{
    checkout::ManifestCheckout,
    cluster::ClusterFlags,
    terminal::{BOLD, paint},
    yaml::{self, YamlDocument},
};
use findings::{Finding, LintOutput, LintReport};
use lines::line_of;
use live::ExistingObjects;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Manifests, folders of manifests, or - for stdin
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Check the promotion markers in this git checkout
    #[arg(long, value_name = "FOLDER")]
    checkout: Option<PathBuf>,
    /// Also check on the cluster that the Secrets and GitopsClusters exist. Objects without a namespace
    /// are taken to be in that of -n, or in default
    #[arg(long)]
    live: bool,
    /// Output format
    #[arg(long, short, value_enum, default_value = "text")]
    output: LintOutput,
    #[command(flatten)]
    connection: ClusterFlags,
}

/// A valid pipeline and the document it is in.
struct LintedPipeline {
    file: PathBuf,
    document: YamlDocument,
    pipeline: Pipeline,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let files = gather(&arguments.files)?;
    let checkout = arguments
        .checkout
        .as_deref()
        .map(ManifestCheckout::read)
        .transpose()?;
    let mut existing = existing_objects(arguments).await?;
    let mut report = LintReport::new(arguments.output);
    let namespace = arguments.connection.namespace.as_deref();
    let namespace = namespace.unwrap_or("default");
    let (mut pipelines, mut all_freezes) = (Vec::new(), Vec::new());
    let schema = schema::EmbeddedSchema::start().await?;
    for file in &files {
        for document in yaml::documents(&yaml::read_text(file)?) {
            if let (Some(existing), Ok(value)) = (&mut existing, &document.value) {
                existing.add(value, namespace);
            }
            let is_named = arguments.files.contains(file);
            let Some(checked) = check(&document, is_named, &schema).await? else {
                continue;
            };
            all_freezes.extend(freezes::find(file, &document, namespace));
            pipelines.extend(checked.conclude(file, document, &mut report, out)?);
        }
    }
    for linted in &mut pipelines {
        let own = linted.pipeline.metadata.namespace.take();
        let own = own.filter(|it| !it.is_empty());
        linted.pipeline.metadata.namespace = own.or(Some(namespace.to_owned()));
        let findings = compare(linted, checkout.as_ref(), existing.as_ref());
        report.add(&linted.file, findings, out)?;
    }
    let beside: Vec<_> = pipelines.iter().map(|it| &it.pipeline).collect();
    for freeze in &all_freezes {
        let finding = freezes::coverage(freeze, &beside);
        report.add(&freeze.file, finding.into_iter().collect(), out)?;
    }
    note_skipped(&pipelines, checkout.as_ref(), existing, &mut report);
    report.conclude(out)
}

/// What is on the cluster, if it is to be compared.
async fn existing_objects(arguments: &Arguments) -> anyhow::Result<Option<ExistingObjects>> {
    if !arguments.live {
        return Ok(None);
    }
    let cluster = arguments.connection.connect().await?;
    Ok(Some(ExistingObjects::read(&cluster.client).await?))
}

/// Compares a pipeline with the checkout and the cluster, where there are any.
fn compare(
    linted: &LintedPipeline,
    checkout: Option<&ManifestCheckout>,
    existing: Option<&ExistingObjects>,
) -> Vec<Finding> {
    let (pipeline, document) = (&linted.pipeline, &linted.document);
    let markers = checkout.map(|it| markers::check(pipeline, document.line, it));
    let tags = checkout.map(|it| version_tags::check(pipeline, document.line, it));
    let live = existing.map(|it| live::check(pipeline, document, it));
    let found = markers.into_iter().chain(tags).chain(live);
    found.flatten().collect()
}

/// Says which checks were not made.
fn note_skipped(
    pipelines: &[LintedPipeline],
    checkout: Option<&ManifestCheckout>,
    existing: Option<ExistingObjects>,
    report: &mut LintReport,
) {
    let is_in_git =
        |linted: &LintedPipeline| !super::plan::sites_in_git(&linted.pipeline).is_empty();
    if checkout.is_none() && pipelines.iter().any(is_in_git) {
        report.skip("what promotions would change in git; add --checkout FOLDER");
    }
    match existing {
        Some(existing) => existing
            .unreadable
            .into_iter()
            .for_each(|it| report.skip(it)),
        None if pipelines.is_empty() => {}
        None => report.skip("whether Secrets and clusters exist; add --live"),
    }
}

fn write_rewrite(rewrite: &Value, out: &mut dyn Write) -> anyhow::Result<()> {
    let heading = "# In the current format (without comments):";
    writeln!(out, "{}", paint(BOLD, heading))?;
    yaml::write(out, rewrite)
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
    /// Whether a Pipeline has errors that kept its settings from being checked.
    is_incomplete: bool,
}

impl CheckedDocument {
    fn error(&mut self, line: usize, text: String) {
        self.findings.push(Finding::error(line, text));
    }

    /// Reports the findings. Returns the pipeline for further checks.
    fn conclude(
        self,
        file: &Path,
        document: YamlDocument,
        report: &mut LintReport,
        out: &mut dyn Write,
    ) -> anyhow::Result<Option<LintedPipeline>> {
        report.objects += 1;
        report.add(file, self.findings, out)?;
        if let Some(rewrite) = self.rewrite.filter(|_| report.is_text()) {
            write_rewrite(&rewrite, out)?;
        }
        if self.is_incomplete {
            let (file, line) = (file.display(), document.line);
            report.skip(format!(
                "the settings of the object at {file}:{line}; correct its errors first"
            ));
        }
        Ok(self.pipeline.map(|pipeline| LintedPipeline {
            file: file.to_owned(),
            document,
            pipeline,
        }))
    }
}

/// Checks a document; `None` for other kinds.
async fn check(
    document: &YamlDocument,
    is_named: bool,
    schema: &schema::EmbeddedSchema,
) -> anyhow::Result<Option<CheckedDocument>> {
    let mut checked = CheckedDocument::default();
    let value = match &document.value {
        Ok(value) => checked.converted(value, document, schema).await?,
        Err(error) => {
            checked.error(error.line, format!("invalid YAML: {}", error.text));
            checked.is_incomplete = true;
            let is_reported = is_named || mentions_us(&document.text);
            return Ok(is_reported.then_some(checked));
        }
    };
    let Some(root) = schema.root(&value) else {
        return Ok(None);
    };
    checked.validate(value, root, document, schema).await?;
    Ok(Some(checked))
}

impl CheckedDocument {
    /// The object in the current format, with a note for each change.
    async fn converted(
        &mut self,
        value: &Value,
        document: &YamlDocument,
        schema: &schema::EmbeddedSchema,
    ) -> anyhow::Result<Value> {
        let Some(rewrite) = early_format::rewrite(value) else {
            return Ok(value.clone());
        };
        let is_error = !is_accepted(value, schema).await?;
        let line = line_of(document, "");
        let notes = rewrite.notes.into_iter().map(|note| Finding {
            is_error,
            line,
            text: format!("early format: {note}"),
        });
        self.findings.extend(notes);
        self.rewrite = Some(rewrite.value.clone());
        Ok(rewrite.value)
    }

    /// Checks the fields, and if they are valid the settings.
    async fn validate(
        &mut self,
        mut value: Value,
        root: &JSONSchemaProps,
        document: &YamlDocument,
        schema: &schema::EmbeddedSchema,
    ) -> anyhow::Result<()> {
        // Without a spec its validation rules would not run.
        if value["spec"].is_null() && root_has_spec(root) {
            value["spec"] = Value::Object(serde_json::Map::new());
        }
        let early = self.findings.len();
        for unknown in fields::unknown(&value, root) {
            self.error(line_of(document, &unknown.path), unknown.to_string());
        }
        for (field, text) in schema.violations(&value).await? {
            self.error(line_of(document, &field), text);
        }
        if self.findings.len() > early {
            self.is_incomplete = true;
            return Ok(());
        }
        if let Some(text) = trigger(&value).and_then(|it| trigger::plan::lint(&it)) {
            self.error(line_of(document, ""), text);
        }
        let times = freezes::times(&value, line_of(document, ""));
        self.findings.extend(times);
        self.pipeline = pipeline(&value);
        if let Some(pipeline) = &self.pipeline {
            self.findings.extend(settings(&pipeline.spec, document));
        }
        Ok(())
    }
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
fn settings(spec: &PipelineSpec, document: &YamlDocument) -> Vec<Finding> {
    let complaints = planner::lint(spec).into_iter().map(|complaint| {
        let mut environments = spec.environments.iter();
        let name = complaint.environment.as_ref();
        let index = name.and_then(|name| environments.position(|it| it.name == *name));
        let field = index.map(|index| format!("spec.environments[{index}]"));
        Finding {
            is_error: complaint.is_error,
            line: line_of(document, &field.unwrap_or_default()),
            text: complaint.text,
        }
    });
    let urls = urls::refused(spec).into_iter().map(|refused| Finding {
        is_error: refused.is_error,
        line: line_of(document, &refused.field),
        text: refused.text,
    });
    complaints.chain(urls).collect()
}

fn mentions_us(text: &str) -> bool {
    api::crds().iter().any(|crd| text.contains(&crd.spec.group))
}

/// The pipeline, unless a field has the wrong type, which the schema reports.
fn pipeline(value: &Value) -> Option<Pipeline> {
    if value["kind"] != "Pipeline" {
        return None;
    }
    FromJson::from_value(value.clone()).ok()
}

/// The trigger, likewise.
fn trigger(value: &Value) -> Option<PipelineTrigger> {
    if value["kind"] != "PipelineTrigger" {
        return None;
    }
    FromJson::from_value(value.clone()).ok()
}
