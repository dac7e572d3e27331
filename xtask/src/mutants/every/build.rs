//! Builds a copy of the workspace with all mutations behind switches.
//!
//! Mutations that do not compile are taken out until the rest does. None is lost: those are in
//! [`Built::left_out`] with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::super::{copy_workspace, write_if_different};
use super::errors::{self, CompilerError};
use super::known::{Genre, Mutant, by_file};
use super::switch::switched;
use crate::command::{cargo, root};
use crate::suites::{self, Suite};

const MANIFEST: &str = "[package]\nname = \"mutation_switch\"\nedition.workspace = true\n";
const DEPENDENCY: &str = "\n[dependencies.mutation_switch]\npath = \"../mutation_switch\"\n";
const LINTS: &str = "[workspace.lints.rust]\n";

/// Why a mutation is not in the build.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) enum LeftOut {
    /// The mutation would compile in place of the code, but not behind a switch.
    NotSwitchable(String),
    /// It does not compile.
    NotViable(String),
}

/// The test programs with the mutations.
pub(super) struct Built {
    pub(super) programs: Vec<Suite>,
    pub(super) left_out: BTreeMap<usize, LeftOut>,
    /// The expressions whose operators are mutated.
    pub(super) expressions: BTreeMap<usize, String>,
}

/// Builds the tests of packages. `left_out` are the mutations that are known not to compile.
pub(super) fn build(
    folder: &Path,
    mutants: &[Mutant],
    packages: &BTreeSet<String>,
    mut left_out: BTreeMap<usize, LeftOut>,
) -> Result<Built> {
    let tree = folder.join("tree");
    loop {
        let (not_switchable, expressions) = write_tree(&tree, mutants, &left_out)?;
        let built = compile(&tree, folder, packages)?;
        let errors = errors::parse(&built);
        if errors.is_empty() {
            left_out.extend(not_switchable);
            let programs = suites::programs(&built);
            ensure!(!programs.is_empty(), "no tests were built; see above");
            return Ok(Built {
                programs,
                left_out,
                expressions,
            });
        }
        let before = left_out.len();
        for error in &errors {
            left_out.extend(blamed(&tree, mutants, error)?);
        }
        eprintln!(
            "{} mutations do not compile and were taken out",
            left_out.len()
        );
        let first = errors.first().map(|it| it.rendered.as_str());
        ensure!(
            left_out.len() > before,
            "an error is not about a mutation: {}",
            first.unwrap_or_default()
        );
    }
}

type Written = (BTreeMap<usize, LeftOut>, BTreeMap<usize, String>);

/// Writes the workspace with switches, and returns what cannot carry one.
fn write_tree(
    tree: &Path,
    mutants: &[Mutant],
    left_out: &BTreeMap<usize, LeftOut>,
) -> Result<Written> {
    let files = by_file(mutants);
    let mut not_switchable = BTreeMap::new();
    let mut expressions = BTreeMap::new();
    let mut texts = BTreeMap::new();
    for (file, ids) in &files {
        let source = fs::read_to_string(root().join(file)).with_context(|| file.to_string())?;
        let ids = ids.iter().filter(|id| !left_out.contains_key(id));
        let done = switched(&source, ids.map(|id| (*id, &mutants[*id])))
            .with_context(|| format!("writing switches into {file}"))?;
        let reasons = done.left_out.into_iter();
        not_switchable.extend(reasons.map(|(id, why)| (id, LeftOut::NotSwitchable(why.into()))));
        expressions.extend(done.expressions);
        texts.insert(*file, done.text);
    }
    let manifests: BTreeSet<String> = mutants
        .iter()
        .map(|it| it.folder() + "Cargo.toml")
        .collect();
    copy_workspace(tree, |name, bytes| {
        Ok(match texts.get(name) {
            Some(text) => text.clone().into_bytes(),
            None if manifests.contains(name) => [&bytes[..], DEPENDENCY.as_bytes()].concat(),
            None if name == "Cargo.toml" => without_lints(bytes)?,
            None => bytes,
        })
    })?;
    let folder = tree.join("crates/mutation_switch");
    write_if_different(&folder.join("Cargo.toml"), MANIFEST.as_bytes())?;
    let source = include_bytes!("switch_crate.rs");
    write_if_different(&folder.join("src/lib.rs"), source)?;
    Ok((not_switchable, expressions))
}

fn without_lints(manifest: Vec<u8>) -> Result<Vec<u8>> {
    let text = String::from_utf8(manifest)?;
    let allowed = format!("{LINTS}warnings = \"allow\"\n");
    Ok(text.replacen(LINTS, &allowed, 1).into_bytes())
}

/// Builds tests, and returns the messages of cargo.
fn compile(tree: &Path, folder: &Path, packages: &BTreeSet<String>) -> Result<String> {
    let mut command = cargo(&["test", "--no-run", "--message-format=json"]);
    for package in packages {
        command.args(["--package", package]);
    }
    let output = command
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", folder.join("build"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("building the tests with mutations")?;
    Ok(String::from_utf8(output.stdout)?)
}

/// The mutations that an error is about.
fn blamed(tree: &Path, mutants: &[Mutant], error: &CompilerError) -> Result<Vec<(usize, LeftOut)>> {
    let (ids, is_inside) = errors::mutations(error, |file| {
        fs::read_to_string(tree.join(file)).unwrap_or_default()
    });
    let reason = |id: usize| {
        let text = error.text.clone();
        let is_switchable = is_inside && error.code.as_deref() != Some(errors::NOT_CONST);
        match is_switchable && mutants[id].genre != Genre::StructField {
            true => LeftOut::NotViable(text),
            false => LeftOut::NotSwitchable(text),
        }
    };
    Ok(ids.into_iter().map(|id| (id, reason(id))).collect())
}
