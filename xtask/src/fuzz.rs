//! `cargo xtask fuzz NAME [SECONDS]`: runs a randomized test repeatedly with different seeds.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};

use crate::command::{cargo, run};

/// Name, arguments of `cargo test`, and what it tests.
const TARGETS: &[(&str, &[&str], &str)] = &[
    (
        "router",
        &["--test", "fuzz"],
        "damaged bytes over a connection to the embedded API",
    ),
    (
        "requests",
        &["--test", "hostile", "nothing_a_client_sends"],
        "odd but well-formed requests to the embedded API",
    ),
    (
        "apply",
        &["--lib", "apply_agrees_with_a_simple_model"],
        "server-side apply against a simple model",
    ),
];
/// Number of cases per run.
const CASES: &str = "2000";

/// Runs one test until the time is over, or lists them.
pub(crate) fn fuzz(name: Option<&str>, seconds: u64) -> anyhow::Result<()> {
    let Some(name) = name else {
        for (name, _, what) in TARGETS {
            eprintln!("{name}: {what}");
        }
        return Ok(());
    };
    let Some((_, arguments, _)) = TARGETS.iter().find(|(known, ..)| *known == name) else {
        let known: Vec<&str> = TARGETS.iter().map(|(name, ..)| *name).collect();
        bail!(
            "no test is called {name:?}; available: {}",
            known.join(", ")
        );
    };
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    loop {
        let seed_text = seed.to_string();
        eprintln!("PROPTEST_RNG_SEED={seed_text} PROPTEST_CASES={CASES}");
        let mut command = cargo(&["test", "--locked", "--package", "sluice-apiserver"]);
        command
            .args(*arguments)
            .env("PROPTEST_RNG_SEED", &seed_text)
            .env("PROPTEST_CASES", CASES);
        run(&mut command).with_context(|| format!("with the seed {seed}"))?;
        if Instant::now() >= end {
            return Ok(());
        }
        seed += 1;
    }
}
