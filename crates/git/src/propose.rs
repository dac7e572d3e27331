//! From a wanted change to a branch on the remote that holds it.
//!
//! The branch is always made anew on the current base: one commit, never a stack. Doing it twice
//! ends in the same place. A branch whose tip is not ours is left alone.

mod alter;
mod preview;

pub use crate::commit::CommitMessage;
pub use crate::mirror::SkippedFile;
pub use preview::{Checkout, preview};

use std::time::Duration;

use jiff::Timestamp;

use crate::commit::{self, Maker};
use crate::mirror::{self, Mirror, short_hash};
use crate::names::{BranchName, ObjectId};
use crate::paths::{self, PathLimits};
use net::Remedy;

use crate::{edit, manifest, push, runner};

/// What should be different.
#[derive(Clone, Debug)]
pub enum RequestedEdit {
    /// Every scalar with this marker gets what belongs there of this.
    MarkedFields {
        /// As it stands in the files.
        marker: String,
        /// The new value.
        value: manifest::PinnedVersion,
    },
    /// The same where a file has the marker; where none has, fields of manifests that are found by
    /// what the manifests describe.
    MarkedOrFoundFields {
        /// As it would stand in the files.
        marker: String,
        /// The new value of what is marked.
        value: manifest::PinnedVersion,
        /// What is looked for without a marker. Each of them must be found.
        wanted: Vec<manifest::WantedField>,
    },
    /// A file exists with this content.
    WholeFile {
        /// Where.
        path: String,
        /// All of it.
        content: Vec<u8>,
    },
}

/// A change and where it should go.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// What the change is made on.
    pub base: BranchName,
    /// What is pushed. The same as the base: straight onto it.
    pub branch: BranchName,
    /// What the commit says.
    pub message: CommitMessage,
    /// When the commit is from. The same proposal must always say the same.
    pub at: Timestamp,
    /// What should be different.
    pub edit: RequestedEdit,
    /// Which files may change.
    pub paths: PathLimits,
    /// A commit of others that the branch may lose, because it was merged.
    pub replaceable: Option<ObjectId>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProposalResult {
    /// The branch on the remote holds the change.
    Proposed(ProposedBranch),
    /// The base holds it already. The branch was not touched.
    NothingToChange {
        /// The tip of the base.
        base: ObjectId,
    },
}

/// A branch that holds a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedBranch {
    /// The branch. Not always the one asked for: that may belong to another owner.
    pub branch: BranchName,
    /// Its tip.
    pub commit: ObjectId,
    /// What it is based on.
    pub base: ObjectId,
    /// The files that differ.
    pub files: Vec<String>,
    /// Files with markers that could not be read.
    pub skipped: Vec<SkippedFile>,
    /// Whether it had to be pushed, or was there already.
    pub pushed: bool,
    /// What was on the branch before the push.
    pub replaced: Option<ObjectId>,
}

/// Asked right before something is changed elsewhere: may an act begin that takes up to so long?
pub type Permission<'a> = &'a (dyn Fn(Duration) -> bool + Send + Sync);

/// Why there is no branch with the change.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing to base it on.
    #[error("the repository has no branch {branch}")]
    NoBase {
        /// The branch.
        branch: BranchName,
    },
    /// No file asks for it.
    #[error(
        "no file has the marker {marker:?}{}; mark the field, or name the paths to find it in",
        alter::remark(skipped, outside)
    )]
    NoMarker {
        /// The marker.
        marker: String,
        /// Files that could not be read.
        skipped: Vec<SkippedFile>,
        /// Files that have it but may not change.
        outside: Vec<String>,
    },
    /// No file asks for it, and no manifest is the one that is meant.
    #[error(transparent)]
    Manifest(#[from] manifest::Error),
    /// A file asks for it in a way we cannot follow.
    #[error("cannot edit {path}")]
    Edit {
        /// The file.
        path: String,
        /// Why.
        source: edit::Error,
    },
    /// A file where none may be.
    #[error("cannot write {path}: {because}")]
    Path {
        /// The file.
        path: String,
        /// A sentence.
        because: &'static str,
    },
    /// More files than anybody would review.
    #[error("the change touches more than {limit} files")]
    TooManyFiles {
        /// How many it may be.
        limit: usize,
    },
    /// A path that leaves the repository.
    #[error(transparent)]
    InvalidPath(#[from] paths::Error),
    /// Somebody else works on the branch.
    #[error("{branch} was changed by others; its tip is {tip}")]
    BranchChangedByOthers {
        /// The branch.
        branch: BranchName,
        /// What is on it.
        tip: ObjectId,
    },
    /// The permission to change anything elsewhere was gone when it was needed.
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
    /// A fixed word.
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

    /// Whether git failed at something that involves nobody else, or the remote's complaint may
    /// really be about our copy.
    fn is_gits_own(&self) -> bool {
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

    /// What would help.
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
    /// Brings a change to a branch of the remote. The permission is asked for right before the
    /// push; nothing before it changes anything elsewhere.
    pub async fn propose(
        &self,
        proposal: &Proposal,
        permission: Permission<'_>,
    ) -> Result<ProposalResult, Error> {
        self.tidy().await;
        let outcome = self.attempt(proposal, permission).await;
        if outcome.as_ref().is_err_and(Error::is_gits_own) {
            self.distrust();
        }
        outcome
    }

    async fn attempt(
        &self,
        proposal: &Proposal,
        permission: Permission<'_>,
    ) -> Result<ProposalResult, Error> {
        let _in_use = self.hold().await;
        let access = self.access().await?;
        let own = &proposal.branch;
        let other = branch_for_owner(own, &proposal.message.owner);
        let wanted = [&proposal.base, own, &other];
        let tips = self.refresh(&access, &wanted).await?;
        let Some(base) = tips.get(&proposal.base).cloned() else {
            let branch = proposal.base.clone();
            return Err(Error::NoBase { branch });
        };
        let altered = alter::alter(self, &base, proposal).await?;
        if altered.files.is_empty() {
            return Ok(ProposalResult::NothingToChange { base });
        }
        let branch = match tips.get(own) {
            Some(tip) if *own != proposal.base => self.choose(proposal, tip, other).await?,
            _ => own.clone(),
        };
        let (message, at) = (&proposal.message, proposal.at);
        let commit = commit::make(self, &base, &altered.files, message, at).await?;
        let seen = tips.get(&branch);
        let pushed = seen != Some(&commit);
        if pushed {
            // A tip that is the base itself is nobody's work; straight onto the base it always is.
            let is_spare =
                |tip: &ObjectId| *tip == base || proposal.replaceable.as_ref() == Some(tip);
            if let Some(tip) = seen.filter(|tip| !is_spare(tip)) {
                self.must_be_ours(&branch, tip).await?;
            }
            if !permission(self.runner.limits().push) {
                return Err(Error::NotPermitted);
            }
            push::push(self, &access, &branch, seen, &commit).await?;
        }
        let seen = seen.cloned();
        Ok(altered.proposed(branch, commit, base, seen))
    }

    /// The branch asked for, or the one beside it if that belongs to another owner.
    async fn choose(
        &self,
        proposal: &Proposal,
        tip: &ObjectId,
        other: BranchName,
    ) -> Result<BranchName, Error> {
        match commit::maker(self, tip).await? {
            Maker::Us { owner, .. } if owner != proposal.message.owner.trim() => Ok(other),
            _ => Ok(proposal.branch.clone()),
        }
    }

    async fn must_be_ours(&self, branch: &BranchName, tip: &ObjectId) -> Result<(), Error> {
        match commit::maker(self, tip).await? {
            Maker::Others => Err(Error::BranchChangedByOthers {
                branch: branch.clone(),
                tip: tip.clone(),
            }),
            Maker::Us { .. } | Maker::Predecessor => Ok(()),
        }
    }
}

/// Where an owner's change goes if its branch belongs to another owner.
pub fn branch_for_owner(branch: &BranchName, owner: &str) -> BranchName {
    let owner = short_hash(&[owner.as_bytes()]);
    branch.with_suffix(&owner[..8])
}
