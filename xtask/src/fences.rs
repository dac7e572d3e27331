//! The fences between crates: who may use whom, and what stays out of the pure ones.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::command::{cargo, output};

/// Which of our crates each of our crates may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("sluice-api", &[]),
    ("sluice-planner", &["sluice-api"]),
    ("sluice-listener", &[]),
    ("sluice-net", &[]),
    ("sluice-git", &["sluice-net"]),
    (
        "sluice-controller",
        &["sluice-api", "sluice-planner", "sluice-git", "sluice-net"],
    ),
    ("sluice-trigger", &["sluice-api"]),
    (
        "sluice-server",
        &[
            "sluice-api",
            "sluice-planner",
            "sluice-trigger",
            "sluice-listener",
        ],
    ),
    ("sluice-apiserver", &["sluice-listener"]),
    ("sluice-testbed", &["sluice-api", "sluice-apiserver"]),
    (
        "sluice",
        &[
            "sluice-api",
            "sluice-planner",
            "sluice-git",
            "sluice-net",
            "sluice-controller",
            "sluice-server",
            "sluice-apiserver",
            "sluice-testbed",
            "sluice-trigger",
        ],
    ),
    ("xtask", &[]),
];

/// What must not be anywhere below a crate.
const KEPT_OUT: &[(&str, &[&str])] = &[
    ("sluice-api", RUNTIMES_AND_CLIENTS),
    ("sluice-planner", RUNTIMES_AND_CLIENTS),
    ("sluice-net", &["kube", "kube-core", "k8s-openapi"]),
    ("sluice-git", &["kube", "kube-core", "k8s-openapi"]),
];

const RUNTIMES_AND_CLIENTS: &[&str] = &[
    "tokio",
    "async-std",
    "smol",
    "hyper",
    "reqwest",
    "kube-client",
    "kube-runtime",
    "tower",
];

/// Fails on the first arrow or dependency that should not be.
pub(crate) fn check() -> anyhow::Result<()> {
    check_arrows()?;
    for (package, forbidden) in KEPT_OUT {
        check_kept_out(package, forbidden)?;
    }
    eprintln!("fences: ok");
    Ok(())
}

fn check_arrows() -> anyhow::Result<()> {
    let metadata = output(&mut cargo(&[
        "metadata",
        "--no-deps",
        "--format-version",
        "1",
    ]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let arrows: BTreeMap<_, _> = ARROWS.iter().copied().collect();
    for package in metadata["packages"]
        .as_array()
        .context("cargo metadata has packages")?
    {
        let name = package["name"].as_str().unwrap_or_default();
        let allowed = arrows.get(name).with_context(|| {
            format!("crate {name} has no entry in xtask/src/fences.rs: say whom it may use")
        })?;
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or_default();
            let is_ours = arrows.contains_key(used) && !dependency["path"].is_null();
            let is_for_tests = dependency["kind"] == "dev";
            if is_ours && !is_for_tests && !allowed.contains(&used) {
                bail!("{name} may not use {used} (see the table in ARCHITECTURE.md)");
            }
        }
    }
    Ok(())
}

fn check_kept_out(package: &str, forbidden: &[&str]) -> anyhow::Result<()> {
    let tree = output(&mut cargo(&[
        "tree",
        "--package",
        package,
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--locked",
    ]))?;
    for line in tree.lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        if forbidden.contains(&name) {
            bail!(
                "{package} must not pull in {name}; `cargo tree -p {package} -i {name}` shows how it came"
            );
        }
    }
    Ok(())
}
