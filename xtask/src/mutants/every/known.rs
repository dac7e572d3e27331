//! The mutations that `cargo mutants` knows of some packages.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::command::{cargo, output};

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
}

impl Position {
    /// Bytes from the start of the file.
    pub(super) fn offset(&self, source: &str) -> usize {
        let lines = source.split_inclusive('\n');
        let before: usize = lines.clone().take(self.line - 1).map(str::len).sum();
        let mut line = lines.skip(self.line - 1);
        let characters = line.next().unwrap_or_default().chars();
        before + characters.take(self.column - 1).map(char::len_utf8).sum::<usize>()
    }
}

/// The mutations of packages; those in the lines of a diff if there is one, of all packages if none is named.
pub(super) fn list(packages: &[String], diff: Option<&Path>) -> Result<Vec<Mutant>> {
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
    if let Some(diff) = diff {
        command.arg("--in-diff").arg(diff);
    }
    let listed = output(&mut command)?;
    serde_json::from_str(&listed).context("reading the list of cargo mutants")
}

/// The places of mutations by file, in the order of the list.
pub(super) fn by_file(mutants: &[Mutant]) -> BTreeMap<&str, Vec<usize>> {
    let mut files: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (id, mutant) in mutants.iter().enumerate() {
        files.entry(&mutant.file).or_default().push(id);
    }
    files
}
