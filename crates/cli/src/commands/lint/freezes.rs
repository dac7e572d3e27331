//! Freezes among the manifests: whether their times make sense, and whether each covers one of the
//! pipelines beside it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use api::{Freeze, Pipeline, pipeline::PipelineStatus};
use jiff::Timestamp;
use planner::{FreezeScope, covering_freezes};
use serde_json::Value;

use super::{Finding, yaml::YamlDocument};

/// A Freeze and where it is.
pub(super) struct LintedFreeze {
    pub(super) file: PathBuf,
    line: usize,
    freeze: Freeze,
}

/// The Freeze in a document. Objects without a namespace are in the given one.
pub(super) fn find(file: &Path, document: &YamlDocument, namespace: &str) -> Option<LintedFreeze> {
    let mut freeze = freeze(document.value.as_ref().ok()?)?;
    freeze
        .metadata
        .namespace
        .get_or_insert_with(|| namespace.to_owned());
    Some(LintedFreeze {
        file: file.to_owned(),
        line: document.line,
        freeze,
    })
}

fn freeze(value: &Value) -> Option<Freeze> {
    let is_it = value["kind"] == "Freeze";
    is_it.then(|| serde_json::from_value(value.clone()).ok())?
}

/// Times that cannot be understood, never open or never close.
pub(super) fn times(value: &Value, line: usize) -> Vec<Finding> {
    let found = freeze(value).map(|it| planner::lint_freeze(&it.spec, Timestamp::now()));
    let found = found.into_iter().flatten().map(|it| Finding {
        is_error: it.is_error,
        line,
        text: it.text,
        field: None,
    });
    found.collect()
}

/// Warns of a Freeze that covers none of the checked pipelines of its namespace, or in whose namespace none of the
/// known ones is. Where clusters and namespaces decide, manifests alone do not tell.
pub(super) fn coverage(
    linted: &LintedFreeze,
    pipelines: &[&Pipeline],
    known: &[&Pipeline],
) -> Option<Finding> {
    let freeze = &linted.freeze;
    let known = known.iter().copied();
    if let Some(found) = planner::lint_freeze_namespace(freeze, known) {
        return Some(Finding::warning(linted.line, found.text));
    }
    let spec = &freeze.spec;
    let is_decided_elsewhere = spec.cluster_selector.is_some() || spec.namespace_selector.is_some();
    let mut here = pipelines
        .iter()
        .filter(|it| it.metadata.namespace == freeze.metadata.namespace)
        .peekable();
    if is_decided_elsewhere || here.peek().is_none() {
        return None;
    }
    let text = "the Freeze covers no environment of the pipelines that were checked";
    let is_covered = here.any(|pipeline| covers(freeze, pipeline));
    (!is_covered).then(|| Finding::warning(linted.line, text))
}

fn covers(freeze: &Freeze, pipeline: &Pipeline) -> bool {
    let scope = FreezeScope {
        freeze_namespace: None,
        namespace_labels: Some(&BTreeMap::new()),
        cluster_labels: &|_, _| None,
    };
    let model = PipelineStatus::default();
    let covering = covering_freezes(pipeline, &model, [freeze], &scope, Timestamp::UNIX_EPOCH);
    !covering.is_empty()
}
