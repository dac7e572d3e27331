//! The rights of tokens on GitLab: the scopes of a personal, project or group token, and the role of its user.

use ::http::Method;
use serde::Deserialize;

use super::GitLab;
use crate::forge::token_check::{TokenCheck, TokenRight, TokenRights};
use crate::forge::{Error, ForgeFuture};

const UNTOLD: &str = "GitLab does not tell what this kind of token may do; it needs the scope api and the role \
                      Developer";

/// The scope of tokens whose permissions are listed elsewhere.
const GRANULAR: &str = "granular";

/// The levels of access that the roles Reporter and Developer have.
const REPORTER: u64 = 20;
const DEVELOPER: u64 = 30;

#[derive(Deserialize)]
struct OwnToken {
    #[serde(default)]
    scopes: Vec<String>,
    user_id: u64,
}

#[derive(Deserialize)]
struct Member {
    access_level: u64,
}

impl GitLab {
    async fn rights(&self, needed: &[TokenRight]) -> Result<TokenRights, Error> {
        let attempted = "read the scopes of the token";
        let path = ["personal_access_tokens", "self"];
        let own = self.session.fetch(attempted, Method::GET, &path, None);
        let own: OwnToken = match own.await {
            Ok(own) => own,
            // Older servers, and tokens that are no access tokens.
            Err(Error::NotFound { .. } | Error::Refused { .. } | Error::Forbidden { .. }) => {
                return Ok(TokenRights::untold(UNTOLD));
            }
            Err(error) => return Err(error),
        };
        let has = |name: &str| own.scopes.iter().any(|scope| scope == name);
        let of_token = match has(GRANULAR) {
            true => TokenRights::untold(UNTOLD),
            false => {
                TokenRights::lacking(needed, |_| (!has("api")).then_some("give it the scope api"))
            }
        };
        let of_user = match self.access_level(own.user_id).await? {
            Some(level) => of_role(needed, level),
            None => TokenRights::default(),
        };
        Ok(of_token.and(of_user))
    }

    /// The level of access that a user has, also by groups; nothing if it is no member, as administrators.
    async fn access_level(&self, user: u64) -> Result<Option<u64>, Error> {
        let user = user.to_string();
        let path = self.path(&["members", "all", &user]);
        let attempted = "read the role of the token's user";
        let member = self.session.fetch(attempted, Method::GET, &path, None);
        match member.await {
            Ok(Member { access_level }) => Ok(Some(access_level)),
            Err(Error::NotFound { .. } | Error::Forbidden { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn of_role(needed: &[TokenRight], level: u64) -> TokenRights {
    TokenRights::lacking(needed, |right| match right {
        TokenRight::Comments => {
            (level < REPORTER).then_some("give its user the role Reporter or more")
        }
        TokenRight::PullRequests | TokenRight::CommitStatuses => {
            (level < DEVELOPER).then_some("give its user the role Developer or more")
        }
    })
}

impl TokenCheck for GitLab {
    fn check_token<'a>(&'a self, needed: &'a [TokenRight]) -> ForgeFuture<'a, TokenRights> {
        Box::pin(self.rights(needed))
    }
}
