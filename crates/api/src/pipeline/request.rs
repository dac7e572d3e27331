//! What people ask for, and that it was taken up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Time, lenient::is_default, schema};

/// What a person asked for.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Request {
    /// Tells requests apart.
    #[schemars(length(max = 128))]
    pub id: String,
    /// The revision asked for.
    #[schemars(length(max = 256))]
    pub revision: String,
    /// Forwards or back.
    pub kind: RequestKind,
    /// Who asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub by: Option<String>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub at: Option<Time>,
    /// Why, in the person's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub note: Option<String>,
    /// Take it up even if nothing is known to have the revision.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unseen: bool,
}

/// What a request asks for.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestKind {
    /// Bring this revision in.
    #[default]
    Promote,
    /// Go back to this revision and reject the one that runs.
    Rollback,
}

/// A request that was taken up.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct HandledRequest {
    /// The request's id.
    #[schemars(length(max = 128))]
    pub id: String,
    /// The Promotion it led to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub promotion: Option<String>,
    /// What came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// Whether it was refused.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refused: bool,
    /// Other requests that were there at the time. They are older, and not taken up any more.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(length(max = 8), inner(length(max = 128)))]
    pub others: Vec<String>,
}

impl HandledRequest {
    /// Whether a request is not taken up any more.
    pub fn covers(&self, id: &str) -> bool {
        self.id == id || self.others.iter().any(|other| other == id)
    }
}
