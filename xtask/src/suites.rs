//! Runs test programs, several at the same time: most of them wait for processes and not for the CPU.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Write as _},
    path::PathBuf,
    process::{Command, ExitStatus},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::command::{cargo, output};

/// How many programs run at the same time.
const CONCURRENCY: usize = 2;

/// The slowest programs, which start first, so that none of them runs alone at the end.
const SLOWEST: &[&str] = &[
    "controller faults",
    "server browser",
    "server http",
    "planner rules",
    "cli demo",
    "controller simulation",
    "cli soak",
    "planner planner",
    "cli commands",
    "cli guides",
];

/// A test program.
pub(crate) struct Suite {
    /// Crate and file, such as `server http`.
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    /// Where it runs.
    pub(crate) folder: PathBuf,
    /// A variable that is set for it.
    variable: Option<(&'static str, &'static str)>,
}

impl Suite {
    /// The same program with a variable.
    pub(crate) fn with(&self, variable: &'static str, value: &'static str) -> Self {
        Self {
            name: format!("{} {variable}={value}", self.name),
            program: self.program.clone(),
            folder: self.folder.clone(),
            variable: Some((variable, value)),
        }
    }

    /// Its place in the list of the slowest.
    fn rank(&self) -> usize {
        let place = SLOWEST.iter().position(|name| *name == self.name);
        place.unwrap_or(SLOWEST.len())
    }

    fn run(&self, seed: (&str, &str)) -> anyhow::Result<Finished> {
        let started = Instant::now();
        let mut log = tempfile::tempfile().context("cannot create a log")?;
        let mut command = Command::new(&self.program);
        let status = command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .envs([Some(seed), self.variable].into_iter().flatten())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?)
            .status()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        io::Seek::rewind(&mut log)?;
        Ok(Finished {
            status,
            time: started.elapsed(),
            log,
        })
    }
}

/// A test program that has ended.
struct Finished {
    status: ExitStatus,
    time: Duration,
    log: File,
}

/// A line that cargo prints for each program that it built.
#[derive(Deserialize)]
struct Artifact {
    manifest_path: Option<PathBuf>,
    executable: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds all test programs of the workspace.
pub(crate) fn build() -> anyhow::Result<Vec<Suite>> {
    let built = output(&mut cargo(&[
        "test",
        "--workspace",
        "--locked",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ]))?;
    let mut suites = programs(&built);
    suites.sort_by_key(Suite::rank);
    Ok(suites)
}

/// The test programs in the messages of cargo.
pub(crate) fn programs(messages: &str) -> Vec<Suite> {
    let artifacts = messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    artifacts.filter_map(suite).collect()
}

fn suite(artifact: Artifact) -> Option<Suite> {
    let folder = artifact.manifest_path?.parent()?.to_owned();
    let (program, name) = (artifact.executable?, artifact.target?.name);
    let package = folder.file_name()?.to_string_lossy().into_owned();
    artifact.profile?.test.then(|| Suite {
        name: format!("{package} {name}"),
        program,
        folder,
        variable: None,
    })
}

/// Runs all programs with the seed of property tests, prints what each printed when it has ended, and the slowest; fails if one failed.
pub(crate) fn run(suites: Vec<Suite>, seed: (&str, &str)) -> anyhow::Result<()> {
    let waiting = Mutex::new(VecDeque::from(suites));
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let worker = || -> anyhow::Result<()> {
            loop {
                let next = waiting.lock().expect("no worker panics").pop_front();
                let Some(suite) = next else { return Ok(()) };
                let finished = suite.run(seed)?;
                let mut done = done.lock().expect("no worker panics");
                print(&suite, &finished)?;
                done.push((finished.time, finished.status, suite.name));
            }
        };
        let workers: Vec<_> = (0..CONCURRENCY).map(|_| scope.spawn(worker)).collect();
        let ends = workers
            .into_iter()
            .map(|it| it.join().expect("no worker panics"));
        ends.collect::<anyhow::Result<()>>()
    })?;
    let mut done = done.into_inner().expect("no worker panics");
    done.sort_by_key(|(time, ..)| std::cmp::Reverse(*time));
    eprintln!("\nthe slowest of {} test programs:", done.len());
    for (time, _, name) in done.iter().take(12) {
        eprintln!("{:>7.1} s  {name}", time.as_secs_f64());
    }
    let failed = done.iter().filter(|(_, status, _)| !status.success());
    let failed: Vec<&str> = failed.map(|(.., name)| name.as_str()).collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn print(suite: &Suite, finished: &Finished) -> anyhow::Result<()> {
    let mut terminal = io::stdout().lock();
    let seconds = finished.time.as_secs_f64();
    writeln!(terminal, "\n$ {} ({seconds:.1} s)", suite.name)?;
    io::copy(&mut &finished.log, &mut terminal)?;
    if !finished.status.success() {
        writeln!(terminal, "{} failed ({})", suite.name, finished.status)?;
    }
    Ok(())
}
