//! The Freeze: when nothing is promoted, and where.
//!
//! A Freeze is written by people alone and has no status. Every Freeze deserialises, so that one which
//! cannot be understood still closes: see [`FreezeSpec::unreadable`].

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    Duration, LabelSelector, Time,
    lenient::{is_default, null_as_default},
    schema,
};

/// When promotions are frozen, and which.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "pipelines.weave.works",
    version = "v1alpha1",
    kind = "Freeze",
    namespaced,
    shortname = "frz",
    category = "sluice",
    derive = "Default",
    derive = "PartialEq",
    doc = "A time in which nothing is promoted. Every selector that is set must match; without any, the Freeze covers all Pipelines of its namespace.",
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".spec.reason"}"#,
    printcolumn = r#"{"name":"Closed","type":"string","jsonPath":".spec.closed[*].cron"}"#,
    printcolumn = r#"{"name":"Open only","type":"string","jsonPath":".spec.openOnly[*].cron","priority":1}"#,
    printcolumn = r#"{"name":"Until","type":"string","jsonPath":".spec.notAfter"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default)]
pub struct FreezeSpec {
    /// Why, as people read it.
    #[schemars(length(min = 1, max = 512))]
    pub reason: String,
    /// The names of the environments that it covers; without it all.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(default, length(max = 64), inner(length(min = 1, max = 253)))]
    pub environments: Vec<String>,
    /// The names of the Pipelines that it covers; without it all.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(default, length(max = 64), inner(length(min = 1, max = 253)))]
    pub pipelines: Vec<String>,
    /// The Pipelines that it covers, by their labels; without it all. Ignored in the namespace of
    /// `--freeze-namespace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector", default)]
    pub selector: Option<LabelSelector>,
    /// The clusters that it covers, by the labels of their GitopsClusters; without it all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector", default)]
    pub cluster_selector: Option<LabelSelector>,
    /// The namespaces that it covers, by their labels; without it all. Only in the namespace of
    /// `--freeze-namespace`; elsewhere a Freeze covers its own namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector", default)]
    pub namespace_selector: Option<LabelSelector>,
    /// Windows in which nothing is promoted. Without this and `openOnly`, nothing is promoted until the
    /// Freeze is deleted or ends.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(default, length(max = 16))]
    pub closed: Vec<ScheduleWindow>,
    /// The only windows in which anything is promoted.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(default, length(max = 16))]
    pub open_only: Vec<ScheduleWindow>,
    /// The Freeze is open before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub not_before: Option<Time>,
    /// The Freeze is open from this time on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub not_after: Option<Time>,
    /// What passes nevertheless: `Rollback`, also without this field. An empty list lets nothing pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, length(max = 4))]
    pub allow: Option<Vec<AllowedPromotion>>,
    /// Why the spec could not be read. Then all other fields are empty.
    #[serde(skip)]
    pub unreadable: Option<String>,
}

/// A window that begins at each time of a cron expression.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleWindow {
    /// When it begins: minute, hour, day of month, month, day of week; or `@daily` and the like.
    #[schemars(length(min = 1, max = 128))]
    pub cron: String,
    /// How long it lasts, such as `64h`; at most 366 days.
    pub window: Duration,
    /// The IANA time zone of `cron`; without it UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: Option<String>,
}

/// What passes a Freeze.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedPromotion {
    /// A rollback to a revision that ran in the environment before.
    Rollback,
}

/// The times at which a Freeze closes, and what passes nevertheless.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct FreezeTimes {
    /// Windows in which nothing is promoted.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default, length(max = 16))]
    pub closed: Vec<ScheduleWindow>,
    /// The only windows in which anything is promoted.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default, length(max = 16))]
    pub open_only: Vec<ScheduleWindow>,
    /// It is open before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub not_before: Option<Time>,
    /// It is open from this time on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub not_after: Option<Time>,
    /// What passes nevertheless; nothing if it is empty.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default, length(max = 4))]
    pub allow: Vec<AllowedPromotion>,
}

impl FreezeSpec {
    /// Its times. One that could not be read lets nothing pass.
    pub fn times(&self) -> FreezeTimes {
        let default = match self.unreadable {
            Some(_) => Vec::new(),
            None => vec![AllowedPromotion::Rollback],
        };
        FreezeTimes {
            closed: self.closed.clone(),
            open_only: self.open_only.clone(),
            not_before: self.not_before.clone(),
            not_after: self.not_after.clone(),
            allow: self.allow.clone().unwrap_or(default),
        }
    }
}

impl Serialize for FreezeSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for FreezeSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let spec = Self::deserialize(value);
        Ok(spec.unwrap_or_else(|error| Self {
            unreadable: Some(error.to_string()),
            ..Self::default()
        }))
    }
}
