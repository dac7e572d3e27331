//! What a forge says about the rights of a token, before anything needs them. Reads only.
//!
//! Forges differ in what they tell: what one does not tell is reported as untold, never as missing.

use std::fmt;

use super::ForgeFuture;
use super::api_client::ApiResponse;

/// The header in which GitHub and Bitbucket Cloud list the scopes of a token.
const SCOPES: &str = "x-oauth-scopes";

/// What a token has to be allowed to do beside pushing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRight {
    /// Open, edit and close pull requests.
    PullRequests,
    /// Set the status of a commit.
    CommitStatuses,
    /// Comment on pull requests.
    Comments,
}

impl TokenRight {
    /// Completes "the token may not …".
    fn verb(self) -> &'static str {
        match self {
            Self::PullRequests => "open pull requests",
            Self::CommitStatuses => "set commit statuses",
            Self::Comments => "comment on pull requests",
        }
    }
}

/// Rights that a token lacks, and what grants them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingRights {
    /// The rights.
    pub rights: Vec<TokenRight>,
    /// What grants them all.
    pub grant: &'static str,
}

impl fmt::Display for MissingRights {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verbs: Vec<&str> = self.rights.iter().map(|right| right.verb()).collect();
        let (verbs, grant) = (verbs.join(" or "), self.grant);
        write!(formatter, "the token may not {verbs}: {grant}")
    }
}

/// The rights of a token, as far as the forge tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenRights {
    /// What the token may not do.
    pub missing: Vec<MissingRights>,
    /// What the forge does not tell, a sentence; nothing if it tells all.
    pub untold: Option<String>,
}

impl TokenRights {
    pub(super) fn untold(because: &str) -> Self {
        Self {
            missing: Vec::new(),
            untold: Some(because.to_owned()),
        }
    }

    /// The rights among these that the token lacks. `grant` says what grants a right; nothing if the token
    /// has it.
    pub(super) fn lacking(
        needed: &[TokenRight],
        grant: impl Fn(TokenRight) -> Option<&'static str>,
    ) -> Self {
        let mut missing: Vec<MissingRights> = Vec::new();
        for right in needed {
            let Some(grant) = grant(*right) else {
                continue;
            };
            match missing.iter_mut().find(|known| known.grant == grant) {
                Some(known) => known.rights.push(*right),
                None => missing.push(MissingRights {
                    rights: vec![*right],
                    grant,
                }),
            }
        }
        Self {
            missing,
            untold: None,
        }
    }

    /// What the token may not do and what grants it, a sentence each.
    pub fn missing_texts(&self) -> Vec<String> {
        self.missing.iter().map(ToString::to_string).collect()
    }

    /// Adds what somebody else lacks: the role of the token's user beside the scopes of the token.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.missing.extend(other.missing);
        self.untold = self.untold.or(other.untold);
        self
    }
}

/// Asks a forge for the rights of the token.
pub trait TokenCheck: Send + Sync {
    /// Which of these rights the token lacks, as far as the forge tells without being asked to write.
    fn check_token<'a>(&'a self, needed: &'a [TokenRight]) -> ForgeFuture<'a, TokenRights>;
}

/// The scopes that a response lists.
pub(super) fn listed_scopes(response: &ApiResponse) -> Vec<String> {
    let header = response.headers.get(SCOPES);
    let header = header.and_then(|header| header.to_str().ok());
    let scopes = header.unwrap_or_default().split(',').map(str::trim);
    let scopes = scopes.filter(|scope| !scope.is_empty());
    scopes.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_with_the_same_grant_are_one_sentence() {
        use TokenRight::{Comments, CommitStatuses, PullRequests};
        let grant = |right| match right {
            Comments => None,
            _ => Some("give it the scope repo"),
        };
        let rights = TokenRights::lacking(&[PullRequests, CommitStatuses, Comments], grant);
        let [missing] = &rights.missing[..] else {
            unreachable!("{rights:?}");
        };
        assert_eq!(
            missing.to_string(),
            "the token may not open pull requests or set commit statuses: give it the scope repo"
        );
        assert_eq!(
            TokenRights::lacking(&[Comments], grant),
            TokenRights::default()
        );
    }
}
