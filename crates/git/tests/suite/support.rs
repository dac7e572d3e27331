//! What the tests of this crate share.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use git::credentials::Credentials;
use git::forge::AppTokens;
use git::mirror::{Mirror, MirrorRetention, Mirrors};
use git::names::BranchName;
use git::paths::PathLimits;
use git::propose::{CommitMessage, Proposal, ProposalResult, ProposedBranch, RequestedEdit};
use git::repository_url::RepositoryUrl;
use git::runner::{GitLimits, GitRunner};
use net::{AddressPolicy, OutboundHttp};

/// Loopback, without TLS too.
pub(crate) const ANY_ADDRESS: AddressPolicy = AddressPolicy::UNRESTRICTED;

pub(crate) const MARKER: &str = "team:app:prod";
pub(crate) const BRANCH: &str = "promotion-team-app-prod";
pub(crate) const OWNER: &str = "team/app/prod";

/// A manifest whose version carries the marker.
pub(crate) fn manifest(version: &str) -> String {
    format!("kind: HelmRelease\nspec:\n  version: {version} # {{\"$promotion\": \"{MARKER}\"}}\n")
}

pub(crate) fn credentials(entries: &[(&str, &str)]) -> Credentials {
    let entries = entries
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
    Credentials::from_entries(&entries.collect::<BTreeMap<_, _>>()).expect("usable credentials")
}

pub(crate) fn branch(name: &str) -> BranchName {
    BranchName::new(name).expect("a branch name")
}

pub(crate) fn runner(folder: &Path) -> GitRunner {
    GitRunner::new(folder, GitLimits::default(), ANY_ADDRESS).expect("a runner")
}

pub(crate) fn mirrors_with(runner: GitRunner, folder: &Path, keep: MirrorRetention) -> Mirrors {
    let tokens = Arc::new(AppTokens::new(Arc::new(OutboundHttp::new(ANY_ADDRESS))));
    Mirrors::new(runner, folder, keep, tokens).expect("mirrors")
}

pub(crate) fn mirrors(folder: &Path) -> Mirrors {
    mirrors_with(runner(folder), folder, MirrorRetention::default())
}

pub(crate) fn url(text: &str) -> RepositoryUrl {
    RepositoryUrl::parse(text, ANY_ADDRESS).expect("a URL")
}

pub(crate) fn proposal(version: &str) -> Proposal {
    Proposal {
        base: branch("main"),
        branch: branch(BRANCH),
        message: CommitMessage {
            title: format!("Promote team/app in prod to {version}"),
            body: String::new(),
            promotion: format!("uid-of-{version}"),
            owner: OWNER.to_owned(),
        },
        at: "2026-11-15T08:00:00Z".parse().expect("a time"),
        edit: RequestedEdit::MarkedFields {
            marker: MARKER.to_owned(),
            value: version.into(),
        },
        paths: PathLimits::default(),
        replaceable: None,
    }
}

/// Proposes and wants a branch to come of it.
pub(crate) async fn propose(mirror: &Mirror, proposal: &Proposal) -> ProposedBranch {
    match mirror
        .propose(proposal, &|_| true)
        .await
        .expect("it can be proposed")
    {
        ProposalResult::Proposed(proposed) => proposed,
        ProposalResult::NothingToChange { .. } => panic!("there should be something to change"),
        ProposalResult::NotAccepted { .. } => panic!("every edit is accepted"),
    }
}

/// The reason of the error that a proposal must end in.
pub(crate) async fn refusal(mirror: &Mirror, proposal: &Proposal) -> git::propose::Error {
    mirror
        .propose(proposal, &|_| true)
        .await
        .expect_err("it must fail")
}

/// An error and all its causes.
pub(crate) fn whole_story(error: &dyn std::error::Error) -> String {
    let mut story = format!("{error} {error:?}");
    let mut cause = error.source();
    while let Some(error) = cause {
        story.push_str(&format!(" {error} {error:?}"));
        cause = error.source();
    }
    story
}
