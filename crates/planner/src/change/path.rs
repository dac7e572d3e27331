//! Which files may be proposed.
//!
//! Files that define what runs on a push are refused: forges read them
//! in hidden directories, also from branches that nobody has reviewed.

use api::{Change, change::ChangePhase};

use super::NOT_CONFIGURED;
use crate::{Failure, Remedy, hold::list};

/// Stands for the namespace of the change in the name of a folder.
const NAMESPACE: &str = "${namespace}";

/// Files outside hidden directories that forges take instructions from.
const INSTRUCTIONS: [&str; 4] = [
    "azure-pipelines.yaml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yaml",
    "bitbucket-pipelines.yml",
];

/// Why a change is not carried out, given the folders that may change; none where no repository is
/// configured at all. What is proposed already is followed whatever the folders are now.
pub fn refuse(change: &Change, folders: Option<&[String]>) -> Option<Failure> {
    let stuck = |reason: &str, message: String| Failure {
        reason: reason.to_owned(),
        message,
        remedy: Remedy::WaitForEdit,
    };
    let Some(folders) = folders else {
        let message = "no repository is configured to propose changes in; start the controller with \
                       --authoring-url and the flags beside it";
        return Some(stuck(NOT_CONFIGURED, message.to_owned()));
    };
    let phase = change.status.as_ref().and_then(|status| status.phase);
    if phase == Some(ChangePhase::Proposed) {
        return None;
    }
    let path = &change.spec.path;
    let namespace = change.metadata.namespace.as_deref().unwrap_or_default();
    let because = objection(path, folders, namespace)?;
    let message = format!("{path:?} is not proposed: {because}");
    Some(stuck("PathRefused", message))
}

fn objection(path: &str, folders: &[String], namespace: &str) -> Option<String> {
    let names: Vec<&str> = path.split('/').collect();
    if names.contains(&"") || path.contains(|it: char| it.is_control() || it == '\\') {
        return Some("it must be a plain path inside the repository".to_owned());
    }
    if names.iter().any(|name| name.starts_with('.')) {
        return Some("no part of it may begin with a dot".to_owned());
    }
    let name = names.last().copied().unwrap_or_default();
    if INSTRUCTIONS.iter().any(|it| it.eq_ignore_ascii_case(name)) {
        return Some("forges run what a file of that name says".to_owned());
    }
    if !path.ends_with(".yaml") && !path.ends_with(".yml") {
        return Some("only files that end in .yaml or .yml are".to_owned());
    }
    let allowed: Vec<String> = folders.iter().map(|it| filled(it, namespace)).collect();
    let is_inside = |folder: &String| {
        let rest = path.strip_prefix(folder.as_str());
        folder.is_empty() || rest.is_some_and(|rest| rest.starts_with('/'))
    };
    let is_allowed = allowed.iter().any(is_inside);
    (!is_allowed).then(|| {
        let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
        let allowed = list(&allowed);
        format!("only files in {allowed} are; choose one there, or extend --authoring-paths")
    })
}

/// Where the manifest of a pipeline would go.
pub fn suggested_path(folders: &[String], namespace: &str, name: &str) -> String {
    let folder = folders.first().map(String::as_str).unwrap_or_default();
    let own = if folder.contains(NAMESPACE) {
        String::new()
    } else {
        format!("{namespace}/")
    };
    let folder = filled(folder, namespace);
    let folder = if folder.is_empty() {
        "pipelines"
    } else {
        &folder
    };
    format!("{folder}/{own}{name}.yaml")
}

/// A folder for one namespace, empty for the whole repository.
fn filled(folder: &str, namespace: &str) -> String {
    let folder = folder.trim_start_matches("./").trim_end_matches('/');
    match folder {
        "." => String::new(),
        folder => folder.replace(NAMESPACE, namespace),
    }
}
