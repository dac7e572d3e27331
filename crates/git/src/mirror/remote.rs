//! Lists the branches of a remote and fetches them.

use std::collections::BTreeMap;

use super::{Error, Mirror, error, local_reference};
use crate::names::{BranchName, ObjectId};
use crate::runner::{GitCommand, RemoteAccess};

/// The head commits of branches on the remote. Branches that do not exist are absent.
pub(super) async fn list_branches(
    mirror: &Mirror,
    access: &RemoteAccess,
    wanted: &[&BranchName],
) -> Result<BTreeMap<BranchName, ObjectId>, Error> {
    let references: Vec<String> = wanted.iter().map(|branch| branch.reference()).collect();
    let mut arguments = vec!["ls-remote", "--refs", "--", mirror.url.as_str()];
    arguments.extend(references.iter().map(String::as_str));
    let attempted = "list the repository's branches";
    let run = GitCommand::new(attempted, &mirror.folder, &arguments).access(access);
    let completed = mirror.runner.execute(run).await?;
    if !completed.success {
        return Err(error::classify_failure(
            attempted.to_owned(),
            &completed.stderr,
        ));
    }
    let listed = String::from_utf8_lossy(&completed.output);
    let parse = |line: &str| {
        let (id, name) = line.split_once('\t')?;
        // `ls-remote` also matches the ends of names.
        let branch = wanted.iter().find(|branch| branch.reference() == name)?;
        Some(((*branch).clone(), ObjectId::new(id).ok()?))
    };
    Ok(listed.lines().filter_map(parse).collect())
}

/// Checks that the credentials may push: a dry run that would delete a branch that nobody has. The remote
/// asks for the right to write before it lists its branches.
pub(super) async fn check_push(mirror: &Mirror, access: &RemoteAccess) -> Result<(), Error> {
    let arguments = [
        "push",
        "--dry-run",
        "--porcelain",
        "--no-verify",
        "--",
        mirror.url.as_str(),
        ":refs/heads/sluice-preflight-check",
    ];
    let attempted = "check the right to push";
    let run = GitCommand::new(attempted, &mirror.folder, &arguments).access(access);
    let completed = mirror.runner.execute(run).await?;
    match completed.success {
        true => Ok(()),
        false => Err(error::classify_failure(
            attempted.to_owned(),
            &completed.stderr,
        )),
    }
}

/// Fetches the head commits of branches without their history.
pub(super) async fn fetch(
    mirror: &Mirror,
    access: &RemoteAccess,
    branches: &[&BranchName],
) -> Result<(), Error> {
    let references = branches
        .iter()
        .map(|branch| format!("+{}:{}", branch.reference(), local_reference(branch)));
    let references: Vec<String> = references.collect();
    let mut arguments = vec![
        "fetch",
        "--quiet",
        "--depth=1",
        "--no-tags",
        "--no-recurse-submodules",
        "--no-write-fetch-head",
        "--no-auto-maintenance",
        "--",
        mirror.url.as_str(),
    ];
    arguments.extend(references.iter().map(String::as_str));
    let attempted = "fetch from the repository";
    let run = GitCommand::new(attempted, &mirror.folder, &arguments).access(access);
    let completed = mirror.runner.execute(run).await?;
    if completed.success {
        return Ok(());
    }
    Err(error::classify_failure(
        attempted.to_owned(),
        &completed.stderr,
    ))
}
