//! `cargo xtask fuzz NAME [SECONDS]`: runs a randomized test repeatedly with different seeds.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};

use crate::command::{cargo, run};

/// A randomized test.
struct Target {
    name: &'static str,
    package: &'static str,
    /// Arguments of `cargo test`.
    test: &'static [&'static str],
    /// What it tests.
    what: &'static str,
    /// Number of cases per run: a run takes some seconds, so that the time is kept.
    cases: u32,
}

const TARGETS: &[Target] = &[
    Target {
        name: "router",
        package: "sluice-apiserver",
        test: &["--test", "fuzz"],
        what: "damaged bytes over a connection to the embedded API",
        cases: 2000,
    },
    Target {
        name: "requests",
        package: "sluice-apiserver",
        test: &["--test", "hostile", "nothing_a_client_sends"],
        what: "odd but well-formed requests to the embedded API",
        cases: 2000,
    },
    Target {
        name: "apply",
        package: "sluice-apiserver",
        test: &["--lib", "apply_agrees_with_a_simple_model"],
        what: "server-side apply against a simple model",
        cases: 2000,
    },
    Target {
        name: "hooks",
        package: "sluice-server",
        test: &["--test", "http", "damaged_hooks"],
        what: "damaged and signed webhooks of every sender",
        cases: 100,
    },
    Target {
        name: "rest",
        package: "sluice-server",
        test: &["--test", "http", "damaged_requests_to_rest"],
        what: "damaged requests to REST",
        cases: 100,
    },
    Target {
        name: "forges",
        package: "sluice-git",
        test: &["--test", "suite", "damaged_answers_of_forges"],
        what: "the clients of six forges with damaged answers",
        cases: 300,
    },
    Target {
        name: "registries",
        package: "sluice-registry",
        test: &["--test", "damaged"],
        what: "the client of OCI registries with damaged answers",
        cases: 1000,
    },
    Target {
        name: "git",
        package: "sluice-git",
        test: &["--lib", "damaged"],
        what: "damaged output of git",
        cases: 20_000,
    },
    Target {
        name: "yaml",
        package: "sluice-git",
        test: &["--test", "suite", "damaged_file"],
        what: "edits of damaged manifests, compared by another parser",
        cases: 1000,
    },
    Target {
        name: "kubeconfigs",
        package: "sluice-controller",
        test: &["--lib", "damaged_kubeconfigs"],
        what: "damaged kubeconfigs of leaf clusters",
        cases: 500,
    },
];

/// Runs one test until the time is over, all of them for a part of the time each, or lists them.
pub(crate) fn fuzz(name: Option<&str>, seconds: u64) -> anyhow::Result<()> {
    let Some(name) = name else {
        for target in TARGETS {
            eprintln!("{}: {}", target.name, target.what);
        }
        return Ok(());
    };
    let is_meant = |it: &&Target| name == "all" || it.name == name;
    let meant: Vec<&Target> = TARGETS.iter().filter(is_meant).collect();
    if meant.is_empty() {
        let known: Vec<&str> = TARGETS.iter().map(|it| it.name).collect();
        bail!(
            "no test is called {name:?}; available: all, {}",
            known.join(", ")
        );
    }
    let each = Duration::from_secs(seconds) / u32::try_from(meant.len())?;
    let failed: Vec<String> = meant
        .into_iter()
        .filter_map(|target| target.run_for(each).err())
        .map(|error| format!("{error:#}"))
        .collect();
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    Ok(())
}

impl Target {
    /// Repeats the test with other seeds until the time is over. The first run may build it.
    fn run_for(&self, time: Duration) -> anyhow::Result<()> {
        run(self.command().arg("--no-run"))?;
        let end = Instant::now() + time;
        let mut seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let first = seed;
        while Instant::now() < end {
            let (seed_text, cases) = (seed.to_string(), self.cases.to_string());
            eprintln!("PROPTEST_RNG_SEED={seed_text} PROPTEST_CASES={cases}");
            let mut command = self.command();
            command
                .env("PROPTEST_RNG_SEED", &seed_text)
                .env("PROPTEST_CASES", cases);
            run(&mut command).with_context(|| format!("{} with the seed {seed}", self.name))?;
            seed += 1;
        }
        let (name, runs, cases) = (self.name, seed - first, self.cases);
        eprintln!("{name}: {runs} runs of {cases} cases from seed {first} on, no failure");
        Ok(())
    }

    fn command(&self) -> std::process::Command {
        let mut command = cargo(&["test", "--locked"]);
        match self.test.first() {
            // The features of the whole workspace, as in CI, so that nothing is built twice.
            Some(&"--test") => command.arg("--workspace"),
            _ => command.args(["--package", self.package]),
        };
        command.args(self.test);
        command
    }
}
