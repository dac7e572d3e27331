//! The rights of tokens on GitHub: the scopes of a classic token, the permissions of an app, and the role of
//! the user. GitHub does not tell the permissions of a fine-grained token.

use std::collections::BTreeMap;

use ::http::Method;
use serde::Deserialize;

use super::GitHub;
use crate::forge::api_client::ApiRequest;
use crate::forge::token_check::{TokenCheck, TokenRight, TokenRights, listed_scopes};
use crate::forge::{Error, ForgeFuture};

const UNTOLD: &str = "GitHub does not tell which permissions a fine-grained token has; it needs read and write \
                      for Contents and Pull requests, and for Commit statuses if it sets them";

#[derive(Deserialize)]
struct GitHubRepository {
    #[serde(default)]
    private: bool,
    permissions: Option<GitHubPermissions>,
}

/// What the user of the token may do.
#[derive(Deserialize)]
struct GitHubPermissions {
    #[serde(default)]
    push: bool,
}

impl GitHub {
    async fn rights(&self, needed: &[TokenRight]) -> Result<TokenRights, Error> {
        let session = &self.repository.session;
        if let Some(granted) = session.app_permissions().await? {
            return Ok(of_app(needed, &granted));
        }
        let path = self.repository.path(&[]);
        let request = ApiRequest::new("read the repository", Method::GET, &path);
        let response = session.send(request).await?.success()?;
        let scopes = listed_scopes(&response);
        let repository: GitHubRepository = response.parse()?;
        let may_push = repository.permissions.is_none_or(|it| it.push);
        let of_user = TokenRights::lacking(needed, |right| match right {
            TokenRight::Comments => None,
            _ => (!may_push).then_some("give its user write access to the repository"),
        });
        let of_token = match scopes.is_empty() {
            true => TokenRights::untold(UNTOLD),
            false => of_scopes(needed, &scopes, repository.private),
        };
        Ok(of_user.and(of_token))
    }
}

fn of_app(needed: &[TokenRight], granted: &BTreeMap<String, String>) -> TokenRights {
    let lacks = |name: &str| granted.get(name).is_none_or(|level| level != "write");
    TokenRights::lacking(needed, |right| match right {
        TokenRight::PullRequests | TokenRight::Comments => lacks("pull_requests")
            .then_some("grant the GitHub App read and write for Pull requests"),
        TokenRight::CommitStatuses => {
            lacks("statuses").then_some("grant the GitHub App read and write for Commit statuses")
        }
    })
}

fn of_scopes(needed: &[TokenRight], scopes: &[String], is_private: bool) -> TokenRights {
    let has = |name: &str| scopes.iter().any(|scope| scope == name);
    let has_repository = has("repo") || (has("public_repo") && !is_private);
    TokenRights::lacking(needed, |right| match right {
        _ if has_repository => None,
        TokenRight::CommitStatuses if has("repo:status") => None,
        _ => Some("give it the scope repo"),
    })
}

impl TokenCheck for GitHub {
    fn check_token<'a>(&'a self, needed: &'a [TokenRight]) -> ForgeFuture<'a, TokenRights> {
        Box::pin(self.rights(needed))
    }
}
