//! What is remembered about a revision that ran in an environment.
//!
//! Earlier versions of Sluice stored the revision as plain text; it is read as an entry with nothing else.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{Time, lenient::is_default, revision, schema};

/// A revision that ran in an environment. All times are by the hub's clock.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RanRevision {
    /// The revision.
    #[serde(deserialize_with = "revision::stored")]
    #[schemars(length(min = 1, max = 256))]
    pub revision: String,
    /// The version of that revision, as it is written to git.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub version: Option<String>,
    /// The digest of the artifact, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub digest: Option<String>,
    /// When the first target became ready at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub first_ready_at: Option<Time>,
    /// When all targets were ready at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub all_ready_at: Option<Time>,
    /// When every check of the environment had passed for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub checked_at: Option<Time>,
    /// The check of the environment that failed for it last; nothing once all passed again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub failed_check: Option<String>,
    /// When the last target left it for another revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub left_at: Option<Time>,
    /// Whether Flux verified the signature of its source.
    #[serde(default, skip_serializing_if = "is_default")]
    pub signed: bool,
    /// Whether people approved the promotion that brought it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub approved: bool,
    /// The Promotion that brought it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub promotion: Option<String>,
    /// When it ran before it came back, oldest first, the last five times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5))]
    pub earlier_stays: Vec<EarlierStay>,
}

/// A time in which a revision ran, before another one took its place and it came back.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct EarlierStay {
    /// When all targets were ready at it, or the first one if never all were.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub ready_at: Option<Time>,
    /// When the last target left it for another revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub left_at: Option<Time>,
    /// The Promotion that brought it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub promotion: Option<String>,
}

impl RanRevision {
    /// The revision for people: with its tag where it is a digest.
    pub fn shown_revision(&self) -> String {
        revision::shown(&self.revision, self.version.as_deref())
    }
}

impl From<&str> for RanRevision {
    fn from(revision: &str) -> Self {
        Self {
            revision: revision.to_owned(),
            ..Self::default()
        }
    }
}

/// Reads entries and plain revisions, each revision once. What is neither is left out.
pub(super) fn stored<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<RanRevision>, D::Error> {
    let values: Option<Vec<Value>> = Option::deserialize(deserializer)?;
    let mut known: Vec<RanRevision> = Vec::new();
    for value in values.unwrap_or_default() {
        let entry = match value {
            Value::String(text) => Some(RanRevision::from(revision::identity(&text))),
            value => serde_json::from_value(value).ok(),
        };
        let is_new = |entry: &RanRevision| known.iter().all(|it| it.revision != entry.revision);
        known.extend(entry.filter(|it| !it.revision.is_empty() && is_new(it)));
    }
    Ok(known)
}
