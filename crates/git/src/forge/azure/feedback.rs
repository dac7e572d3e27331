//! Pull request statuses and comments on Azure DevOps.
//!
//! The status is set on the pull request, not on its commit: only those can be required by a branch
//! policy. A comment is the first one of its thread.

use ::http::Method;
use serde::Deserialize;
use serde_json::json;

use super::{AzureDevOps, PREVIEW_API_VERSION};
use crate::forge::api_client::ApiRequest;
use crate::forge::feedback::{ListedComment, cut, with_line};
use crate::forge::{
    CommentId, CommitState, CommitStatus, Error, Feedback, ForgeFuture, PullRequestHead,
};

/// The longest description of a status.
const LONGEST_DESCRIPTION: usize = 255;

#[derive(Deserialize)]
struct AzureThreads {
    value: Vec<AzureThread>,
}

#[derive(Deserialize)]
struct AzureThread {
    id: u64,
    #[serde(default)]
    comments: Vec<AzureComment>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AzureComment {
    id: u64,
    #[serde(default)]
    content: String,
    #[serde(default)]
    is_deleted: bool,
}

impl AzureThread {
    fn into_first_comment(self) -> Option<ListedComment> {
        let comment = self.comments.into_iter().next()?;
        (!comment.is_deleted).then(|| ListedComment {
            id: CommentId::new(format!("{}/{}", self.id, comment.id)),
            text: comment.content,
        })
    }
}

impl Feedback for AzureDevOps {
    fn set_commit_status<'a>(
        &'a self,
        head: &'a PullRequestHead,
        status: &'a CommitStatus,
    ) -> ForgeFuture<'a, ()> {
        Box::pin(async move {
            let state = match status.state {
                CommitState::Pending => "pending",
                CommitState::Success => "succeeded",
                CommitState::Failure => "failed",
            };
            let (genre, name) = status
                .context
                .split_once('/')
                .unwrap_or(("", &status.context));
            let mut body = json!({
                "state": state, "context": {"genre": genre, "name": name},
                "description": cut(&status.description, LONGEST_DESCRIPTION),
            });
            if let Some(url) = &status.url {
                body["targetUrl"] = json!(url);
            }
            let number = head.number.to_string();
            let path = ["pullrequests", &number, "statuses"];
            let request = ApiRequest::new("set the status", Method::POST, &path)
                .query("api-version", PREVIEW_API_VERSION);
            self.repository
                .send(request.body(body))
                .await?
                .success()
                .map(drop)
        })
    }

    fn find_comment<'a>(
        &'a self,
        number: u64,
        line: &'a str,
    ) -> ForgeFuture<'a, Option<CommentId>> {
        Box::pin(async move {
            let number = number.to_string();
            let path = ["pullrequests", &number, "threads"];
            let attempted = "look for the comment";
            let threads =
                self.repository
                    .fetch::<AzureThreads>(attempted, Method::GET, &path, None);
            let threads = threads.await?.value.into_iter();
            let comments = threads.filter_map(AzureThread::into_first_comment);
            Ok(with_line(comments, line))
        })
    }

    fn comment<'a>(&'a self, number: u64, text: &'a str) -> ForgeFuture<'a, CommentId> {
        Box::pin(async move {
            let number = number.to_string();
            let path = ["pullrequests", &number, "threads"];
            let comment = json!({"parentCommentId": 0, "content": text, "commentType": "text"});
            // An open thread may block the merge.
            let body = json!({"comments": [comment], "status": "closed"});
            let attempted = "comment on the pull request";
            let thread =
                self.repository
                    .fetch::<AzureThread>(attempted, Method::POST, &path, Some(body));
            let comment = thread.await?.into_first_comment();
            comment.map(|it| it.id).ok_or(Error::Unreadable {
                attempted,
                because: "the new thread has no comment",
            })
        })
    }

    fn edit_comment<'a>(
        &'a self,
        number: u64,
        id: &'a CommentId,
        text: &'a str,
    ) -> ForgeFuture<'a, ()> {
        Box::pin(async move {
            let attempted = "edit the comment";
            let Some((thread, comment)) = id.as_str().split_once('/') else {
                return Err(Error::NotFound { attempted });
            };
            let number = number.to_string();
            let path = [
                "pullrequests",
                &number,
                "threads",
                thread,
                "comments",
                comment,
            ];
            let request = ApiRequest::new(attempted, Method::PATCH, &path);
            let request = request.body(json!({"content": text}));
            self.repository.send(request).await?.success().map(drop)
        })
    }
}
