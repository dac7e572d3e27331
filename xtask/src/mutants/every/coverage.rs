//! Runs every test once by itself without a mutation: how long it takes, and which mutations it reaches.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

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
#[derive(Default, Deserialize, Serialize)]
pub(super) struct Coverage {
    pub(super) tests: Vec<Test>,
    /// Program and name of tests that fail without a mutation.
    pub(super) failed: Vec<String>,
    /// How many tests did not run, because the time was over.
    pub(super) not_run: usize,
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

/// Runs the tests of the programs until a deadline, or reads what they did if `key` is the one of the stored
/// coverage.
pub(super) fn measure(
    folder: &Path,
    key: u64,
    programs: &[Suite],
    workers: usize,
    deadline: Option<Instant>,
) -> Result<Coverage> {
    let file = folder.join("coverage.json");
    if let Some((known, coverage)) = store::read::<(u64, Coverage)>(&file)
        && known == key
    {
        return Ok(coverage);
    }
    let coverage = run_all(folder, programs, workers, deadline)?;
    if coverage.not_run == 0 {
        store::write(&file, &(key, &coverage))?;
    }
    Ok(coverage)
}

fn run_all(
    folder: &Path,
    programs: &[Suite],
    workers: usize,
    deadline: Option<Instant>,
) -> Result<Coverage> {
    let mut waiting = Vec::new();
    for program in programs {
        waiting.extend(names(program)?.into_iter().map(|name| (program, name)));
    }
    eprintln!("running {} tests once, each by itself", waiting.len());
    let coverage = Mutex::new(Coverage::default());
    let next = AtomicUsize::new(0);
    for_each(workers, &waiting, |(program, name)| {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let is_late = deadline.is_some_and(|it| it < Instant::now());
        let test = match is_late {
            true => None,
            false => run_one(program, name, &folder.join(format!("reached-{number}")))?,
        };
        let mut coverage = coverage.lock().expect("no worker panics");
        match test {
            Some(test) => coverage.tests.push(test),
            None if is_late => coverage.not_run += 1,
            None => coverage.failed.push(format!("{}: {name}", program.name)),
        }
        Ok(())
    })?;
    let mut coverage = coverage.into_inner().expect("no worker panics");
    coverage.tests.sort_by_key(|it| it.time);
    Ok(coverage)
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
