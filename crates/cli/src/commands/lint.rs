//! `sluice lint`: checks manifests without a cluster.
//!
//! An embedded API with our CRDs validates the objects as a cluster would, the planner finds settings that
//! can never work, and with `--checkout` the markers in a git checkout are compared with the pipeline.

mod document;
mod early_format;
mod fields;
mod findings;
mod freezes;
mod kinds;
mod lines;
mod live;
mod markers;
mod schema;
mod urls;
mod version_tags;

use std::{collections::BTreeSet, io::Write, path::PathBuf};

use api::{Pipeline, pipeline::PipelineSpec};

use super::{
    checkout::ManifestCheckout,
    cluster::ClusterFlags,
    format::count,
    yaml::{self, YamlDocument},
};
use findings::{Finding, LintOutput, LintReport};
use freezes::LintedFreeze;
pub(super) use kinds::APP_KINDS;
use live::ExistingObjects;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Manifests, folders of manifests, or - for stdin
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Check the promotion markers in this git checkout
    #[arg(long, value_name = "FOLDER")]
    checkout: Option<PathBuf>,
    /// Also check on the cluster that the Secrets and GitopsClusters exist, and that no other Pipeline promotes the
    /// same app in the same target. Objects without a namespace are taken to be in that of -n, or in default
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

/// What was found in all files.
#[derive(Default)]
struct LintedFiles {
    pipelines: Vec<LintedPipeline>,
    freezes: Vec<LintedFreeze>,
    /// Files that are not YAML because they are templates.
    templates: BTreeSet<PathBuf>,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let checkout = arguments.checkout.as_deref();
    let checkout = checkout.map(ManifestCheckout::read).transpose()?;
    let mut existing = existing_objects(arguments).await?;
    let mut report = LintReport::new(arguments.output);
    let mut linted = read_files(arguments, &mut existing, &mut report, out).await?;
    for linted in &mut linted.pipelines {
        let own = linted.pipeline.metadata.namespace.take();
        let own = own.filter(|it| !it.is_empty());
        let namespace = own.unwrap_or_else(|| arguments.namespace().to_owned());
        linted.pipeline.metadata.namespace = Some(namespace);
        let findings = compare(linted, checkout.as_ref(), existing.as_ref());
        report.add(&linted.file, findings, out)?;
    }
    linted.compare_with_each_other(existing.as_ref(), &mut report, out)?;
    linted.note_skipped(checkout.as_ref(), existing, &mut report);
    report.conclude(out)
}

impl Arguments {
    /// The namespace of objects that name none.
    fn namespace(&self) -> &str {
        self.connection.namespace.as_deref().unwrap_or("default")
    }
}

/// Checks every document by itself.
async fn read_files(
    arguments: &Arguments,
    existing: &mut Option<ExistingObjects>,
    report: &mut LintReport,
    out: &mut dyn Write,
) -> anyhow::Result<LintedFiles> {
    let namespace = arguments.namespace();
    let schema = schema::EmbeddedSchema::start().await?;
    let mut linted = LintedFiles::default();
    for file in &gather(&arguments.files)? {
        let is_named = arguments.files.contains(file);
        let documents = yaml::documents(&yaml::read_text(file)?).into_iter();
        for document in documents.flat_map(lines::objects) {
            if let (Some(existing), Ok(value)) = (existing.as_mut(), &document.value) {
                existing.add(value, namespace);
            }
            if !is_named && document::is_template(&document) {
                linted.templates.insert(file.clone());
                continue;
            }
            let Some(checked) = document::check(&document, is_named, &schema).await? else {
                continue;
            };
            let freeze = freezes::find(file, &document, namespace);
            linted.freezes.extend(freeze);
            let pipeline = checked.conclude(file, document, report, out)?;
            linted.pipelines.extend(pipeline);
        }
    }
    Ok(linted)
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

impl LintedFiles {
    /// What shows only if all objects are looked at together.
    fn compare_with_each_other(
        &self,
        existing: Option<&ExistingObjects>,
        report: &mut LintReport,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let pipelines: Vec<_> = self.pipelines.iter().map(|it| &it.pipeline).collect();
        // Those of the cluster come first: of two pipelines the later one is told.
        let others = existing.map(|it| it.other_pipelines(&pipelines));
        let others = others.unwrap_or_default();
        let all = [others.as_slice(), &pipelines].concat();
        for (number, found) in planner::lint_together(&all) {
            let Some(number) = number.checked_sub(others.len()) else {
                continue;
            };
            let linted = &self.pipelines[number];
            let text = (found.is_error, found.text);
            let finding = Finding::of_field(&linted.document, &found.field, text);
            report.add(&linted.file, vec![finding], out)?;
        }
        for freeze in &self.freezes {
            let finding = freezes::coverage(freeze, &pipelines, &all);
            report.add(&freeze.file, finding.into_iter().collect(), out)?;
        }
        Ok(())
    }

    /// Says which checks were not made.
    fn note_skipped(
        &self,
        checkout: Option<&ManifestCheckout>,
        existing: Option<ExistingObjects>,
        report: &mut LintReport,
    ) {
        let is_in_git =
            |linted: &LintedPipeline| !super::plan::sites_in_git(&linted.pipeline).is_empty();
        if checkout.is_none() && self.pipelines.iter().any(is_in_git) {
            report.skip("what promotions would change in git; add --checkout FOLDER");
        }
        if let Some(first) = self.templates.first() {
            let files = count(self.templates.len(), "template");
            let first = first.display();
            report.skip(format!(
                "{files} with {{{{, such as {first}; render them first and pipe them into sluice lint -"
            ));
        }
        match existing {
            Some(existing) => {
                let unreadable = existing.unreadable.into_iter();
                unreadable.for_each(|it| report.skip(it));
            }
            None if self.pipelines.is_empty() => {}
            None => report.skip("whether Secrets and clusters exist, and which Pipelines share a target; add --live"),
        }
    }
}

/// Why the API would refuse an object.
pub(super) async fn schema_errors(object: &serde_json::Value) -> anyhow::Result<Vec<String>> {
    let schema = schema::EmbeddedSchema::start().await?;
    let violations = schema.violations(object).await?.into_iter();
    Ok(violations.map(|(_, text)| text).collect())
}

/// The URLs of repositories that can never be used, as sentences.
pub(super) fn refused_urls(spec: &PipelineSpec) -> Vec<String> {
    let refused = urls::refused(spec).into_iter().filter(|it| it.is_error);
    refused.map(|it| it.text).collect()
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
