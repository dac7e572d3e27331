//! What clusters that ask for it should run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Time, revision, schema};

/// The revision that a promotion published for the clusters of an environment, or for one target.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct DesiredRevision {
    /// The revision.
    #[serde(deserialize_with = "revision::stored")]
    #[schemars(length(min = 1, max = 256))]
    pub revision: String,
    /// The version of that revision, as it is written to a manifest.
    #[schemars(length(max = 256))]
    pub version: String,
    /// The digest of the artifact, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub digest: Option<String>,
    /// Since when clusters get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub since: Option<Time>,
}
