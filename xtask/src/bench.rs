//! `cargo xtask bench NAME`: figures, printed.

use anyhow::bail;

use crate::command::{cargo, run};

/// Name, the package it lives in, what it measures.
const BENCHES: &[(&str, &str, &str)] = &[
    (
        "apiserver",
        "sluice-apiserver",
        "requests per second of the embedded API, in process",
    ),
    (
        "trigger",
        "sluice-controller",
        "1,000 triggers: from a source's event to the created run, calls and memory, in process",
    ),
];

/// Runs one benchmark, or lists them.
pub(crate) fn bench(name: Option<&str>) -> anyhow::Result<()> {
    let Some(name) = name else {
        for (name, _, what) in BENCHES {
            eprintln!("{name}: {what}");
        }
        return Ok(());
    };
    let Some((name, package, _)) = BENCHES.iter().find(|(known, ..)| *known == name) else {
        let known: Vec<&str> = BENCHES.iter().map(|(name, ..)| *name).collect();
        bail!(
            "no benchmark called {name:?}; there are: {}",
            known.join(", ")
        );
    };
    run(&mut cargo(&[
        "bench",
        "--locked",
        "--package",
        package,
        "--bench",
        name,
    ]))
}
