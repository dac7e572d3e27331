//! `cargo xtask mutants [NAME]`: breaks one guard at a time in a copy of the workspace, and expects the test
//! that is named for it to fail.
//!
//! The list has a mutation for every gate of the planner and for the invariants that tests of single crates
//! can show. The working tree is not changed; copy and build are in `target/mutants` and are used again.

mod every;
mod list;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::command::{cargo, output, root};
pub(crate) use every::{Options, every};
use list::Mutation;

/// How many seeds of the simulation are tried.
const SEEDS: u64 = 40;

/// How a test run of a mutated crate ended.
#[derive(Debug, PartialEq)]
enum TestResult {
    /// The named test failed.
    Killed,
    /// The named test passed.
    Survived,
    /// The mutated code does not compile, or no test has that name.
    NotRun,
}

impl TestResult {
    fn word(&self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Survived => "SURVIVED",
            Self::NotRun => "NOT RUN",
        }
    }
}

/// Runs the mutations whose name, guard or package contains the text; all without it.
pub(crate) fn mutants(filter: Option<&str>) -> Result<()> {
    let is_wanted = |it: &&Mutation| {
        let text = format!("{} {} {}", it.name, it.guards, it.package);
        filter.is_none_or(|filter| text.contains(filter))
    };
    let wanted: Vec<&Mutation> = list::all().filter(is_wanted).collect();
    ensure!(!wanted.is_empty(), "no mutation matches {filter:?}");
    let folder = root().join("target/mutants");
    let tree = folder.join("tree");
    copy_workspace(&tree, |_, bytes| Ok(bytes))?;
    let mut table = String::new();
    let mut is_complete = true;
    for mutation in wanted {
        let result = run_one(&tree, &folder.join("build"), mutation)?;
        is_complete &= result == TestResult::Killed;
        eprintln!("{}: {}", mutation.name, result.word());
        table.push_str(&row(mutation, &result));
    }
    let head = "| guards | mutation | test | result |\n| --- | --- | --- | --- |\n";
    write!(std::io::stdout(), "{head}{table}")?;
    ensure!(is_complete, "some mutations were not killed; see the table");
    Ok(())
}

fn row(mutation: &Mutation, result: &TestResult) -> String {
    let Mutation {
        guards, name, test, ..
    } = mutation;
    format!("| {guards} | {name} | `{test}` | {} |\n", result.word())
}

/// Copies the files that git knows, with a change for each path, if the contents differ, so that unchanged
/// crates are not built again.
fn copy_workspace(tree: &Path, change: impl Fn(&str, Vec<u8>) -> Result<Vec<u8>>) -> Result<()> {
    let listed = output(
        Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .current_dir(root()),
    )?;
    for name in listed.lines() {
        let (from, to) = (root().join(name), tree.join(name));
        // A file that was deleted and not committed yet.
        let Ok(bytes) = fs::read(&from) else {
            continue;
        };
        write_if_different(&to, &change(name, bytes)?)?;
    }
    Ok(())
}

fn write_if_different(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|known| known == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

/// The text of the file with the mutation.
fn mutated(mutation: &Mutation, text: &str) -> Result<String> {
    let Mutation {
        name,
        file,
        original,
        ..
    } = mutation;
    match text.matches(original).count() {
        1 => Ok(text.replacen(original, mutation.replacement, 1)),
        count => bail!(
            "the mutation {name:?} replaces a text that is {count} times in {file}, not once: adapt it"
        ),
    }
}

fn run_one(tree: &Path, build: &Path, mutation: &Mutation) -> Result<TestResult> {
    let path = tree.join(mutation.file);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    write_if_different(&path, mutated(mutation, &text)?.as_bytes())?;
    let result = test(tree, build, mutation);
    write_if_different(&path, text.as_bytes())?;
    result
}

fn test(tree: &Path, build: &Path, mutation: &Mutation) -> Result<TestResult> {
    // The features of the whole workspace, as in CI, where a suite has a name.
    let crates = match mutation.suite.first() {
        Some(&"--test") => &["--workspace"][..],
        _ => &["--package", mutation.package],
    };
    let output = cargo(&["test", "--locked"])
        .args(crates)
        .args(mutation.suite)
        .args(["--", mutation.test])
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", build)
        .env("PROPTEST_RNG_SEED", "20261116")
        .envs(seeds(mutation))
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("running the tests of {}", mutation.package))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let is_named = |line: &&str| line.starts_with("test ") && line.contains(mutation.test);
    let mut results = said.lines().filter(is_named);
    Ok(match results.clone().any(|line| line.ends_with("FAILED")) {
        true => TestResult::Killed,
        false if results.any(|line| line.ends_with(" ok")) => TestResult::Survived,
        false => TestResult::NotRun,
    })
}

/// The simulation begins with the seed that found it. A change of other code lets that seed tell another
/// story, so that some more are tried.
fn seeds(mutation: &Mutation) -> Vec<(&'static str, String)> {
    let first = mutation
        .seed
        .map(|seed| ("SLUICE_FIRST_SEED", seed.to_string()));
    let count = first.as_ref().map(|_| ("SLUICE_SEEDS", SEEDS.to_string()));
    first.into_iter().chain(count).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use super::*;

    fn source(mutation: &Mutation) -> PathBuf {
        root().join(mutation.file)
    }

    #[test]
    fn every_mutation_fits_the_code_and_names_a_test() {
        for mutation in list::all() {
            let text = fs::read_to_string(source(mutation)).expect(mutation.file);
            let changed = mutated(mutation, &text).expect("the text is there once");
            assert_ne!(changed, text, "{}", mutation.name);
            let folder = mutation.package.strip_prefix("sluice-");
            let folder = root().join("crates").join(folder.expect("a crate of ours"));
            let found = Command::new("grep")
                .args(["-rqE", &format!("fn {}\\(", mutation.test)])
                .arg(folder)
                .status();
            assert!(found.expect("grep runs").success(), "{}", mutation.test);
        }
    }

    #[test]
    fn every_gate_has_a_mutation() {
        let gates = root().join("crates/planner/src/gate");
        let mut missing = BTreeSet::new();
        for entry in fs::read_dir(gates).expect("the gates") {
            let path = entry.expect("an entry").path();
            let text = fs::read_to_string(&path).unwrap_or_default();
            let Some((_, rest)) = text.split_once("GATE: Gate = Gate {\n    name: \"") else {
                continue;
            };
            let name = rest.split('"').next().unwrap_or_default().to_owned();
            let guards = format!("gate {name}");
            if !list::all().any(|it| it.guards == guards) {
                missing.insert(name);
            }
        }
        assert_eq!(missing, BTreeSet::new(), "add a line to the list");
    }
    /// What must always hold (ARCHITECTURE.md), as the list calls it.
    const INVARIANTS: [&str; 16] = [
        "a report answered 2xx is stored",
        "answers to clusters are never older than the question",
        "hub writes carry the resourceVersion",
        "messages keep one id",
        "no approval counts for another change",
        "no redirects",
        "no request to an internal address",
        "no secret in a text",
        "no side effect while a Freeze holds",
        "no side effect without the Lease",
        "no write when nothing changed",
        "one pull request per promotion",
        "only our CheckRun opens its gate",
        "only the intended scalars change",
        "pushes compare the tip that was read",
        "signatures are checked over the raw bytes",
    ];

    #[test]
    fn every_invariant_has_a_mutation() {
        let guarded: BTreeSet<&str> = list::all().map(|it| it.guards).collect();
        let missing = INVARIANTS.iter().filter(|it| !guarded.contains(*it));
        assert_eq!(missing.collect::<Vec<_>>(), Vec::<&&str>::new());
    }
}
