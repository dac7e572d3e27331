//! Azure DevOps tells nobody the scopes of a token.

use super::AzureDevOps;
use crate::forge::ForgeFuture;
use crate::forge::token_check::{TokenCheck, TokenRight, TokenRights};

const UNTOLD: &str = "Azure DevOps does not tell which scopes a token has; it needs Code (read & write), and Code (status) for \
                      commit statuses";

impl TokenCheck for AzureDevOps {
    fn check_token<'a>(&'a self, _needed: &'a [TokenRight]) -> ForgeFuture<'a, TokenRights> {
        Box::pin(async { Ok(TokenRights::untold(UNTOLD)) })
    }
}
