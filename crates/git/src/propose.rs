//! Pushes a branch with a requested edit to the remote.
//!
//! The branch is always one commit on top of the current base. Proposing the same twice has no further
//! effect. A branch with commits of others is not changed.

mod file_changes;
mod preview;

pub use crate::commit::CommitMessage;
pub use crate::mirror::SkippedFile;
pub use preview::{CheckoutFiles, preview};

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::commit::{self, CommitAuthor, NewCommit};
use crate::mirror::{self, Mirror, short_hash};
use crate::names::{BranchName, ObjectId};
use crate::paths::{self, PathLimits};
use net::Remedy;

use crate::{edit, manifest, push, runner};

/// The edit of files that is requested.
#[derive(Clone, Debug)]
pub enum RequestedEdit {
    /// Sets every scalar with this marker.
    MarkedFields {
        /// The marker as written in the files.
        marker: String,
        /// The new version.
        value: manifest::PinnedVersion,
    },
    /// Sets every scalar with this marker. If no file has the marker, sets fields of manifests that are
    /// found by the identity of the object.
    MarkedOrFoundFields {
        /// The marker as it would be written in the files.
        marker: String,
        /// The new version at the marker.
        value: manifest::PinnedVersion,
        /// The fields to find if no file has the marker. Each of them must be found.
        wanted: Vec<manifest::WantedField>,
    },
    /// Creates or replaces a file.
    WholeFile {
        /// Its path.
        path: String,
        /// Its whole content.
        content: Vec<u8>,
    },
}

/// An edit and the branch that it is pushed to.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The branch that the edit is based on.
    pub base: BranchName,
    /// The branch to push. If it is the base, the commit goes directly onto it.
    pub branch: BranchName,
    /// The message of the commit.
    pub message: CommitMessage,
    /// The time of the commit. Must be the same whenever the same proposal is made.
    pub at: Timestamp,
    /// The requested edit.
    pub edit: RequestedEdit,
    /// The files that may be changed.
    pub paths: PathLimits,
    /// A commit of others that may be replaced, because it was merged.
    pub replaceable: Option<ObjectId>,
}

/// The result of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProposalResult {
    /// The branch on the remote contains the edit.
    Proposed(ProposedBranch),
    /// The base already contains the edit. The branch was not changed.
    NothingToChange {
        /// The head commit of the base.
        base: ObjectId,
    },
    /// The caller did not accept the edits. Nothing was pushed.
    NotAccepted {
        /// The edits.
        edits: Vec<ProposedEdit>,
    },
}

/// A value that a proposal replaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProposedEdit {
    /// The file.
    pub file: String,
    /// The value.
    pub edit: edit::ValueEdit,
}

/// A branch with the requested edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedBranch {
    /// The branch. Not the requested one if that belongs to another owner.
    pub branch: BranchName,
    /// Its head commit.
    pub commit: ObjectId,
    /// The commit that it is based on.
    pub base: ObjectId,
    /// The changed files.
    pub files: Vec<String>,
    /// The values that differ from the base; none where the edit is of a whole file.
    pub edits: Vec<ProposedEdit>,
    /// Files that could not be read.
    pub skipped: Vec<SkippedFile>,
    /// Whether it was pushed now, or existed already.
    pub pushed: bool,
    /// The head commit of the branch before the push.
    pub replaced: Option<ObjectId>,
}

/// Called right before a push: whether a side effect of up to this duration may begin.
pub type PushPermission<'a> = &'a (dyn Fn(Duration) -> bool + Send + Sync);

/// Called with the edits before a push: whether these may be pushed.
pub type EditAcceptance<'a> = &'a (dyn Fn(&[ProposedEdit]) -> bool + Send + Sync);

/// Why the edit could not be proposed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The base branch does not exist.
    #[error("the repository has no branch {branch}")]
    NoBase {
        /// The branch.
        branch: BranchName,
    },
    /// No file has the marker.
    #[error(
        "no file has the marker {marker:?}{}; mark the field, or name the paths to find it in",
        file_changes::remark(skipped, outside)
    )]
    NoMarker {
        /// The marker.
        marker: String,
        /// Files that could not be read.
        skipped: Vec<SkippedFile>,
        /// Files that have it but must not be changed.
        outside: Vec<String>,
    },
    /// No file has the marker, and the field was not found in a manifest.
    #[error(transparent)]
    Manifest(#[from] manifest::Error),
    /// A file cannot be edited.
    #[error("cannot edit {path}")]
    Edit {
        /// The file.
        path: String,
        /// The cause.
        source: edit::Error,
    },
    /// A file must not be written.
    #[error("cannot write {path}: {because}")]
    Path {
        /// The file.
        path: String,
        /// The reason, a sentence.
        because: &'static str,
    },
    /// The edit touches too many files.
    #[error("the edit touches more than {limit} files")]
    TooManyFiles {
        /// The limit.
        limit: usize,
    },
    /// A path outside the repository.
    #[error(transparent)]
    InvalidPath(#[from] paths::Error),
    /// The branch has commits of others.
    #[error("{branch} was changed by others; its head commit is {tip}")]
    BranchChangedByOthers {
        /// The branch.
        branch: BranchName,
        /// Its head commit.
        tip: ObjectId,
    },
    /// The permission to push was withdrawn.
    #[error("not permitted to push any more")]
    NotPermitted,
    /// The remote could not be read.
    #[error(transparent)]
    Remote(#[from] mirror::Error),
    /// The remote could not be written.
    #[error(transparent)]
    Push(#[from] push::Error),
}

impl Error {
    /// A fixed word for metrics, events and conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoBase { .. } => "NoBaseBranch",
            Self::NoMarker { .. } => "NoMarker",
            Self::Manifest(error) => error.reason(),
            Self::Edit { source, .. } => source.reason(),
            Self::Path { .. } => "InvalidPath",
            Self::TooManyFiles { .. } => "TooManyFiles",
            Self::InvalidPath(error) => error.reason(),
            Self::BranchChangedByOthers { .. } => "BranchChangedByOthers",
            Self::NotPermitted => "NotPermitted",
            Self::Remote(error) => error.reason(),
            Self::Push(error) => error.reason(),
        }
    }

    /// Whether the mirror may be damaged: a local git command failed, or the remote reported missing
    /// objects.
    fn suggests_damage(&self) -> bool {
        let error = match self {
            Self::Remote(error) | Self::Push(push::Error::Remote(error)) => error,
            _ => return false,
        };
        matches!(
            error,
            mirror::Error::Git(runner::Error::Failed { .. } | runner::Error::Unreadable { .. })
                | mirror::Error::Damaged { .. }
        )
    }

    /// Whether to retry or to wait for an edit.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::NotPermitted => Remedy::RETRY,
            Self::Manifest(error) => error.remedy(),
            Self::Remote(error) => error.remedy(),
            Self::Push(error) => error.remedy(),
            _ => Remedy::Edit,
        }
    }
}

impl Mirror {
    /// Pushes a branch with the requested edit. Asks for permission right before the push; nothing
    /// before that has side effects on the remote.
    pub async fn propose(
        &self,
        proposal: &Proposal,
        permission: PushPermission<'_>,
    ) -> Result<ProposalResult, Error> {
        self.propose_if(proposal, &|_| true, permission).await
    }

    /// The same, if the caller accepts the edits.
    pub async fn propose_if(
        &self,
        proposal: &Proposal,
        acceptance: EditAcceptance<'_>,
        permission: PushPermission<'_>,
    ) -> Result<ProposalResult, Error> {
        self.maintain().await;
        let result = self.try_propose(proposal, acceptance, permission).await;
        self.note_damage(result)
    }

    /// The values that the requested edit would replace now; none if the base has them already. Pushes
    /// nothing.
    pub async fn edits(&self, proposal: &Proposal) -> Result<Vec<ProposedEdit>, Error> {
        self.maintain().await;
        let edits = self.try_edits(proposal).await;
        self.note_damage(edits)
    }

    async fn try_edits(&self, proposal: &Proposal) -> Result<Vec<ProposedEdit>, Error> {
        let _objects = self.use_objects().await;
        let access = self.access().await?;
        let tips = self.refresh(&access, &[&proposal.base]).await?;
        let base = head_of(&tips, &proposal.base)?;
        let changes = file_changes::compute(self, &base, proposal).await?;
        Ok(changes.edits())
    }

    fn note_damage<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if result.as_ref().is_err_and(Error::suggests_damage) {
            self.mark_damaged();
        }
        result
    }

    async fn try_propose(
        &self,
        proposal: &Proposal,
        acceptance: EditAcceptance<'_>,
        permission: PushPermission<'_>,
    ) -> Result<ProposalResult, Error> {
        let _objects = self.use_objects().await;
        let access = self.access().await?;
        let own = &proposal.branch;
        let alternative = branch_for_owner(own, &proposal.message.owner);
        let wanted = [&proposal.base, own, &alternative];
        let tips = self.refresh(&access, &wanted).await?;
        let base = head_of(&tips, &proposal.base)?;
        let changes = file_changes::compute(self, &base, proposal).await?;
        if changes.files.is_empty() {
            return Ok(ProposalResult::NothingToChange { base });
        }
        let edits = changes.edits();
        if !acceptance(&edits) {
            return Ok(ProposalResult::NotAccepted { edits });
        }
        let branch = match tips.get(own) {
            Some(tip) if *own != proposal.base => {
                self.choose_branch(proposal, tip, alternative).await?
            }
            _ => own.clone(),
        };
        let current = tips.get(&branch);
        let new = NewCommit {
            base: &base,
            files: &changes.files,
            message: &proposal.message,
            at: proposal.at,
        };
        let commit = commit::create(self, &new, current).await?;
        let pushed = current != Some(&commit);
        if pushed {
            // The base itself is no commit of others, nor is a merged one.
            let is_replaceable =
                |tip: &ObjectId| *tip == base || proposal.replaceable.as_ref() == Some(tip);
            if let Some(tip) = current.filter(|tip| !is_replaceable(tip)) {
                self.refuse_commits_of_others(&branch, tip).await?;
            }
            if !permission(self.runner.limits().push) {
                return Err(Error::NotPermitted);
            }
            push::push(self, &access, &branch, current, &commit).await?;
        }
        let current = current.cloned();
        Ok(changes.into_result(branch, commit, base, current))
    }

    /// The requested branch, or the alternative if that one belongs to another owner.
    async fn choose_branch(
        &self,
        proposal: &Proposal,
        tip: &ObjectId,
        alternative: BranchName,
    ) -> Result<BranchName, Error> {
        match commit::author(self, tip).await? {
            CommitAuthor::Sluice { owner, .. } if owner != proposal.message.owner.trim() => {
                Ok(alternative)
            }
            _ => Ok(proposal.branch.clone()),
        }
    }

    async fn refuse_commits_of_others(
        &self,
        branch: &BranchName,
        tip: &ObjectId,
    ) -> Result<(), Error> {
        match commit::author(self, tip).await? {
            CommitAuthor::Others => Err(Error::BranchChangedByOthers {
                branch: branch.clone(),
                tip: tip.clone(),
            }),
            CommitAuthor::Sluice { .. } | CommitAuthor::WeaveController => Ok(()),
        }
    }
}

fn head_of(tips: &BTreeMap<BranchName, ObjectId>, base: &BranchName) -> Result<ObjectId, Error> {
    let head = tips.get(base).cloned();
    head.ok_or_else(|| Error::NoBase {
        branch: base.clone(),
    })
}

/// The alternative branch of an owner, for the case that the requested one belongs to another owner.
pub fn branch_for_owner(branch: &BranchName, owner: &str) -> BranchName {
    let owner = short_hash(&[owner.as_bytes()]);
    branch.with_suffix(&owner[..8])
}
