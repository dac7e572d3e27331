//! Reviewers on Bitbucket Cloud: it asks for ids of accounts, which are looked up among the members of the
//! workspace.

use ::http::Method;
use serde_json::{Value, json};

use super::wire::{CloudMember, CloudPage, CloudPullRequest};
use super::{BitbucketCloud, current_fields};
use crate::forge::review_requests::ReviewRequester;
use crate::forge::{Error, ForgeFuture};

impl BitbucketCloud {
    /// The id of a member of the workspace.
    fn account_id(&self, name: &str, members: &[CloudMember]) -> Result<String, Error> {
        let mut accounts = members.iter().map(|member| &member.user);
        match accounts.find(|account| account.is_called(name)) {
            Some(account) => Ok(account.uuid.clone()),
            None if is_uuid(name) => Ok(name.to_owned()),
            None => Err(Error::Refused {
                attempted: "find a reviewer",
                message: format!("the workspace has no member {name:?}"),
            }),
        }
    }

    /// The reviewers of a pull request, and these in addition.
    async fn reviewers(
        &self,
        pull: &CloudPullRequest,
        people: &[&str],
    ) -> Result<Vec<Value>, Error> {
        let path = ["workspaces", &self.workspace, "members"];
        // Not every token may list the members, and ids need no lookup.
        let members = match people.iter().all(|name| is_uuid(name)) {
            true => Vec::new(),
            false => {
                let attempted = "find a reviewer";
                self.all::<CloudPage<CloudMember>>(attempted, &path, Vec::new())
                    .await?
            }
        };
        let mut asked: Vec<String> = pull
            .reviewers
            .iter()
            .map(|user| user.uuid.clone())
            .collect();
        for name in people {
            let uuid = self.account_id(name, &members)?;
            if !asked.contains(&uuid) {
                asked.push(uuid);
            }
        }
        Ok(asked.iter().map(|uuid| json!({"uuid": uuid})).collect())
    }
}

fn is_uuid(name: &str) -> bool {
    name.starts_with('{') && name.ends_with('}')
}

impl ReviewRequester for BitbucketCloud {
    fn request_reviews<'a>(&'a self, number: u64, names: &'a [&'a str]) -> ForgeFuture<'a, ()> {
        Box::pin(async move {
            let (attempted, number) = ("ask for reviews", number.to_string());
            let path = [number.as_str()];
            let pull = self
                .pull_request(attempted, Method::GET, &path, None)
                .await?;
            let mut body = current_fields(&pull);
            body["reviewers"] = json!(self.reviewers(&pull, names).await?);
            if body != current_fields(&pull) {
                self.pull_request(attempted, Method::PUT, &path, Some(body))
                    .await?;
            }
            Ok(())
        })
    }
}
