//! The guides in docs/: every command and every manifest in them is tried.
//!
//! `testbed::guide` says what becomes of each block. Those that need a cluster have a real one here.
#![expect(clippy::unwrap_used, reason = "a failing test is a panic")]

mod cluster;

use std::{collections::BTreeSet, path::Path};

use testbed::guide::repository;

/// Guides that tests follow: here, or where it says.
const FOLLOWED: &[&str] = &[
    // controller/tests/trigger/examples.rs
    "tekton.md",
];

/// Those whose blocks nobody tries yet.
const NOT_YET: &[&str] = &[
    "approvals.md",
    "dashboard.md",
    "forges.md",
    "hooks.md",
    "promotions.md",
];

pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_sluice"))
}

#[test]
fn every_guide_is_tried() {
    let folder = std::fs::read_dir(repository().join("docs")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> = names.filter(|name| name.ends_with(".md")).collect();
    let known = FOLLOWED.iter().chain(NOT_YET).map(|name| name.to_string());
    assert_eq!(there, known.collect());
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn the_shell_speaks_to_the_cluster() {
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
