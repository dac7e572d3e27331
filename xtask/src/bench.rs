//! `cargo xtask bench NAME`: runs benchmarks.

use anyhow::bail;

use crate::{
    command::{cargo, run},
    kube,
};

/// Name, package, and what it measures.
const BENCHES: &[(&str, &str, &str)] = &[
    (
        "apiserver",
        "sluice-apiserver",
        "the embedded API over TLS, in memory and in a file, beside a real one if it is there",
    ),
    (
        "checks",
        "sluice-controller",
        "1,000 pipelines with two checks each: requests, writes, CPU and memory while nothing changes",
    ),
    (
        "dashboard",
        "sluice-server",
        "1,000 pipelines in Chromium: first load, first paint, change to screen, memory with 100 pages",
    ),
    (
        "hooks",
        "sluice-server",
        "signed hooks beside plain writes to the same API, and ten thousand wrong signatures (--real: on a real kube-apiserver)",
    ),
    (
        "inputs",
        "sluice-server",
        "10,000 polls a minute of 1,000 clusters that ask what to run, and their requests to the API server (--real: on a real kube-apiserver)",
    ),
    (
        "observe",
        "sluice-controller",
        "the pipeline reconciler: sync, memory, time from a leaf change to the status (--real: on real kube-apiservers)",
    ),
    (
        "promote",
        "sluice-git",
        "promotions in one large repository, against a clone for each; and hooks and strategies",
    ),
    (
        "strategies",
        "sluice-controller",
        "pipeline and promotion reconcilers: leaf change to opened pull request, and the cost of a promotion by strategy",
    ),
    (
        "trigger",
        "sluice-trigger",
        "1,000 triggers: from a source's event to the created run, calls and memory, in process",
    ),
];

/// Runs one benchmark, or lists them.
pub(crate) fn bench(name: Option<&str>, is_real: bool) -> anyhow::Result<()> {
    let Some(name) = name else {
        for (name, _, what) in BENCHES {
            eprintln!("{name}: {what}");
        }
        return Ok(());
    };
    // The benchmark of promotions is spread over several crates.
    let of_promote = |known: &str| name == "promote" && ["hooks", "strategies"].contains(&known);
    let is_part = |known: &str| known == name || of_promote(known);
    let parts: Vec<_> = BENCHES
        .iter()
        .filter(|(known, ..)| is_part(known))
        .collect();
    if parts.is_empty() {
        let known: Vec<&str> = BENCHES.iter().map(|(name, ..)| *name).collect();
        bail!(
            "no benchmark is called {name:?}; available: {}",
            known.join(", ")
        );
    }
    for (name, package, _) in parts {
        measure(name, package, is_real)?;
    }
    Ok(())
}

fn measure(name: &str, package: &str, is_real: bool) -> anyhow::Result<()> {
    let mut command = cargo(&["bench", "--locked", "--package", package, "--bench", name]);
    if is_real {
        let assets = kube::kube()?;
        command
            .args(["--", "--real"])
            .env("KUBEBUILDER_ASSETS", assets);
    } else if let Some(assets) = kube::built() {
        command.env("KUBEBUILDER_ASSETS", assets);
    }
    run(&mut command)
}
