//! What people decide about a Promotion, and when the controller saw it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Time, schema};

/// Why a promotion was withdrawn.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Withdrawal {
    /// A fixed reason or a short sentence.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
}

/// Who rejected a promotion.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Rejection {
    /// The user's name.
    #[schemars(length(min = 1, max = 256))]
    pub by: String,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub at: Option<Time>,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub note: Option<String>,
}

/// When the controller saw an approval.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ObservedApproval {
    /// The approver's user name.
    #[schemars(length(max = 256))]
    pub by: String,
    /// The time in the approval itself, which differs after the user has replaced it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub at: Option<Time>,
    /// When the controller first saw it; an approval that expires counts from here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub observed_at: Option<Time>,
}

/// Who approved a promotion.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Approval {
    /// The approver's user name.
    #[schemars(length(min = 1, max = 256))]
    pub by: String,
    /// The group as whose member they approve, where the policy asks for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub group: Option<String>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub at: Option<Time>,
    /// A note of the approver.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub note: Option<String>,
    /// The digest of the change that they approve: `status.change.digest` at the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub change_digest: Option<String>,
    /// The SHA-256 of the signed call that gave it, in hex, so that the same call is not accepted a
    /// second time. Only the approval webhook sets this.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub signature: Option<String>,
}
