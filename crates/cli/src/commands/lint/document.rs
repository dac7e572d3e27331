//! Checks one document: its kind, its fields, and if they are valid its settings.

use std::{io::Write, path::Path};

use api::{FromJson, Pipeline, PipelineTrigger, pipeline::PipelineSpec};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::Value;

use super::{
    super::{
        terminal::{BOLD, paint},
        yaml::{self, YamlDocument, YamlError},
    },
    LintedPipeline, early_format, fields,
    findings::{Finding, LintReport},
    freezes, kinds,
    lines::line_of,
    schema::EmbeddedSchema,
    urls,
};

/// What was found in a document.
#[derive(Default)]
pub(super) struct CheckedDocument {
    findings: Vec<Finding>,
    /// The pipeline, if it is valid.
    pipeline: Option<Pipeline>,
    /// The object converted from an early format.
    rewrite: Option<Value>,
    /// Whether a Pipeline has errors that kept its settings from being checked.
    is_incomplete: bool,
    /// Whether nothing says that it is an object of ours.
    is_foreign: bool,
}

impl CheckedDocument {
    fn error(&mut self, document: &YamlDocument, field: &str, text: String) {
        let finding = Finding::of_field(document, field, (true, text));
        self.findings.push(finding);
    }

    /// Reports the findings. Returns the pipeline for further checks.
    pub(super) fn conclude(
        self,
        file: &Path,
        document: YamlDocument,
        report: &mut LintReport,
        out: &mut dyn Write,
    ) -> anyhow::Result<Option<LintedPipeline>> {
        report.objects += usize::from(!self.is_foreign);
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

fn write_rewrite(rewrite: &Value, out: &mut dyn Write) -> anyhow::Result<()> {
    let heading = "# In the current format (without comments):";
    writeln!(out, "{}", paint(BOLD, heading))?;
    yaml::write(out, rewrite)
}

/// Whether a document is a template, which is YAML only after it was rendered.
pub(super) fn is_template(document: &YamlDocument) -> bool {
    document.value.is_err() && document.text.contains("{{")
}

/// Checks a document; `None` for other kinds.
pub(super) async fn check(
    document: &YamlDocument,
    is_named: bool,
    schema: &EmbeddedSchema,
) -> anyhow::Result<Option<CheckedDocument>> {
    let mut checked = CheckedDocument::default();
    let value = match &document.value {
        Ok(value) => checked.converted(value, document, schema).await?,
        Err(error) => {
            checked.broken(error, document, is_named);
            return Ok(Some(checked));
        }
    };
    let Some(root) = schema.root(&value) else {
        let Some((field, text)) = kinds::near_miss(&value, schema) else {
            return Ok(None);
        };
        checked.error(document, field, text);
        checked.is_incomplete = true;
        return Ok(Some(checked));
    };
    checked.validate(value, root, document, schema).await?;
    Ok(Some(checked))
}

impl CheckedDocument {
    /// A document that is no YAML is an error: one of ours may be behind the mistake. Templates of a folder are
    /// left out before.
    fn broken(&mut self, error: &YamlError, document: &YamlDocument, is_named: bool) {
        let is_ours = is_named || mentions_us(&document.text);
        let hint = match is_template(document) {
            true => "; it looks like a template: render it first",
            false => "",
        };
        let text = format!("invalid YAML: {}{hint}", error.text);
        self.findings.push(Finding::error(error.line, text));
        (self.is_incomplete, self.is_foreign) = (is_ours, !is_ours);
    }

    /// The object in the current format, with a note for each change.
    async fn converted(
        &mut self,
        value: &Value,
        document: &YamlDocument,
        schema: &EmbeddedSchema,
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
            field: None,
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
        schema: &EmbeddedSchema,
    ) -> anyhow::Result<()> {
        // Without a spec its validation rules would not run.
        if value["spec"].is_null() && root_has_spec(root) {
            value["spec"] = Value::Object(serde_json::Map::new());
        }
        let early = self.findings.len();
        for unknown in fields::unknown(&value, root) {
            self.error(document, &unknown.path, unknown.to_string());
        }
        for (field, text) in schema.violations(&value).await? {
            self.error(document, &field, text);
        }
        if self.findings.len() > early {
            self.is_incomplete = true;
            return Ok(());
        }
        if let Some(text) = trigger(&value).and_then(|it| trigger::plan::lint(&it)) {
            self.error(document, "", text);
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
async fn is_accepted(value: &Value, schema: &EmbeddedSchema) -> anyhow::Result<bool> {
    let Some(root) = schema.root(value) else {
        return Ok(false);
    };
    let is_known = fields::unknown(value, root).is_empty();
    Ok(is_known && schema.violations(value).await?.is_empty())
}

/// Settings that can never work.
fn settings(spec: &PipelineSpec, document: &YamlDocument) -> Vec<Finding> {
    let found = planner::lint(spec).into_iter();
    let found = found.map(|it| (it.field, it.is_error, it.text));
    let urls = urls::refused(spec).into_iter();
    let urls = urls.map(|it| (it.field, it.is_error, it.text));
    let app = spec.app_ref.as_ref().and_then(kinds::near_miss_app);
    let app = app.map(|(field, text)| (field.to_owned(), true, text));
    let all = found.chain(urls).chain(app);
    all.map(|(field, is_error, text)| Finding::of_field(document, &field, (is_error, text)))
        .collect()
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
