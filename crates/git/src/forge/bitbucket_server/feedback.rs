//! Build statuses and comments on Bitbucket Server and Data Center.
//!
//! An edit of a comment has to name the version that it is based on. Comments are listed among the
//! activities of the pull request, the newest first.

use ::http::Method;
use serde::Deserialize;
use serde_json::json;

use super::wire::ServerPage;
use super::{BitbucketServer, MAX_PAGES};
use crate::forge::api_client::ApiRequest;
use crate::forge::feedback::{ListedComment, cut, with_line};
use crate::forge::session::PagedList;
use crate::forge::{CommentId, CommitStatus, Feedback, ForgeFuture, PullRequestHead};

/// The longest description of a build status.
const LONGEST_DESCRIPTION: usize = 255;

#[derive(Deserialize)]
struct ServerActivity {
    comment: Option<ServerComment>,
}

#[derive(Deserialize)]
struct ServerComment {
    id: u64,
    version: u64,
    #[serde(default)]
    text: String,
}

impl Feedback for BitbucketServer {
    fn set_commit_status<'a>(
        &'a self,
        head: &'a PullRequestHead,
        status: &'a CommitStatus,
    ) -> ForgeFuture<'a, ()> {
        Box::pin(async move {
            // Bitbucket demands a URL. A required build is configured by the key of its parent.
            let url = status.url.as_ref().unwrap_or(&head.url);
            let body = json!({
                "key": status.context, "parent": status.context, "name": status.context,
                "state": status.state.bitbucket(), "url": url, "ref": head.branch.reference(),
                "description": cut(&status.description, LONGEST_DESCRIPTION),
            });
            let path = [
                "projects",
                &self.project_key,
                "repos",
                &self.slug,
                "commits",
                head.commit.as_str(),
                "builds",
            ];
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
            let list = PagedList {
                attempted: "look for the comment",
                path: self.path(&[&number, "activities"]),
                query: vec![("limit", "100".to_owned())],
            };
            let session = &self.session;
            let activities = session
                .all_pages::<ServerPage<ServerActivity>>(&list, MAX_PAGES)
                .await?;
            let comments = activities.into_iter().rev().filter_map(|it| it.comment);
            let comments = comments.map(|comment| ListedComment {
                id: CommentId::new(comment.id),
                text: comment.text,
            });
            Ok(with_line(comments, line))
        })
    }

    fn comment<'a>(&'a self, number: u64, text: &'a str) -> ForgeFuture<'a, CommentId> {
        Box::pin(async move {
            let number = number.to_string();
            let path = self.path(&[&number, "comments"]);
            let (attempted, body) = ("comment on the pull request", json!({"text": text}));
            let session = &self.session;
            let comment =
                session.fetch::<ServerComment>(attempted, Method::POST, &path, Some(body));
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
            let (attempted, number) = ("edit the comment", number.to_string());
            let path = self.path(&[&number, "comments", id.as_str()]);
            let session = &self.session;
            let current = session.fetch::<ServerComment>(attempted, Method::GET, &path, None);
            let body = json!({"text": text, "version": current.await?.version});
            let request = ApiRequest::new(attempted, Method::PUT, &path).body(body);
            session.send(request).await?.success().map(drop)
        })
    }
}
