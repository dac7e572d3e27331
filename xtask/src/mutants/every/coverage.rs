//! Runs every test once by itself without a mutation: how long it takes, and which mutations it reaches.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::process::{self, End};
use super::store;
use super::workers::for_each;
use crate::suites::Suite;

/// For listing the tests of a program.
const LIMIT: Duration = Duration::from_mins(1);

/// A test that passes without mutation, or takes too long to be run with one.
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

/// How the tests are run.
pub(super) struct Measurement<'a> {
    pub(super) folder: &'a Path,
    pub(super) programs: &'a [Suite],
    pub(super) workers: usize,
    /// No test is started after this time.
    pub(super) deadline: Option<Instant>,
    /// A slower test is stopped. It would not fit into the time of a mutation, so that it does not matter
    /// whether it passes; what it reached until then is known.
    pub(super) longest: Duration,
}

impl Measurement<'_> {
    /// Runs the tests, or reads what they did if `key` is the one of the stored coverage.
    pub(super) fn coverage(&self, key: u64) -> Result<Coverage> {
        let file = self.folder.join("coverage.json");
        if let Some((known, coverage)) = store::read::<(u64, Coverage)>(&file)
            && known == key
        {
            return Ok(coverage);
        }
        let coverage = self.run_all()?;
        if coverage.not_run == 0 {
            store::write(&file, &(key, &coverage))?;
        }
        Ok(coverage)
    }

    fn run_all(&self) -> Result<Coverage> {
        let mut waiting = Vec::new();
        for program in self.programs {
            waiting.extend(names(program)?.into_iter().map(|name| (program, name)));
        }
        eprintln!("running {} tests once, each by itself", waiting.len());
        let coverage = Mutex::new(Coverage::default());
        for_each(self.workers, &waiting, |(program, name)| {
            let is_late = self.deadline.is_some_and(|it| it < Instant::now());
            let test = match is_late {
                true => None,
                false => self.run_one(program, name)?,
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

    fn run_one(&self, program: &Suite, name: &str) -> Result<Option<Test>> {
        let record = tempfile::NamedTempFile::new_in(self.folder)?;
        let mut command = process::tests(program, &[name]);
        command.env("MUTATIONS_REACHED", record.path());
        let finished = process::run(&mut command, self.longest)?;
        let recorded = fs::read_to_string(record.path())?;
        let test = Test {
            program: program.name.clone(),
            name: name.to_owned(),
            time: finished.time,
            reached: recorded.lines().filter_map(|it| it.parse().ok()).collect(),
        };
        Ok((finished.end != End::Failed).then_some(test))
    }
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
