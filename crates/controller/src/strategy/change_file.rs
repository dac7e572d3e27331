//! Proposes the file of a Change as a pull request, in the repository that `--authoring-url` names.
//!
//! The branch is a function of the Change's name, and the text of the pull request carries its uid.

use api::{
    Change,
    names::{short_hash, slug},
};
use git::{
    forge::{PullRequest, PullRequestState},
    names::BranchName,
    paths::PathLimits,
    propose::{self, CommitMessage, Proposal, RequestedEdit},
};
use kube::ResourceExt;
use planner::{Failure, ObservedPullRequest, Outcome, PullRequestLookup};

use super::{
    PullRequestObservation,
    failure::needs_edit,
    promotion_description::one_line,
    proposal::{OpenProposal, Proposals, PullRequestContent, PullRequestOwner},
    pull_request::kind,
    secrets::SecretReader,
};
use crate::{Settings, settings::Authoring};

/// What stands before the uid of the Change in the text of its pull request.
const TRAILER: &str = "Sluice-Change: ";

/// Proposes the files of Changes.
pub(super) struct ChangeFiles {
    proposals: Proposals,
    authoring: Option<Authoring>,
}

impl ChangeFiles {
    pub(super) fn new(proposals: Proposals, settings: &Settings) -> Self {
        Self {
            proposals,
            authoring: settings.authoring.clone(),
        }
    }

    async fn open(&self, change: &Change, secrets: &SecretReader) -> Result<OpenProposal, Failure> {
        let Some(to) = &self.authoring else {
            let text = "no repository is configured; start the controller with --authoring-url";
            return Err(needs_edit(planner::change::NOT_CONFIGURED, text));
        };
        let secret = secrets.read(&to.secret).await?;
        let base = BranchName::new(to.branch.as_str());
        let base = base.map_err(|error| needs_edit("InvalidBranch", error.to_string()))?;
        let content = PullRequestContent {
            proposal: proposal(change, base)?,
            title: title(change),
            body: body(change),
            draft: false,
        };
        let owner = PullRequestOwner {
            trailer: TRAILER,
            uid: uid(change).to_owned(),
            url: change.status.as_ref().and_then(|it| it.url.clone()),
            branch: None,
        };
        let repository = (kind(to.forge), to.url.as_str());
        self.proposals.open(repository, &secret, content, owner)
    }

    /// What changes when somebody edits the credentials.
    pub(super) async fn dependencies(&self, secrets: &SecretReader) -> String {
        let Some(to) = &self.authoring else {
            return String::new();
        };
        let secret = secrets.read(&to.secret).await.ok();
        secret.map_or("-".to_owned(), |secret| secret.version.clone())
    }

    /// What the forge shows of the Change's pull request.
    pub(super) async fn observe(
        &self,
        change: &Change,
        secrets: &SecretReader,
        lookup: PullRequestLookup,
    ) -> Result<PullRequestObservation, Failure> {
        let open = self.open(change, secrets).await?;
        let observed = observed_pull_request;
        self.proposals.observe(&open, lookup, observed).await
    }

    /// Pushes the file to its branch and proposes it.
    pub(super) async fn propose(
        &self,
        change: &Change,
        secrets: &SecretReader,
    ) -> Result<Outcome, Failure> {
        let open = self.open(change, secrets).await?;
        let pushed = match self.proposals.push(&open, &|_| true).await? {
            propose::ProposalResult::NothingToChange { .. }
            | propose::ProposalResult::NotAccepted { .. } => return Ok(Outcome::AlreadyThere),
            propose::ProposalResult::Proposed(pushed) => pushed,
        };
        let pull = self.proposals.ensure_pull_request(&open, &pushed).await?;
        Ok(Outcome::Opened {
            url: pull.url,
            branch: pushed.branch.as_str().to_owned(),
            commit: Some(pushed.commit.as_str().to_owned()),
            notes: Vec::new(),
        })
    }
}

/// A branch that people can read and that no other Change has.
fn branch(change: &Change) -> Result<BranchName, Failure> {
    let (namespace, name) = (change.namespace().unwrap_or_default(), change.name_any());
    let readable = slug(&format!("{namespace}-{name}"), 60, "file");
    let hash = short_hash(&[&namespace, &name]);
    let branch = BranchName::new(format!("change-{readable}-{hash}"));
    branch.map_err(|error| needs_edit("InvalidBranch", error.to_string()))
}

fn proposal(change: &Change, base: BranchName) -> Result<Proposal, Failure> {
    let created = change.metadata.creation_timestamp.as_ref();
    Ok(Proposal {
        base,
        branch: branch(change)?,
        message: CommitMessage {
            title: title(change),
            body: String::new(),
            promotion: uid(change).to_owned(),
            owner: format!("change {}", key(change)),
        },
        at: created.map(|time| time.0).unwrap_or_default(),
        edit: RequestedEdit::WholeFile {
            path: change.spec.path.clone(),
            content: change.spec.content.clone().into_bytes(),
        },
        // `planner::change::refuse` has checked the path.
        paths: PathLimits::default(),
        replaceable: None,
    })
}

fn title(change: &Change) -> String {
    one_line(&change.spec.title)
}

/// Names are quoted, so that the forge does not read them as markup or mentions.
fn body(change: &Change) -> String {
    let plain = |text: &str| one_line(text).replace('`', "'");
    let by = change.spec.by.as_deref().map(plain);
    let by = by.map_or(String::new(), |by| format!(", asked for by `{by}`"));
    let (path, key) = (plain(&change.spec.path), key(change));
    format!(
        "Proposes `{path}`{by}.\n\nThis is Change `{key}`; closing it unmerged abandons that.\n\n\
         {TRAILER}{}\n",
        uid(change)
    )
}

fn key(change: &Change) -> String {
    let namespace = change.namespace().unwrap_or_default();
    format!("{namespace}/{}", change.name_any())
}

fn uid(change: &Change) -> &str {
    change.metadata.uid.as_deref().unwrap_or_default()
}

/// What a pull request on the forge means for the Change. Commits of others are theirs to answer for:
/// the file was proposed.
fn observed_pull_request(pull: PullRequest) -> ObservedPullRequest {
    let url = pull.url;
    match pull.state {
        PullRequestState::Open => ObservedPullRequest::Open {
            url,
            is_current: true,
            changed_by_others: false,
            is_merge_scheduled: pull.is_merge_scheduled,
        },
        PullRequestState::Merged => ObservedPullRequest::Merged { url, commit: None },
        PullRequestState::Closed => ObservedPullRequest::Closed { url },
    }
}
