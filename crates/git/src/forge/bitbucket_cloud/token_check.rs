//! The rights of tokens on Bitbucket Cloud: the scopes that it lists in a header, in one of two notations. A
//! commit status needs no scope that a push does not need as well.

use ::http::Method;

use super::BitbucketCloud;
use crate::forge::api_client::ApiRequest;
use crate::forge::token_check::{TokenCheck, TokenRight, TokenRights, listed_scopes};
use crate::forge::{Error, ForgeFuture};

const UNTOLD: &str = "Bitbucket does not tell which scopes this token has; it needs to write repositories and \
                      pull requests";

impl BitbucketCloud {
    async fn rights(&self, needed: &[TokenRight]) -> Result<TokenRights, Error> {
        let path = self.path(&[]);
        let request = ApiRequest::new("read the repository", Method::GET, &path);
        let response = self.session.send(request).await?.success()?;
        let scopes = listed_scopes(&response);
        Ok(match scopes.is_empty() {
            true => TokenRights::untold(UNTOLD),
            false => of_scopes(needed, &scopes),
        })
    }
}

fn of_scopes(needed: &[TokenRight], scopes: &[String]) -> TokenRights {
    let has = |names: &[&str]| scopes.iter().any(|scope| names.contains(&scope.as_str()));
    let may_write = has(&["pullrequest:write", "write:pullrequest:bitbucket"]);
    let may_comment = may_write || has(&["pullrequest", "read:pullrequest:bitbucket"]);
    let grant = "let it write pull requests (the scope pullrequest:write, of API tokens \
                 write:pullrequest:bitbucket)";
    TokenRights::lacking(needed, |right| match right {
        TokenRight::PullRequests => (!may_write).then_some(grant),
        TokenRight::Comments => (!may_comment).then_some(grant),
        TokenRight::CommitStatuses => None,
    })
}

impl TokenCheck for BitbucketCloud {
    fn check_token<'a>(&'a self, needed: &'a [TokenRight]) -> ForgeFuture<'a, TokenRights> {
        Box::pin(self.rights(needed))
    }
}
