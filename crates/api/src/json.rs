//! Reads objects of our kinds from JSON.
//!
//! The deserializers of our kinds are large. Here they are compiled once: crates that are built for size link
//! to these instead of compiling their own, also where the client of Kubernetes reads the objects for them.

use serde_json::Value;

use crate::{
    Change, CheckRun, Freeze, GitopsCluster, Pipeline, PipelineTrigger, Promotion, WegoPipeline,
};

/// A kind that is read from JSON.
pub trait FromJson: Sized {
    /// Reads an object from text.
    fn from_json(text: &str) -> Result<Self, serde_json::Error>;

    /// Reads an object from a value.
    fn from_value(value: Value) -> Result<Self, serde_json::Error>;
}

macro_rules! from_json {
    ($($kind:ty),*) => {$(
        impl FromJson for $kind {
            fn from_json(text: &str) -> Result<Self, serde_json::Error> {
                serde_json::from_str(text)
            }

            fn from_value(value: Value) -> Result<Self, serde_json::Error> {
                serde_json::from_value(value)
            }
        }
    )*};
}

from_json!(
    Change,
    CheckRun,
    Freeze,
    GitopsCluster,
    Pipeline,
    PipelineTrigger,
    Promotion,
    WegoPipeline
);
