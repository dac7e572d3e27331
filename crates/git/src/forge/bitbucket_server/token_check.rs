//! Bitbucket Server and Data Center tell nobody the permissions of an access token.

use super::BitbucketServer;
use crate::forge::ForgeFuture;
use crate::forge::token_check::{TokenCheck, TokenRight, TokenRights};

const UNTOLD: &str =
    "Bitbucket does not tell what an access token may do; it needs the permission repository write";

impl TokenCheck for BitbucketServer {
    fn check_token<'a>(&'a self, _needed: &'a [TokenRight]) -> ForgeFuture<'a, TokenRights> {
        Box::pin(async { Ok(TokenRights::untold(UNTOLD)) })
    }
}
