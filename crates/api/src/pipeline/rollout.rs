//! How a promotion goes through the targets of an environment in waves, and the limits it keeps.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{
    Duration, LabelSelector,
    lenient::{is_default, null_as_default},
    schema,
};

/// Waves and limits of a promotion into an environment with many targets.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Rollout {
    /// The waves, in order. A target belongs to the first wave whose `selector` matches it and whose `percent`
    /// is not reached; the others belong to one more wave at the end.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(length(max = 16))]
    pub waves: Vec<Wave>,
    /// How many targets may fail, as a number or as a percentage such as `5%`; one more stops the rollout.
    /// Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_failures: Option<TargetLimit>,
    /// How many targets may be unreachable, as a number or a percentage; while there are more, no target is
    /// started. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unreachable: Option<TargetLimit>,
    /// What a newer revision does to a rollout in progress. Default: it waits until that has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_new_revision: Option<OnNewRevision>,
}

/// Targets that get the revision together.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Wave {
    /// Only targets on GitopsClusters with these labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector", default)]
    pub selector: Option<LabelSelector>,
    /// At most this percentage of all targets of the environment, rounded down, and at least one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub percent: Option<i64>,
    /// How many targets may be in progress at the same time. Default: all of the wave.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_concurrent: Option<i64>,
    /// How long all targets of the wave must have been ready before the next wave begins. Default:
    /// `0s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak: Option<Duration>,
}

/// What a newer revision does to a rollout in progress: it waits until that has ended or is stopped (`Finish`, the
/// default), or replaces it and begins with the first wave (`Restart`).
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnNewRevision {
    /// It waits until the rollout has ended or is stopped.
    #[default]
    Finish,
    /// It replaces the rollout, and begins with the first wave.
    Restart,
}

/// A number of targets, or a percentage of them.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(untagged)]
pub enum TargetLimit {
    /// This many.
    Count(i64),
    /// A percentage, such as `5%`.
    Percentage(String),
}

impl TargetLimit {
    /// The number of targets of `all`, rounded down; nothing where it is neither a number nor a percentage.
    pub fn of(&self, all: usize) -> Option<usize> {
        match self {
            Self::Count(count) => usize::try_from(*count).ok(),
            Self::Percentage(text) => {
                let percent: usize = text.strip_suffix('%')?.parse().ok()?;
                (percent <= 100).then(|| all * percent / 100)
            }
        }
    }
}

impl JsonSchema for TargetLimit {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TargetLimit".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "minimum": 0,
            "pattern": "^(100|[1-9]?[0-9])%$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_or_a_percentage() {
        let limit = |text: &str| serde_json::from_str::<TargetLimit>(text).unwrap();
        for (text, expected) in [
            ("2", Some(2)),
            ("\"5%\"", Some(4)),
            ("\"100%\"", Some(99)),
            ("-1", None),
            ("\"101%\"", None),
            ("\"five\"", None),
        ] {
            assert_eq!(limit(text).of(99), expected, "{text}");
        }
    }
}
