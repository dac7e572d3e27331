//! Serde helpers for lenient reading: missing fields, `null` and values of an unexpected type.
//!
//! A watch stops at the first object that it cannot deserialise, so no object may be unreadable. Fields
//! that hold their default are not written.

use serde::{Deserialize, Deserializer};

/// Whether a field may be left out when it is written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads an explicit `null` as the default, as the older projects wrote it for empty maps and lists.
pub(crate) fn null_as_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a value of the wrong type as the default.
pub(crate) fn lenient<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + serde::de::DeserializeOwned,
    D: Deserializer<'de>,
{
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// Gives a `spec` type that derives serde with `remote = "Self"` the traits themselves, so that an
/// object without any `spec` reads as one with an empty spec. The root type is generated and
/// offers no other place to say so.
macro_rules! absent_spec_is_empty {
    ($spec:ty) => {
        impl serde::Serialize for $spec {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                <$spec>::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $spec {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct MaybeSpec;

                impl<'de> serde::de::Visitor<'de> for MaybeSpec {
                    type Value = $spec;

                    fn expecting(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        text.write_str("a spec")
                    }

                    fn visit_none<E>(self) -> Result<$spec, E> {
                        Ok(Default::default())
                    }

                    fn visit_unit<E>(self) -> Result<$spec, E> {
                        Ok(Default::default())
                    }

                    fn visit_some<D: serde::Deserializer<'de>>(
                        self,
                        deserializer: D,
                    ) -> Result<$spec, D::Error> {
                        <$spec>::deserialize(deserializer)
                    }
                }

                deserializer.deserialize_option(MaybeSpec)
            }
        }
    };
}
pub(crate) use absent_spec_is_empty;
