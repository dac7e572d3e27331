//! What a forge shows of a pull request beside its text: the commit status of its head, and comments.
//!
//! A commit status is set by its context, so that setting it again replaces it. A comment is found again
//! by a line of its text and edited in place.

use super::ForgeFuture;
use crate::mirror::short_hash;
use crate::names::{BranchName, ObjectId};

/// What a commit status says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitState {
    /// The commit should not be merged yet.
    Pending,
    /// Nothing but a merge is missing.
    Success,
    /// The commit should not be merged.
    Failure,
}

impl CommitState {
    /// The word of both Bitbuckets.
    pub(super) const fn bitbucket(self) -> &'static str {
        match self {
            Self::Pending => "INPROGRESS",
            Self::Success => "SUCCESSFUL",
            Self::Failure => "FAILED",
        }
    }
}

/// A commit status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitStatus {
    /// What it is about: the name that branch protection requires.
    pub context: String,
    /// What it says.
    pub state: CommitState,
    /// Why, in one sentence. Cut to the length that the forge accepts.
    pub description: String,
    /// The page with details.
    pub url: Option<String>,
}

/// The head of a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequestHead {
    /// The number of the pull request.
    pub number: u64,
    /// The page of the pull request.
    pub url: String,
    /// Its branch.
    pub branch: BranchName,
    /// The commit at the head of that branch.
    pub commit: ObjectId,
}

/// The id of a comment on a pull request, as the forge names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentId(String);

impl CommentId {
    /// An id that the forge returned before.
    pub fn new(id: impl ToString) -> Self {
        Self(id.to_string())
    }

    /// The id as text, to be stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Commit statuses and comments of one repository.
pub trait Feedback: Send + Sync {
    /// Sets the commit status of that context on the head of a pull request.
    fn set_commit_status<'a>(
        &'a self,
        head: &'a PullRequestHead,
        status: &'a CommitStatus,
    ) -> ForgeFuture<'a, ()>;

    /// The oldest comment with this line, if there is one.
    fn find_comment<'a>(&'a self, number: u64, line: &'a str)
    -> ForgeFuture<'a, Option<CommentId>>;

    /// Adds a comment.
    fn comment<'a>(&'a self, number: u64, text: &'a str) -> ForgeFuture<'a, CommentId>;

    /// Replaces the text of a comment. [`Error::NotFound`](super::Error::NotFound) if somebody deleted it.
    fn edit_comment<'a>(
        &'a self,
        number: u64,
        id: &'a CommentId,
        text: &'a str,
    ) -> ForgeFuture<'a, ()>;
}

/// A comment in a list.
pub(super) struct ListedComment {
    pub(super) id: CommentId,
    pub(super) text: String,
}

/// The first comment that has this line.
pub(super) fn with_line(
    comments: impl IntoIterator<Item = ListedComment>,
    line: &str,
) -> Option<CommentId> {
    let has_line = |comment: &ListedComment| comment.text.lines().any(|it| it.trim() == line);
    let found = comments.into_iter().find(has_line);
    found.map(|comment| comment.id)
}

/// The text, cut to a number of characters.
pub(super) fn cut(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    let kept: String = text.chars().take(longest.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// A context as a key of limited length: two long contexts with the same beginning stay different.
pub(super) fn short_key(context: &str, longest: usize) -> String {
    if context.len() <= longest {
        return context.to_owned();
    }
    let hash = short_hash(&[context.as_bytes()]);
    let start = context.floor_char_boundary(longest.saturating_sub(hash.len() + 1));
    format!("{}-{hash}", &context[..start])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_and_long_keys_stay_different() {
        assert_eq!(cut("as it is", 8), "as it is");
        assert_eq!(cut("ab cdäöü", 4), "ab…");
        assert_eq!(short_key("sluice/prod", 40), "sluice/prod");
        let keys = ["a", "b"].map(|end| short_key(&format!("sluice/{}{end}", "ä".repeat(40)), 40));
        assert!(keys.iter().all(|key| key.len() <= 40), "{keys:?}");
        assert_ne!(keys[0], keys[1]);
    }

    #[test]
    fn only_a_whole_line_is_found() {
        let comment = |id: &str, text: &str| ListedComment {
            id: CommentId::new(id),
            text: text.to_owned(),
        };
        let all = || {
            [
                comment("1", "> line: a"),
                comment("2", "text\r\nline: a\r\n"),
                comment("3", "line: a"),
            ]
        };
        assert_eq!(with_line(all(), "line: a"), Some(CommentId::new("2")));
        assert_eq!(with_line(all(), "line"), None);
    }
}
