//! Build statuses and comments on Bitbucket Cloud.

use ::http::Method;
use serde::Deserialize;
use serde_json::json;

use super::BitbucketCloud;
use super::wire::CloudPage;
use crate::forge::api_client::ApiRequest;
use crate::forge::feedback::{ListedComment, cut, short_key, with_line};
use crate::forge::{CommentId, CommitStatus, Feedback, ForgeFuture, PullRequestHead};

/// The longest description of a build status.
const LONGEST_DESCRIPTION: usize = 255;

/// The longest key of a build status.
const LONGEST_KEY: usize = 40;

#[derive(Deserialize)]
struct CloudComment {
    id: u64,
    #[serde(default)]
    deleted: bool,
    #[serde(default)]
    content: CloudContent,
}

#[derive(Default, Deserialize)]
struct CloudContent {
    #[serde(default)]
    raw: String,
}

impl Feedback for BitbucketCloud {
    fn set_commit_status<'a>(
        &'a self,
        head: &'a PullRequestHead,
        status: &'a CommitStatus,
    ) -> ForgeFuture<'a, ()> {
        Box::pin(async move {
            // Bitbucket demands a URL.
            let url = status.url.as_ref().unwrap_or(&head.url);
            let body = json!({
                "key": short_key(&status.context, LONGEST_KEY), "name": status.context,
                "state": status.state.bitbucket(), "url": url, "refname": head.branch.as_str(),
                "description": cut(&status.description, LONGEST_DESCRIPTION),
            });
            let path = self.path(&["commit", head.commit.as_str(), "statuses", "build"]);
            let attempted = "set the build status";
            self.session.post(attempted, &path, body).await
        })
    }

    fn find_comment<'a>(
        &'a self,
        number: u64,
        line: &'a str,
    ) -> ForgeFuture<'a, Option<CommentId>> {
        Box::pin(async move {
            let number = number.to_string();
            let path = self.path(&["pullrequests", &number, "comments"]);
            let query = vec![("sort", "created_on".to_owned())];
            let attempted = "look for the comment";
            let comments = self
                .all::<CloudPage<CloudComment>>(attempted, &path, query)
                .await?;
            let comments = comments.into_iter().filter(|comment| !comment.deleted);
            let comments = comments.map(|comment| ListedComment {
                id: CommentId::new(comment.id),
                text: comment.content.raw,
            });
            Ok(with_line(comments, line))
        })
    }

    fn comment<'a>(&'a self, number: u64, text: &'a str) -> ForgeFuture<'a, CommentId> {
        Box::pin(async move {
            let number = number.to_string();
            let path = self.path(&["pullrequests", &number, "comments"]);
            let body = Some(json!({"content": {"raw": text}}));
            let attempted = "comment on the pull request";
            let session = &self.session;
            let comment = session.fetch::<CloudComment>(attempted, Method::POST, &path, body);
            Ok(CommentId::new(comment.await?.id))
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
            let path = self.path(&["pullrequests", &number, "comments", id.as_str()]);
            let request = ApiRequest::new("edit the comment", Method::PUT, &path);
            let request = request.body(json!({"content": {"raw": text}}));
            self.session.send(request).await?.success().map(drop)
        })
    }
}
