//! The Pipeline of the API group `pipelines.wego.weave.works`, which the first proposal (RFC-0001) named.
//!
//! It has the fields of a [`Pipeline`](crate::Pipeline) and is read as one: spellings that changed
//! are converted as in any other spec. Sluice works on a Pipeline of the same name that it keeps
//! equal.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pipeline::PipelineSpec;

/// What a team writes, as in any other Pipeline.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "pipelines.wego.weave.works",
    version = "v1alpha1",
    kind = "Pipeline",
    root = "WegoPipeline",
    namespaced,
    status = "crate::pipeline::PipelineStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A Pipeline in the API group of the first proposal (RFC-0001). Sluice keeps a Pipeline of the same \
           name in pipelines.weave.works equal to it and copies its status back.",
    printcolumn = r#"{"name":"State","type":"string","jsonPath":".status.state"}"#,
    printcolumn = r#"{"name":"Runs","type":"string","jsonPath":".status.runs"}"#,
    printcolumn = r#"{"name":"App Kind","type":"string","jsonPath":".spec.appRef.kind","priority":1}"#,
    printcolumn = r#"{"name":"App Name","type":"string","jsonPath":".spec.appRef.name","priority":1}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(transparent)]
pub struct WegoPipelineSpec {
    /// The environments, and how revisions move between them.
    pub pipeline: PipelineSpec,
}
