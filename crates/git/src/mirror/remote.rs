//! Asking a remote for its branches, and bringing them here.

use std::collections::BTreeMap;

use super::{Error, Mirror, error, local_reference};
use crate::names::{BranchName, ObjectId};
use crate::runner::{Access, Run};

/// Where the wanted branches are on the remote. Those that do not exist are absent.
pub(super) async fn look(
    mirror: &Mirror,
    access: &Access,
    wanted: &[&BranchName],
) -> Result<BTreeMap<BranchName, ObjectId>, Error> {
    let references: Vec<String> = wanted.iter().map(|branch| branch.reference()).collect();
    let mut arguments = vec!["ls-remote", "--refs", "--", mirror.url.as_str()];
    arguments.extend(references.iter().map(String::as_str));
    let attempted = "list the repository's branches";
    let run = Run::new(attempted, &mirror.folder, &arguments).access(access);
    let finished = mirror.runner.finish(run).await?;
    if !finished.success {
        return Err(error::sort(attempted.to_owned(), &finished.complaint));
    }
    let listed = String::from_utf8_lossy(&finished.output);
    let parse = |line: &str| {
        let (id, name) = line.split_once('\t')?;
        // The remote's own patterns match the ends of names; only whole names count.
        let branch = wanted.iter().find(|branch| branch.reference() == name)?;
        Some(((*branch).clone(), ObjectId::new(id).ok()?))
    };
    Ok(listed.lines().filter_map(parse).collect())
}

/// Brings the tips of branches here, and nothing below them.
pub(super) async fn fetch(
    mirror: &Mirror,
    access: &Access,
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
    let run = Run::new(attempted, &mirror.folder, &arguments).access(access);
    let finished = mirror.runner.finish(run).await?;
    if finished.success {
        return Ok(());
    }
    Err(error::sort(attempted.to_owned(), &finished.complaint))
}
