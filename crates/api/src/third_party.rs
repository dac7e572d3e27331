//! Reads objects of other projects, such as Flux and Tekton.
//!
//! Only the fields that Sluice uses have a type. A field that is missing or of an unexpected type is the
//! default; no object is unreadable.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::lenient::lenient;

/// Reads the fields of an object; those of an unexpected type are the default.
pub fn read<T: Default + DeserializeOwned>(fields: &Value) -> T {
    T::deserialize(fields).unwrap_or_default()
}

/// Spec and status of an object.
#[derive(Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(
    default,
    bound = "Spec: Default + DeserializeOwned, Status: Default + DeserializeOwned"
)]
pub struct Object<Spec, Status> {
    /// The desired state.
    #[serde(deserialize_with = "lenient")]
    pub spec: Spec,
    /// The observed state.
    #[serde(deserialize_with = "lenient")]
    pub status: Status,
}

/// Declares structs of which every field may be missing or of an unexpected type.
macro_rules! lenient_structs {
    ($($(#[$about:meta])* $visibility:vis struct $name:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty,)*
    })*) => {$(
        $(#[$about])*
        #[derive(serde::Deserialize, Clone, Debug, Default, PartialEq)]
        #[serde(rename_all = "camelCase", default)]
        $visibility struct $name {
            $($(#[$doc])* #[serde(deserialize_with = "crate::lenient::lenient")] $visibility $field: $type,)*
        }
    )*};
}
pub(crate) use lenient_structs;

lenient_structs! {
    /// One condition, as far as it is read.
    pub struct StatusCondition {
        /// The aspect.
        #[serde(rename = "type")]
        type_: String,
        /// Whether it holds: `True`, `False` or `Unknown`.
        status: String,
        /// A fixed reason.
        reason: Option<String>,
        /// A sentence.
        message: Option<String>,
        /// The generation that it is about.
        observed_generation: Option<i64>,
    }
}

impl StatusCondition {
    /// Whether it has the type and is `True`.
    pub fn is_true(&self, type_: &str) -> bool {
        self.type_ == type_ && self.status == "True"
    }
}
