//! One repository of 10,000 manifests, 100 promotions: our mirror against a clone each.
//!
//! The remote is a bare repository on the same disk. Both ways edit one marked file, commit and
//! push a branch, one after the other, in the same run. `PROMOTE_FILES` and `PROMOTE_EDITS` make
//! it smaller or larger.
#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use git::credentials::Credentials;
use git::forge::AppTokens;
use git::mirror::{Mirror, MirrorRetention, Mirrors, RemoteRequestCounts};
use git::names::BranchName;
use git::paths::PathLimits;
use git::propose::{CommitMessage, Proposal, ProposalResult, RequestedEdit};
use git::repository_url::RepositoryUrl;
use git::runner::{GitLimits, GitRunner};
use net::{AddressPolicy, OutboundHttp};

const ANY_ADDRESS: AddressPolicy = AddressPolicy::UNRESTRICTED;

fn main() {
    let files = from_environment("PROMOTE_FILES", 10_000);
    let edits = from_environment("PROMOTE_EDITS", 100).min(files);
    let folder = tempfile::tempdir().expect("a folder");
    let remote = remote(folder.path(), files);
    println!("one repository, {files} manifests, {edits} promotions, remote on the same disk");
    // Each takes seconds and as long as the others: a few tell what all would take.
    let clones = by_clones(folder.path(), &remote, edits.min(7));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (first, mirror) = runtime.block_on(by_mirror(folder.path(), &remote, edits));
    report("clone + edit + push", &clones);
    report("mirror", &mirror);
    println!("mirror, first promotion (fetches everything): {first:.1?}");
    let ratio = median(&clones).as_secs_f64() / median(&mirror).as_secs_f64();
    println!("median promotion: {ratio:.1} times faster");
}

fn from_environment(name: &str, default: usize) -> usize {
    let value = std::env::var(name).ok();
    value
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}

/// Runs git and wants it to succeed.
fn run(folder: &Path, arguments: &[&str], input: &[u8]) {
    let mut child = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@example.com"])
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("git runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    // Commands that read nothing may be gone already.
    let _ = stdin.write_all(input);
    drop(stdin);
    assert!(
        child.wait().expect("git ends").success(),
        "git {arguments:?}"
    );
}

fn manifest(number: usize, version: &str) -> String {
    format!(
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata:\n  name: app-{number}\n\
         spec:\n  chart:\n    spec:\n      chart: app\n      version: {version} # {{\"$promotion\": \"team:app-{number}:prod\"}}\n\
         \u{20} values:\n    replicas: 3\n    note: {}\n",
        "text ".repeat(60)
    )
}

fn path(number: usize) -> String {
    format!("teams/{}/apps/{number}/release.yaml", number % 100)
}

/// A bare repository with all manifests in one commit.
fn remote(folder: &Path, files: usize) -> String {
    run(
        folder,
        &["init", "--bare", "--initial-branch=main", "remote.git"],
        b"",
    );
    let mut script =
        b"commit refs/heads/main\ncommitter A <a@b> 1700000000 +0000\ndata 1\nx\n".to_vec();
    for number in 0..files {
        let content = manifest(number, "1.0.0");
        script.extend(
            format!(
                "M 100644 inline {}\ndata {}\n{content}\n",
                path(number),
                content.len()
            )
            .bytes(),
        );
    }
    let repository = folder.join("remote.git");
    run(&repository, &["fast-import", "--quiet"], &script);
    run(&repository, &["repack", "-a", "-d", "-q"], b"");
    format!("file://{}", repository.display())
}

fn by_clones(folder: &Path, remote: &str, edits: usize) -> Vec<Duration> {
    let promote = |number: usize| {
        let started = Instant::now();
        let clone = folder.join("clone");
        let branch = format!("cloned-{number}");
        run(
            folder,
            &[
                "clone",
                "--quiet",
                "--depth=1",
                "--single-branch",
                remote,
                "clone",
            ],
            b"",
        );
        run(&clone, &["checkout", "--quiet", "-b", &branch], b"");
        std::fs::write(clone.join(path(number)), manifest(number, "2.0.0")).expect("written");
        run(&clone, &["commit", "--quiet", "-a", "-m", "promote"], b"");
        run(&clone, &["push", "--quiet", "origin", &branch], b"");
        std::fs::remove_dir_all(&clone).expect("removed");
        started.elapsed()
    };
    (0..edits).map(promote).collect()
}

async fn by_mirror(folder: &Path, remote: &str, edits: usize) -> (Duration, Vec<Duration>) {
    let runner = GitRunner::new(folder, GitLimits::default(), ANY_ADDRESS).expect("a runner");
    let tokens = Arc::new(AppTokens::new(Arc::new(OutboundHttp::new(ANY_ADDRESS))));
    let mirrors =
        Mirrors::new(runner, folder, MirrorRetention::default(), tokens).expect("mirrors");
    let url = RepositoryUrl::parse(remote, ANY_ADDRESS).expect("a URL");
    let login = Credentials::from_entries(&BTreeMap::new()).expect("nobody");
    let mirror = mirrors.open(&url, &login);
    let mut taken = Vec::new();
    for number in 0..edits {
        taken.push(promote(&mirror, number).await);
    }
    let traffic = mirror.remote_requests();
    let bytes = size(&folder.join("mirrors"));
    let RemoteRequestCounts {
        lists,
        fetches,
        pushes,
    } = traffic;
    println!(
        "mirror: one clone, {lists} lists of branches, {fetches} fetches, {pushes} pushes, {bytes} bytes on disk in the end"
    );
    (taken.remove(0), taken)
}

async fn promote(mirror: &Mirror, number: usize) -> Duration {
    let proposal = Proposal {
        base: BranchName::new("main").expect("a name"),
        branch: BranchName::new(format!("promotion-team-app-{number}-prod")).expect("a name"),
        message: CommitMessage {
            title: format!("Promote team/app-{number} in prod to 2.0.0"),
            body: String::new(),
            promotion: number.to_string(),
            owner: format!("team/app-{number}/prod"),
        },
        at: "2026-11-15T00:00:00Z".parse().expect("a time"),
        edit: RequestedEdit::MarkedFields {
            marker: format!("team:app-{number}:prod"),
            value: "2.0.0".into(),
        },
        paths: PathLimits::default(),
        replaceable: None,
    };
    let started = Instant::now();
    let outcome = mirror
        .propose(&proposal, &|_| true)
        .await
        .expect("it can be proposed");
    assert!(matches!(outcome, ProposalResult::Proposed(_)));
    started.elapsed()
}

fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let one = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(one).sum()
}

fn at(taken: &[Duration], part: f64) -> Duration {
    let mut sorted = taken.to_vec();
    sorted.sort();
    let last = sorted.len().saturating_sub(1);
    sorted
        .get((last as f64 * part).round() as usize)
        .copied()
        .unwrap_or_default()
}

fn median(taken: &[Duration]) -> Duration {
    at(taken, 0.5)
}

fn report(name: &str, taken: &[Duration]) {
    println!(
        "{name}: p50 {:.1?}, p99 {:.1?}",
        median(taken),
        at(taken, 0.99)
    );
}
