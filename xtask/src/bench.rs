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
        "promote",
        "sluice-git",
        "promotions in one large repository, against a clone for each",
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
