//! Commit statuses and comments on GitLab.
//!
//! A commit status on GitLab is a job of a CI pipeline. A job that waits cannot be set to wait again with
//! another text, so it is cancelled first.

use ::http::Method;
use serde::Deserialize;
use serde_json::json;

use super::{GitLab, MAX_PAGES};
use crate::forge::api_client::{ApiRequest, ApiResponse};
use crate::forge::feedback::{ListedComment, cut, with_line};
use crate::forge::session::PagedList;
use crate::forge::{
    CommentId, CommitState, CommitStatus, Error, Feedback, ForgeFuture, PullRequestHead,
};

/// The longest description of a commit status.
const LONGEST_DESCRIPTION: usize = 255;

/// In the message of GitLab if a job cannot get to the wanted state from the one it has.
const NO_TRANSITION: &str = "Cannot transition";

#[derive(Deserialize)]
struct GitLabNote {
    id: u64,
    #[serde(default)]
    body: String,
}

impl GitLab {
    async fn post_status(
        &self,
        head: &PullRequestHead,
        status: &CommitStatus,
        state: &str,
    ) -> Result<ApiResponse, Error> {
        let mut body = json!({
            "state": state, "name": status.context, "ref": head.branch.as_str(),
            "description": cut(&status.description, LONGEST_DESCRIPTION),
        });
        if let Some(url) = &status.url {
            body["target_url"] = json!(url);
        }
        let path = self.path(&["statuses", head.commit.as_str()]);
        let request = ApiRequest::new("set the commit status", Method::POST, &path);
        self.session.send(request.body(body)).await
    }
}

impl Feedback for GitLab {
    fn set_commit_status<'a>(
        &'a self,
        head: &'a PullRequestHead,
        status: &'a CommitStatus,
    ) -> ForgeFuture<'a, ()> {
        Box::pin(async move {
            let state = match status.state {
                CommitState::Pending => "pending",
                CommitState::Success => "success",
                CommitState::Failure => "failed",
            };
            let answer = self.post_status(head, status, state).await?;
            let is_stuck = answer.status.as_u16() == 400;
            if !is_stuck || !answer.message().contains(NO_TRANSITION) {
                return answer.success().map(drop);
            }
            let cancelled = self.post_status(head, status, "canceled").await?;
            cancelled.success()?;
            let answer = self.post_status(head, status, state).await?;
            answer.success().map(drop)
        })
    }

    fn find_comment<'a>(
        &'a self,
        number: u64,
        line: &'a str,
    ) -> ForgeFuture<'a, Option<CommentId>> {
        Box::pin(async move {
            let number = number.to_string();
            let list = PagedList {
                attempted: "look for the comment",
                path: self.path(&["merge_requests", &number, "notes"]),
                query: vec![
                    ("sort", "asc".to_owned()),
                    ("order_by", "created_at".to_owned()),
                    ("per_page", "100".to_owned()),
                ],
            };
            let session = &self.session;
            let (notes, _) = session
                .all_linked_pages::<GitLabNote>(&list, MAX_PAGES)
                .await?;
            let notes = notes.into_iter().map(|note| ListedComment {
                id: CommentId::new(note.id),
                text: note.body,
            });
            Ok(with_line(notes, line))
        })
    }

    fn comment<'a>(&'a self, number: u64, text: &'a str) -> ForgeFuture<'a, CommentId> {
        Box::pin(async move {
            let number = number.to_string();
            let path = self.path(&["merge_requests", &number, "notes"]);
            let (attempted, body) = ("comment on the merge request", json!({"body": text}));
            let session = &self.session;
            let note = session.fetch::<GitLabNote>(attempted, Method::POST, &path, Some(body));
            Ok(CommentId::new(note.await?.id))
        })
    }

    fn edit_comment<'a>(
        &'a self,
        number: u64,
        id: &'a CommentId,
        text: &'a str,
    ) -> ForgeFuture<'a, ()> {
        Box::pin(async move {
            let number = number.to_string();
            let path = self.path(&["merge_requests", &number, "notes", id.as_str()]);
            let request = ApiRequest::new("edit the comment", Method::PUT, &path);
            let request = request.body(json!({"body": text}));
            self.session.send(request).await?.success().map(drop)
        })
    }
}
