//! Checks the dependencies between our crates, and the libraries that some of them must not use.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::command::{cargo, output, root};

/// The crates of ours that each crate may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("sluice-api", &[]),
    ("sluice-expression", &[]),
    ("sluice-planner", &["sluice-api", "sluice-expression"]),
    ("sluice-net", &[]),
    ("sluice-git", &["sluice-net"]),
    ("sluice-registry", &["sluice-net"]),
    ("sluice-runtime", &["sluice-net"]),
    ("sluice-listener", &[]),
    (
        "sluice-controller",
        &[
            "sluice-api",
            "sluice-expression",
            "sluice-planner",
            "sluice-git",
            "sluice-registry",
            "sluice-net",
            "sluice-runtime",
        ],
    ),
    ("sluice-trigger", &["sluice-api", "sluice-runtime"]),
    (
        "sluice-server",
        &[
            "sluice-api",
            "sluice-planner",
            "sluice-trigger",
            "sluice-net",
            "sluice-runtime",
            "sluice-listener",
        ],
    ),
    (
        "sluice-apiserver",
        &["sluice-expression", "sluice-listener"],
    ),
    ("sluice-testbed", &["sluice-api", "sluice-apiserver"]),
    ("xtask", &[]),
];

/// The crate of the binary, which may depend on all others.
const BINARY: &str = "sluice";

/// Libraries that must not be among the direct or indirect dependencies of a crate.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("sluice-api", RUNTIMES_AND_CLIENTS),
    ("sluice-expression", RUNTIMES_AND_CLIENTS),
    ("sluice-planner", RUNTIMES_AND_CLIENTS),
    ("sluice-git", KUBERNETES),
    ("sluice-registry", KUBERNETES),
    ("sluice-net", KUBERNETES),
];

const KUBERNETES: &[&str] = &["kube", "kube-core", "k8s-openapi"];

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

/// Text that must not be in the sources of a folder: `trigger::plan` is pure, like `planner`, and the
/// only part of `trigger` that `server` uses.
const FORBIDDEN_TEXT: &[(&str, &[&str])] = &[
    (
        "crates/trigger/src/plan",
        &[
            "async ",
            "tokio",
            "kube::",
            "runtime::",
            "crate::controller",
        ],
    ),
    (
        "crates/server/src",
        &["trigger::controller", "trigger::cross_dc"],
    ),
];

/// Fails on the first dependency that is not allowed.
pub(crate) fn check() -> anyhow::Result<()> {
    check_allowed()?;
    for (package, forbidden) in FORBIDDEN {
        check_forbidden(package, forbidden)?;
    }
    for (folder, forbidden) in FORBIDDEN_TEXT {
        check_forbidden_text(&root().join(folder), forbidden)?;
    }
    eprintln!("crate dependencies: ok");
    Ok(())
}

fn check_allowed() -> anyhow::Result<()> {
    let metadata = output(&mut cargo(&[
        "metadata",
        "--no-deps",
        "--format-version",
        "1",
    ]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let allowed: BTreeMap<_, _> = ALLOWED.iter().copied().collect();
    for package in metadata["packages"]
        .as_array()
        .context("cargo metadata has packages")?
    {
        let name = package["name"].as_str().unwrap_or_default();
        if name == BINARY {
            continue;
        }
        let may_use = allowed.get(name).with_context(|| {
            format!("crate {name} is missing in ALLOWED of xtask/src/crate_dependencies.rs")
        })?;
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or_default();
            let is_ours =
                (allowed.contains_key(used) || used == BINARY) && !dependency["path"].is_null();
            let is_for_tests = dependency["kind"] == "dev";
            if is_ours && !is_for_tests && !may_use.contains(&used) {
                bail!("{name} may not depend on {used} (see the table in ARCHITECTURE.md)");
            }
        }
    }
    Ok(())
}

fn check_forbidden(package: &str, forbidden: &[&str]) -> anyhow::Result<()> {
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
                "{package} must not depend on {name}; `cargo tree -p {package} -i {name}` shows the path"
            );
        }
    }
    Ok(())
}

fn check_forbidden_text(folder: &Path, forbidden: &[&str]) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {folder:?}"))? {
        let path = entry?.path();
        if path.is_dir() {
            check_forbidden_text(&path, forbidden)?;
            continue;
        }
        let source = fs::read_to_string(&path)?;
        if let Some(text) = forbidden.iter().find(|text| source.contains(**text)) {
            bail!("{} must not contain {text:?}", path.display());
        }
    }
    Ok(())
}
