//! `cargo xtask mutants --all PACKAGE…` and `--changed [COMMIT]`: tries every mutation that `cargo mutants`
//! knows, with one build for all of them.
//!
//! Every mutation is written into a copy of the workspace behind a switch, which an environment variable
//! turns on. Each mutation is tried with the tests that reach it, until one fails. What is known is stored
//! in `target/mutants`, so that a run goes on after an interruption.

mod accepted;
mod build;
mod coverage;
mod errors;
mod known;
mod places;
mod process;
mod report;
mod store;
mod switch;
mod trial;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::command::root;
use accepted::Accepted;
use build::{Built, LeftOut};
use coverage::{Coverage, Measurement, Test};
use known::Mutant;
use report::{Entry, Status};
use store::Results;
use trial::{Outcome, Trial};

/// What is tried, with which tests, and how long.
pub(crate) struct Options {
    /// The packages that are mutated.
    pub(crate) packages: Vec<String>,
    /// Only those whose name contains this text.
    pub(crate) filter: Option<String>,
    /// Only the lines that differ from this commit.
    pub(crate) changed: Option<String>,
    /// Further packages whose tests run.
    pub(crate) tests: Vec<String>,
    /// For the tests of one mutation.
    pub(crate) seconds: u64,
    /// For all mutations.
    pub(crate) minutes: Option<u64>,
    pub(crate) workers: usize,
}

/// Tries the mutations, and fails for survivors without a reason.
pub(crate) fn every(options: &Options) -> Result<()> {
    let accepted = Accepted::read()?;
    let folder = root().join("target/mutants");
    fs::create_dir_all(&folder).context("creating target/mutants")?;
    let _lock = lock(&folder)?;
    let mutants = known::list(
        &folder,
        &full_names(&options.packages),
        options.changed.as_deref(),
    )?;
    if mutants.is_empty() {
        eprintln!("there is nothing to mutate");
        return Ok(());
    }
    let keys = known::keys(&mutants);
    let built = build_known(&folder, &mutants, &keys, options)?;
    let key = store::hash((
        known::hash_of_crates()?,
        &keys,
        &options.tests,
        options.seconds,
    ));
    let deadline = options
        .minutes
        .map(|it| Instant::now() + Duration::from_mins(it));
    let coverage = measure(options, &folder, &built, key)?;
    let session = Session {
        mutants: &mutants,
        keys: &keys,
        built: &built,
        tests_by_mutation: coverage.tests_by_mutation(),
        coverage: &coverage,
        results: Results::open(&folder.join("results.jsonl"), key)?,
        deadline,
        limit: Duration::from_secs(options.seconds),
    };
    let entries = session.run(options)?;
    let is_whole = options.changed.is_none() && options.filter.is_none();
    report::print(&entries, &accepted, is_whole, options.changed.is_some())
}

/// Finds which tests reach which mutations, for half of the time.
fn measure(options: &Options, folder: &Path, built: &Built, key: u64) -> Result<Coverage> {
    let half = options.minutes.map(|it| Duration::from_mins(it) / 2);
    let measurement = Measurement {
        folder,
        programs: &built.programs,
        workers: options.workers,
        deadline: half.map(|it| Instant::now() + it),
        longest: Duration::from_secs(options.seconds) * 2,
    };
    let coverage = measurement.coverage(key)?;
    print_unused(&coverage);
    Ok(coverage)
}

/// Keeps other runs away from the copy and from what is stored, until it is dropped.
fn lock(folder: &Path) -> Result<File> {
    let lock = File::create(folder.join("lock")).context("creating target/mutants/lock")?;
    if lock.try_lock().is_err() {
        bail!("another run uses target/mutants");
    }
    Ok(lock)
}

fn print_unused(coverage: &Coverage) {
    for test in &coverage.failed {
        eprintln!("not used, because it fails without a mutation: {test}");
    }
    if coverage.not_run > 0 {
        eprintln!(
            "half of the time was over before {} tests: what the others do not kill is not tried",
            coverage.not_run
        );
    }
}

/// `planner` is `sluice-planner`.
fn full_names(packages: &[String]) -> Vec<String> {
    let names = packages.iter().map(|name| match name.contains('-') {
        true => name.clone(),
        false => format!("sluice-{name}"),
    });
    names.collect()
}

/// Builds without the mutations of which an earlier run knows that they do not compile.
fn build_known(
    folder: &Path,
    mutants: &[Mutant],
    keys: &[String],
    options: &Options,
) -> Result<Built> {
    let file = folder.join("left-out.json");
    let mut known: BTreeMap<String, (u64, LeftOut)> = store::read(&file).unwrap_or_default();
    let mut hashes = BTreeMap::new();
    for name in known::by_file(mutants).keys() {
        let source = fs::read_to_string(root().join(name)).with_context(|| name.to_string())?;
        // What can be switched may also change with the code that writes the switches.
        hashes.insert(
            *name,
            store::hash((source, include_str!("every/switch.rs"))),
        );
    }
    let is_same = |id: &usize| {
        let (hash, left_out) = known.get(&keys[*id])?;
        (*hash == hashes[mutants[*id].file.as_str()]).then(|| (*id, left_out.clone()))
    };
    let left_out = (0..mutants.len()).filter_map(|id| is_same(&id)).collect();
    let mut packages: BTreeSet<String> = mutants.iter().map(|it| it.package.clone()).collect();
    packages.extend(full_names(&options.tests));
    let built = build::build(folder, mutants, &packages, left_out)?;
    for (id, left_out) in &built.left_out {
        let hash = hashes[mutants[*id].file.as_str()];
        known.insert(keys[*id].clone(), (hash, left_out.clone()));
    }
    store::write(&file, &known)?;
    Ok(built)
}

/// One run over the mutations of a build.
struct Session<'a> {
    mutants: &'a [Mutant],
    keys: &'a [String],
    built: &'a Built,
    coverage: &'a Coverage,
    tests_by_mutation: BTreeMap<usize, Vec<usize>>,
    results: Results,
    deadline: Option<Instant>,
    /// For the tests of one mutation.
    limit: Duration,
}

impl Session<'_> {
    fn run(&self, options: &Options) -> Result<Vec<Entry>> {
        let filter = options.filter.as_deref().unwrap_or_default();
        let ids = 0..self.mutants.len();
        let ids: Vec<usize> = ids
            .filter(|id| self.mutants[*id].name.contains(filter))
            .collect();
        eprintln!(
            "trying {} mutations, each for up to {} s",
            ids.len(),
            self.limit.as_secs()
        );
        let entries = Mutex::new(BTreeMap::new());
        workers::for_each(options.workers, &ids, |id| {
            let started = Instant::now();
            let status = self.status(*id)?;
            let entry = self.entry(*id, status, started.elapsed());
            let mut entries = entries.lock().expect("no worker panics");
            entries.insert(*id, entry);
            if entries.len().is_multiple_of(200) {
                eprintln!("{} of {} mutations", entries.len(), ids.len());
            }
            Ok(())
        })?;
        let entries = entries.into_inner().expect("no worker panics");
        Ok(entries.into_values().collect())
    }

    fn status(&self, id: usize) -> Result<Status> {
        if let Some(left_out) = self.built.left_out.get(&id) {
            return Ok(Status::LeftOut(left_out.clone()));
        }
        if let Some(outcome) = self.results.outcome(&self.keys[id]) {
            return Ok(Status::Tried(outcome.clone()));
        }
        if self.deadline.is_some_and(|it| it < Instant::now()) {
            return Ok(Status::NotTried);
        }
        let trial = Trial {
            programs: &self.built.programs,
            limit: self.limit,
        };
        let outcome = trial.run(id, self.tests(id))?;
        let is_killed = matches!(outcome, Outcome::Killed { .. });
        if !is_killed && self.coverage.not_run > 0 {
            return Ok(Status::NotTried);
        }
        self.results.add(&self.keys[id], &outcome)?;
        if !is_killed {
            eprintln!("{outcome:?}: {}", self.mutants[id].name);
        }
        Ok(Status::Tried(outcome))
    }

    /// The tests that reach a mutation: the one that killed it the last time, then the fastest.
    fn tests(&self, id: usize) -> Vec<&Test> {
        let indices = self.tests_by_mutation.get(&id);
        let all = &self.coverage.tests;
        let mut tests: Vec<&Test> = indices.into_iter().flatten().map(|it| &all[*it]).collect();
        let killer = self.results.earlier_killer(&self.keys[id]);
        let is_killer = |it: &&Test| Some((it.program.as_str(), it.name.as_str())) == killer;
        if let Some(index) = tests.iter().position(is_killer) {
            let killer = tests.remove(index);
            tests.insert(0, killer);
        }
        tests
    }

    fn entry(&self, id: usize, status: Status, time: Duration) -> Entry {
        let mutant = &self.mutants[id];
        let expression = self.built.expressions.get(&id);
        let expression = expression.map_or(String::new(), |it| format!(": `{it}`"));
        Entry {
            package: mutant.package.clone(),
            folder: mutant.folder(),
            shown: format!("{}{expression}", mutant.name),
            key: format!("{}: {}{expression}", mutant.file, mutant.text()),
            status,
            time,
        }
    }
}
