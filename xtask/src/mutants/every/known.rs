//! The mutations that `cargo mutants` knows of some packages.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::store;
use crate::command::{cargo, output, root};

/// One mutation in the list of `cargo mutants`.
#[derive(Clone, Deserialize)]
pub(super) struct Mutant {
    pub(super) file: String,
    pub(super) function: Option<Function>,
    pub(super) genre: Genre,
    /// File, line, column and what is replaced.
    pub(super) name: String,
    pub(super) package: String,
    pub(super) replacement: String,
    pub(super) span: Span,
}

#[derive(Clone, Deserialize)]
pub(super) struct Function {
    pub(super) return_type: String,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
pub(super) enum Genre {
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArmGuard,
    MatchArm,
    StructField,
    /// Of a newer version of cargo-mutants.
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Deserialize)]
pub(super) struct Span {
    pub(super) start: Position,
    pub(super) end: Position,
}

/// Line and column in characters, both counted from 1.
#[derive(Clone, Deserialize)]
pub(super) struct Position {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Mutant {
    /// What is replaced, without the place.
    pub(super) fn text(&self) -> &str {
        self.name
            .split_once(": ")
            .map_or(self.name.as_str(), |it| it.1)
    }

    /// The folder of the package.
    pub(super) fn folder(&self) -> String {
        let folder = self.file.split_once("src/").map_or("", |it| it.0);
        folder.to_owned()
    }
}

impl Position {
    /// Bytes from the start of the file.
    pub(super) fn offset(&self, source: &str) -> usize {
        let lines = source.split_inclusive('\n');
        let before: usize = lines.clone().take(self.line - 1).map(str::len).sum();
        let mut line = lines.skip(self.line - 1);
        let characters = line.next().unwrap_or_default().chars();
        before
            + characters
                .take(self.column - 1)
                .map(char::len_utf8)
                .sum::<usize>()
    }
}

/// The mutations of packages, or of all if none is named; only of the lines that differ from the merge base
/// with a commit if there is one.
pub(super) fn list(
    folder: &Path,
    packages: &[String],
    changed: Option<&str>,
) -> Result<Vec<Mutant>> {
    let installed = cargo(&["mutants", "--version"]).output();
    if !installed.is_ok_and(|it| it.status.success()) {
        bail!(
            "cargo mutants is not installed; install it with `cargo install --locked cargo-mutants`"
        );
    }
    let mut command = cargo(&["mutants", "--list", "--json"]);
    for package in packages {
        command.args(["--package", package]);
    }
    if packages.is_empty() {
        command.arg("--workspace");
    }
    if let Some(base) = changed {
        let diff = changed_lines(base)?;
        if diff.is_empty() {
            return Ok(Vec::new());
        }
        let file = folder.join("changed.diff");
        fs::write(&file, diff).context("writing the changed lines")?;
        command.arg("--in-diff").arg(file);
    }
    let listed = output(&mut command)?;
    parse(&listed)
}

/// Where no line can be mutated, cargo-mutants prints no list at all.
fn parse(listed: &str) -> Result<Vec<Mutant>> {
    if listed.trim().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(listed).context("reading the list of cargo mutants")
}

fn changed_lines(base: &str) -> Result<String> {
    let range = format!("{base}...HEAD");
    output(
        Command::new("git")
            .args(["diff", &range, "--", "crates"])
            .current_dir(root()),
    )
}

/// A name for each mutation that stays the same when lines are added before it: file, mutation, and its
/// number among equal ones.
pub(super) fn keys(mutants: &[Mutant]) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let keys = mutants.iter().map(|it| {
        let key = format!("{}: {}", it.file, it.text());
        let count = counts.entry(key.clone()).or_default();
        *count += 1;
        format!("{key} #{count}")
    });
    keys.collect()
}

/// A number that changes with any file of the crates.
pub(super) fn hash_of_crates() -> Result<u64> {
    let files = output(
        Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .arg("crates")
            .current_dir(root()),
    )?;
    let read = |name: &str| fs::read(root().join(name)).unwrap_or_default();
    let files: Vec<_> = files.lines().map(|name| (name, read(name))).collect();
    Ok(store::hash(files))
}

/// The places of mutations by file, in the order of the list.
pub(super) fn by_file(mutants: &[Mutant]) -> BTreeMap<&str, Vec<usize>> {
    let mut files: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (id, mutant) in mutants.iter().enumerate() {
        files.entry(&mutant.file).or_default().push(id);
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_without_anything_to_mutate_has_no_list() {
        assert!(parse("\n").unwrap().is_empty());
        assert!(parse("{").is_err());
    }
}
