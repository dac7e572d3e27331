//! Runs every test once by itself without a mutation: how long it takes, and which mutations it reaches.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::process::{self, End};
use super::store;
use super::workers::for_each;
use crate::suites::Suite;

/// A test that takes longer is not used.
const LIMIT: Duration = Duration::from_mins(5);

/// A test that passes without mutation.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Test {
    /// The name of its program, such as `planner rules`.
    pub(super) program: String,
    pub(super) name: String,
    /// Of the process with this test only.
    pub(super) time: Duration,
    reached: BTreeSet<usize>,
}

/// All tests, the fastest first, and those that cannot be used.
#[derive(Deserialize, Serialize)]
pub(super) struct Coverage {
    pub(super) tests: Vec<Test>,
    /// Program and name of tests that fail without a mutation.
    pub(super) failed: Vec<String>,
}

impl Coverage {
    /// The tests that reach each mutation, by their place in the list.
    pub(super) fn tests_by_mutation(&self) -> BTreeMap<usize, Vec<usize>> {
        let mut tests: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, test) in self.tests.iter().enumerate() {
            for mutation in &test.reached {
                tests.entry(*mutation).or_default().push(index);
            }
        }
        tests
    }
}

/// Runs the tests of the programs, or reads what they did if `key` is the one of the stored coverage.
pub(super) fn measure(
    folder: &Path,
    key: u64,
    programs: &[Suite],
    workers: usize,
) -> Result<Coverage> {
    let file = folder.join("coverage.json");
    if let Some((known, coverage)) = store::read::<(u64, Coverage)>(&file)
        && known == key
    {
        return Ok(coverage);
    }
    let mut waiting = Vec::new();
    for program in programs {
        waiting.extend(names(program)?.into_iter().map(|name| (program, name)));
    }
    eprintln!("running {} tests once, each by itself", waiting.len());
    let (tests, failed) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let next = AtomicUsize::new(0);
    for_each(workers, &waiting, |(program, name)| {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let record = folder.join(format!("reached-{number}"));
        match run_one(program, name, &record)? {
            Some(test) => tests.lock().expect("no worker panics").push(test),
            None => {
                let failed = &mut failed.lock().expect("no worker panics");
                failed.push(format!("{}: {name}", program.name));
            }
        }
        Ok(())
    })?;
    let mut tests = tests.into_inner().expect("no worker panics");
    tests.sort_by_key(|it: &Test| it.time);
    let failed = failed.into_inner().expect("no worker panics");
    let stored = (key, Coverage { tests, failed });
    store::write(&file, &stored)?;
    Ok(stored.1)
}

fn run_one(program: &Suite, name: &str, record: &Path) -> Result<Option<Test>> {
    let mut command = process::tests(program, &[name]);
    command.env("MUTATIONS_REACHED", record);
    let finished = process::run(&mut command, LIMIT)?;
    let recorded = fs::read_to_string(record).unwrap_or_default();
    // Nothing was reached if there is no file.
    let _ = fs::remove_file(record);
    let test = Test {
        program: program.name.clone(),
        name: name.to_owned(),
        time: finished.time,
        reached: recorded.lines().filter_map(|it| it.parse().ok()).collect(),
    };
    Ok((finished.end == End::Passed).then_some(test))
}

/// The tests of a program without those that are ignored.
fn names(program: &Suite) -> Result<Vec<String>> {
    let ignored: BTreeSet<String> = list(program, &["--ignored"])?.into_iter().collect();
    let mut names = list(program, &[])?;
    names.retain(|name| !ignored.contains(name));
    Ok(names)
}

fn list(program: &Suite, further: &[&str]) -> Result<Vec<String>> {
    let mut command = process::limited(program);
    command.args(["--list", "--format", "terse"]).args(further);
    let listed = process::run(&mut command, LIMIT)
        .with_context(|| format!("listing the tests of {}", program.name))?;
    if listed.end != End::Passed {
        bail!(
            "{} does not list its tests: {}",
            program.name,
            listed.printed
        );
    }
    let names = listed
        .printed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    Ok(names.map(str::to_owned).collect())
}
