//! The rights of tokens on Gitea and Forgejo: the role of the user, and the scopes of the token.
//!
//! Only a refusal names the scopes of a token. So something harmless is read that needs another scope than
//! those of Sluice: the number of unread notifications, then the own user.

use ::http::Method;
use serde::Deserialize;

use super::Gitea;
use crate::forge::api_client::ApiRequest;
use crate::forge::token_check::{TokenCheck, TokenRight, TokenRights};
use crate::forge::{Error, ForgeFuture};

const UNTOLD: &str = "the server does not tell which scopes the token has; it needs write:repository, and \
                      write:issue for labels and comments";

/// Before the scopes of the token in a refusal.
const SCOPES: &str = "token scope=";

/// What needs another scope.
const PROBES: [&[&str]; 2] = [&["notifications", "new"], &["user"]];

#[derive(Deserialize)]
struct GiteaRepository {
    permissions: Option<GiteaPermissions>,
}

/// What the user of the token may do.
#[derive(Deserialize)]
struct GiteaPermissions {
    #[serde(default)]
    push: bool,
}

impl Gitea {
    async fn rights(&self, needed: &[TokenRight]) -> Result<TokenRights, Error> {
        let session = &self.repository.session;
        let path = self.repository.path(&[]);
        let attempted = "read the repository";
        let repository: GiteaRepository =
            session.fetch(attempted, Method::GET, &path, None).await?;
        let may_push = repository.permissions.is_none_or(|it| it.push);
        let of_user = TokenRights::lacking(needed, |right| match right {
            TokenRight::Comments => None,
            _ => (!may_push).then_some("give its user write access to the repository"),
        });
        let of_token = match self.token_scopes().await? {
            Some(scopes) => of_scopes(needed, &scopes),
            None => TokenRights::untold(UNTOLD),
        };
        Ok(of_user.and(of_token))
    }

    /// The scopes of the token, if a refusal names them.
    async fn token_scopes(&self) -> Result<Option<Vec<String>>, Error> {
        for path in PROBES {
            let request = ApiRequest::new("read the scopes of the token", Method::GET, path);
            let response = self.repository.session.send(request).await?;
            let body = response.json();
            let message = body["message"].as_str().unwrap_or_default();
            if let Some((_, scopes)) = message.split_once(SCOPES) {
                let scopes = scopes.split(',').map(|scope| scope.trim().to_owned());
                return Ok(Some(scopes.collect()));
            }
        }
        Ok(None)
    }
}

fn of_scopes(needed: &[TokenRight], scopes: &[String]) -> TokenRights {
    let has = |name: &str| scopes.iter().any(|scope| scope == name || scope == "all");
    TokenRights::lacking(needed, |right| match right {
        TokenRight::Comments => (!has("write:issue")).then_some("give it the scope write:issue"),
        TokenRight::PullRequests | TokenRight::CommitStatuses => {
            (!has("write:repository")).then_some("give it the scope write:repository")
        }
    })
}

impl TokenCheck for Gitea {
    fn check_token<'a>(&'a self, needed: &'a [TokenRight]) -> ForgeFuture<'a, TokenRights> {
        Box::pin(self.rights(needed))
    }
}
