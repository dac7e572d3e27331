//! Who must approve a promotion, and how many of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Duration,
    lenient::{is_default, null_as_default},
};

/// The approvals that a promotion needs.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ApprovalPolicy {
    /// How many different people must approve. Default: 1.
    #[schemars(range(min = 1, max = 16), default)]
    pub count: i64,
    /// The users and groups whose approvals count. Default: everybody who may approve.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(length(max = 16))]
    pub from: Vec<Approver>,
    /// Whether an approval by the user who requested the promotion does not count.
    #[serde(default, skip_serializing_if = "is_default")]
    pub not_requester: bool,
    /// How long an approval counts, from when the controller saw it. Default: until the promotion ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Duration>,
}

impl Default for ApprovalPolicy {
    fn default() -> Self {
        Self {
            count: 1,
            from: Vec::new(),
            not_requester: false,
            expires: None,
        }
    }
}

/// A user or a group; exactly one of them.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, extend("x-kubernetes-validations" = [
    {"rule": "has(self.user) != has(self.group)", "message": "name either a user or a group"}
]))]
pub struct Approver {
    /// The name of a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub group: Option<String>,
    /// The name of a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub user: Option<String>,
}
