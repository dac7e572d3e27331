//! References to other objects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An object in the same namespace, of a kind the field implies.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct LocalReference {
    /// The object's name.
    pub name: String,
}
