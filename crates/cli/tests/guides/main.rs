//! Runs all commands and manifests of the guides in docs/.
//!
//! `testbed::guide` describes how blocks are run. Guides that need a cluster use a real control plane.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test is a panic"
)]

mod chart;
mod checks;
mod cluster;
mod concepts;
mod demo;
mod examples;
mod feedback;
mod fleets;
mod github;
mod gitless;
mod install;
mod kubelet;
mod monitoring;
mod operating;
mod operator;
mod release;
mod security;
mod sign_in;
mod weave;

use std::{collections::BTreeSet, path::Path};

use testbed::guide::{Guide, repository};

/// Guides that tests follow: here, or where it says.
const FOLLOWED: &[&str] = &[
    "approvals.md",
    "checks.md",
    // authoring/guide.rs
    "authoring.md",
    "chat.md",
    "clusters.md",
    "concepts.md",
    "dashboard.md",
    "feedback.md",
    "fleets.md",
    "freezes.md",
    "github.md",
    "gitless.md",
    "hooks.md",
    "install.md",
    "migrate-pipeline-controller.md",
    "migrate-trigger-operator.md",
    "operating.md",
    "promotions.md",
    "quickstart.md",
    "resourcesets.md",
    "security.md",
    "sign-in.md",
    "signatures.md",
    // trigger/tests/trigger/examples.rs
    "tekton.md",
    "troubleshooting.md",
];

/// Those without anything to try.
const WORDS: &[&str] = &[
    "benchmarks.md",
    "cli.md",
    "faq.md",
    "forges.md",
    "reference.md",
];

pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_sluice"))
}

#[test]
fn every_guide_is_tested() {
    let folder = std::fs::read_dir(repository().join("docs")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> = names.filter(|name| name.ends_with(".md")).collect();
    let known = FOLLOWED.iter().chain(WORDS).map(|name| name.to_string());
    assert_eq!(there, known.collect());
    for name in WORDS {
        let guide = Guide::read(&format!("docs/{name}")).unwrap();
        assert!(guide.blocks().is_empty(), "{name}");
    }
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn the_shell_uses_the_cluster() {
    let mut cluster = cluster::Cluster::start().await;
    let version = cluster.client.apiserver_version().await.unwrap();
    let said = cluster
        .shell
        .sh("kubectl version; helm version")
        .await
        .unwrap();
    assert!(said.contains(&version.git_version), "{said}");
    let said = cluster.shell.sh("kubectl sluice version").await.unwrap();
    assert!(said.contains(env!("CARGO_PKG_VERSION")), "{said}");
}
