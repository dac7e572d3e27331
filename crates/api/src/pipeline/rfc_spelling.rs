//! Strategies as RFC-0003 spelt them: directly in `promotion`, before there was `strategy`.
//!
//! They are converted when settings are read. Nothing else in Sluice knows this spelling; what could not
//! be converted stays in its field.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::promotion::{
    ForgeKind, PromotionSettings, PullRequestStrategy, Scope, Strategy, Webhook, When,
};
use crate::reference::LocalReference;

/// The Secret with the credentials of a pull request in the spelling of RFC-0003, which names none.
pub const RFC_SECRET: &str = "git-credentials";

/// A pull request in the syntax of RFC-0003.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RfcPullRequest {
    /// URL the repository is cloned from: `https://…` or `ssh://…`.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// The branch that the pull request changes.
    #[schemars(length(min = 1, max = 255))]
    pub branch: String,
}

/// A webhook in the syntax of RFC-0003.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RfcWebhook {
    /// The URL to POST to.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// The name of the Secret with the key `token` that signs the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub secret_ref: Option<String>,
}

impl PromotionSettings {
    /// Whether both spellings are used at once, which is invalid.
    pub fn is_spelled_twice(&self) -> bool {
        self.pull_request.is_some() || self.webhook.is_some()
    }

    /// The same settings with `strategy`. By RFC-0003 each target is promoted by itself, as soon as one
    /// target of the environment before it has the revision. Settings with both spellings stay as they
    /// are.
    fn with_strategy(mut self) -> Self {
        if !self.is_spelled_twice() || self.strategy.is_any() {
            return self;
        }
        self.strategy.pull_request = self.pull_request.take().map(PullRequestStrategy::from);
        self.strategy.webhook = self.webhook.take().map(Webhook::from);
        self.scope = self.scope.or(Some(Scope::Target));
        self.when = self.when.or(Some(When::AnyTargetReady));
        self
    }
}

impl Strategy {
    /// Whether it has a strategy. It may hold nothing but the key for reports.
    fn is_any(&self) -> bool {
        let key_alone = Self {
            secret_ref: self.secret_ref.clone(),
            ..Self::default()
        };
        *self != key_alone
    }
}

impl From<RfcPullRequest> for PullRequestStrategy {
    fn from(rfc: RfcPullRequest) -> Self {
        Self {
            forge: ForgeKind::Github,
            url: rfc.url,
            base_branch: rfc.branch,
            secret_ref: LocalReference {
                name: RFC_SECRET.to_owned(),
            },
            ..Self::default()
        }
    }
}

impl From<RfcWebhook> for Webhook {
    fn from(rfc: RfcWebhook) -> Self {
        Self {
            url: rfc.url,
            secret_ref: rfc.secret_ref.map(|name| LocalReference { name }),
        }
    }
}

impl Serialize for PromotionSettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for PromotionSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer).map(Self::with_strategy)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(written: Value, expected: Value) {
        let settings: PromotionSettings = serde_json::from_value(written).unwrap();
        let read = serde_json::to_value(&settings).unwrap();
        assert_eq!(read, expected);
        let again: PromotionSettings = serde_json::from_value(read).unwrap();
        assert_eq!(again, settings, "it is read as it is written");
    }

    #[test]
    fn a_pull_request_becomes_one_to_github_for_each_target() {
        check(
            json!({"pullRequest": {"url": "https://git.example.com/fleet.git", "branch": "trunk"}}),
            json!({
                "strategy": {"pull-request": {
                    "type": "github", "url": "https://git.example.com/fleet.git",
                    "baseBranch": "trunk", "secretRef": {"name": "git-credentials"},
                }},
                "scope": "Target", "when": "AnyTargetReady",
            }),
        );
    }

    #[test]
    fn a_webhook_becomes_one_whose_secret_is_an_object() {
        let rule = |strategy: Value| json!({"strategy": strategy, "scope": "Target", "when": "AnyTargetReady"});
        check(
            json!({"webhook": {"url": "https://ci.example.com/x", "secretRef": "ci"}}),
            rule(
                json!({"webhook": {"url": "https://ci.example.com/x", "secretRef": {"name": "ci"}}}),
            ),
        );
        check(
            json!({"webhook": {"url": "https://ci.example.com/x"}}),
            rule(json!({"webhook": {"url": "https://ci.example.com/x"}})),
        );
    }

    #[test]
    fn what_is_said_beside_it_stays() {
        check(
            json!({
                "webhook": {"url": "https://ci.example.com/x"}, "manual": true, "soak": "1h",
                "scope": "Environment", "when": "AllTargetsReady",
                "strategy": {"secretRef": {"name": "reports"}},
            }),
            json!({
                "manual": true, "soak": "1h", "scope": "Environment", "when": "AllTargetsReady",
                "strategy": {
                    "webhook": {"url": "https://ci.example.com/x"},
                    "secretRef": {"name": "reports"},
                },
            }),
        );
    }

    #[test]
    fn both_spellings_at_once_stay_and_are_told_apart() {
        let both = json!({
            "pullRequest": {"url": "https://git.example.com/fleet.git", "branch": "trunk"},
            "strategy": {"notification": {}},
        });
        check(both.clone(), both.clone());
        let settings: PromotionSettings = serde_json::from_value(both).unwrap();
        assert!(settings.is_spelled_twice());
        let today: PromotionSettings =
            serde_json::from_value(json!({"strategy": {"notification": {}}})).unwrap();
        assert!(!today.is_spelled_twice());
        assert_eq!((today.scope, today.when), (None, None));
    }
}
