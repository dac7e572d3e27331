//! Commit statuses and comments on GitHub.

use super::GitHub;
use crate::forge::{CommentId, CommitStatus, Feedback, ForgeFuture, PullRequestHead};

/// The longest description of a commit status.
const LONGEST_DESCRIPTION: usize = 140;

impl Feedback for GitHub {
    fn set_commit_status<'a>(
        &'a self,
        head: &'a PullRequestHead,
        status: &'a CommitStatus,
    ) -> ForgeFuture<'a, ()> {
        let repository = &self.repository;
        Box::pin(repository.set_commit_status(head, status, LONGEST_DESCRIPTION))
    }

    fn find_comment<'a>(
        &'a self,
        number: u64,
        line: &'a str,
    ) -> ForgeFuture<'a, Option<CommentId>> {
        let page_size = ("per_page", "100");
        Box::pin(self.repository.find_comment(number, line, page_size))
    }

    fn comment<'a>(&'a self, number: u64, text: &'a str) -> ForgeFuture<'a, CommentId> {
        Box::pin(self.repository.comment(number, text))
    }

    fn edit_comment<'a>(
        &'a self,
        _number: u64,
        id: &'a CommentId,
        text: &'a str,
    ) -> ForgeFuture<'a, ()> {
        Box::pin(self.repository.edit_comment(id, text))
    }
}
