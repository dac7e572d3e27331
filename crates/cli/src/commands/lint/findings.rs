//! What `sluice lint` found, as text, as JSON or YAML, or as annotations of a CI system.

use std::{
    collections::BTreeSet,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::bail;
use clap::ValueEnum;
use serde_json::{Value, json};

use super::super::{
    format::count,
    get::write_json,
    line_wrapper::LineWrapper,
    message::print_message,
    terminal::{RED, YELLOW, clean, paint},
    yaml::{self, YamlDocument},
};
use super::lines::line_of;

/// The output format of `sluice lint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LintOutput {
    Text,
    Json,
    Yaml,
    /// Workflow commands of GitHub Actions, which annotate the lines of a pull request
    Github,
}

/// An error or a warning, and its line.
pub(super) struct Finding {
    pub(super) is_error: bool,
    pub(super) line: usize,
    pub(super) text: String,
    /// The field, where one has it.
    pub(super) field: Option<String>,
}

impl Finding {
    pub(super) fn error(line: usize, text: impl Into<String>) -> Self {
        Self {
            is_error: true,
            line,
            text: text.into(),
            field: None,
        }
    }

    pub(super) fn warning(line: usize, text: impl Into<String>) -> Self {
        Self {
            is_error: false,
            ..Self::error(line, text)
        }
    }

    /// About a field of a document.
    pub(super) fn of_field(
        document: &YamlDocument,
        field: &str,
        (is_error, text): (bool, String),
    ) -> Self {
        Self {
            is_error,
            line: line_of(document, field),
            text,
            field: (!field.is_empty()).then(|| field.to_owned()),
        }
    }

    fn severity(&self) -> &'static str {
        match self.is_error {
            true => "error",
            false => "warning",
        }
    }
}

/// All findings of a run, and what was not checked.
pub(super) struct LintReport {
    output: LintOutput,
    pub(super) objects: usize,
    findings: Vec<(PathBuf, Finding)>,
    skipped: BTreeSet<String>,
}

impl LintReport {
    pub(super) fn new(output: LintOutput) -> Self {
        Self {
            output,
            objects: 0,
            findings: Vec::new(),
            skipped: BTreeSet::new(),
        }
    }

    /// Whether text for people is printed.
    pub(super) fn is_text(&self) -> bool {
        self.output == LintOutput::Text
    }

    /// Adds findings about a file. JSON and YAML are written at the end.
    pub(super) fn add(
        &mut self,
        file: &Path,
        findings: Vec<Finding>,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        for finding in findings {
            match self.output {
                LintOutput::Text => write_text(file, &finding, out)?,
                LintOutput::Github => write_annotation(file, &finding, out)?,
                LintOutput::Json | LintOutput::Yaml => {}
            }
            self.findings.push((file.to_owned(), finding));
        }
        Ok(())
    }

    /// Says that something was not checked, and what to do about it.
    pub(super) fn skip(&mut self, what: impl Into<String>) {
        self.skipped.insert(what.into());
    }

    /// Writes the end of the output. Fails if there are errors, or nothing to check.
    pub(super) fn conclude(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let errors = self.findings.iter().filter(|(_, it)| it.is_error).count();
        let warnings = self.findings.len() - errors;
        match self.output {
            LintOutput::Json => write_json(&self.document(errors, warnings), out)?,
            LintOutput::Yaml => yaml::write(out, &self.document(errors, warnings))?,
            LintOutput::Text | LintOutput::Github => {
                for skipped in &self.skipped {
                    print_message(&format!("not checked: {skipped}"));
                }
            }
        }
        let objects = count(self.objects, "object");
        let warnings = count(warnings, "warning");
        if errors > 0 {
            bail!("{} and {warnings} in {objects}", count(errors, "error"));
        }
        if self.objects == 0 {
            bail!("found no objects of Sluice's kinds");
        }
        print_message(&format!("{objects} checked, no errors, {warnings}"));
        Ok(())
    }

    fn document(&self, errors: usize, warnings: usize) -> Value {
        let findings = self.findings.iter().map(|(file, finding)| {
            json!({
                "file": file,
                "line": finding.line,
                "field": finding.field,
                "severity": finding.severity(),
                "text": finding.text,
            })
        });
        json!({
            "objects": self.objects,
            "errors": errors,
            "warnings": warnings,
            "findings": findings.collect::<Vec<_>>(),
            "skipped": self.skipped,
        })
    }
}

fn write_text(file: &Path, finding: &Finding, out: &mut dyn Write) -> std::io::Result<()> {
    let style = if finding.is_error { RED } else { YELLOW };
    let location = clean(&format!("{}:{}", file.display(), finding.line));
    let severity = paint(style, finding.severity());
    let mut out = LineWrapper::new(out);
    writeln!(out, "{location}: {severity}: {}", clean(&finding.text))
}

/// `::error file=a.yaml,line=3::the text`
fn write_annotation(file: &Path, finding: &Finding, out: &mut dyn Write) -> std::io::Result<()> {
    let escaped = |text: &str| {
        let text = text.replace('%', "%25").replace('\r', "%0D");
        text.replace('\n', "%0A")
    };
    let file = escaped(&file.display().to_string());
    let file = file.replace(':', "%3A").replace(',', "%2C");
    let (severity, line) = (finding.severity(), finding.line);
    let text = escaped(&finding.text);
    writeln!(out, "::{severity} file={file},line={line}::{text}")
}
