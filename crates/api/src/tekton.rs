//! The few fields Sluice reads of Tekton's objects, in any API version.

use crate::third_party::{Object, StatusCondition, lenient_structs};

/// API group of Pipeline and PipelineRun.
pub const GROUP: &str = "tekton.dev";

/// One run of a Tekton Pipeline.
pub type PipelineRun = Object<PipelineRunSpec, PipelineRunStatus>;
/// A Tekton Pipeline.
pub type Pipeline = Object<PipelineSpec, ()>;

lenient_structs! {
    /// What a PipelineRun asks for.
    pub struct PipelineRunSpec {
        /// The Tekton Pipeline to run.
        pipeline_ref: Option<PipelineReference>,
        /// Set to cancel the run.
        status: Option<String>,
    }

    /// Which Tekton Pipeline to run.
    pub struct PipelineReference {
        /// Its name, in the same namespace.
        name: Option<String>,
        /// How it is fetched from elsewhere instead.
        resolver: Option<String>,
    }

    /// What became of a PipelineRun.
    pub struct PipelineRunStatus {
        /// Conditions; the one of type `Succeeded` says it all.
        conditions: Vec<StatusCondition>,
        /// When it started.
        start_time: Option<String>,
        /// When it ended.
        completion_time: Option<String>,
    }

    /// What a Tekton Pipeline takes.
    pub struct PipelineSpec {
        /// Its parameters.
        params: Vec<Parameter>,
    }

    /// A parameter of a Tekton Pipeline.
    pub struct Parameter {
        /// Its name.
        name: String,
        /// `string`, `array` or `object`.
        #[serde(rename = "type")]
        type_: Option<String>,
    }
}

/// How far a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Tekton has not said anything yet.
    Unknown,
    /// It runs.
    Running,
    /// It ended well.
    Succeeded,
    /// It failed, was cancelled or timed out.
    Failed {
        /// Tekton's word for why.
        reason: String,
        /// Tekton's sentence about it.
        message: String,
    },
}

impl PipelineRunStatus {
    /// How far the run is.
    pub fn progress(&self) -> Progress {
        let succeeded = self
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Succeeded");
        let Some(condition) = succeeded else {
            return Progress::Unknown;
        };
        match condition.status.as_str() {
            "True" => Progress::Succeeded,
            "False" => Progress::Failed {
                reason: condition
                    .reason
                    .clone()
                    .unwrap_or_else(|| "Failed".to_owned()),
                message: condition.message.clone().unwrap_or_default(),
            },
            _ => Progress::Running,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::third_party::read;

    fn progress(conditions: Value) -> Progress {
        read::<PipelineRun>(&json!({ "status": { "conditions": conditions } }))
            .status
            .progress()
    }

    #[test]
    fn the_succeeded_condition_says_it_all() {
        assert_eq!(progress(json!(null)), Progress::Unknown);
        assert_eq!(progress(json!([])), Progress::Unknown);
        assert_eq!(
            progress(json!([{ "type": "Other", "status": "True" }])),
            Progress::Unknown
        );
        assert_eq!(
            progress(json!([{ "type": "Succeeded", "status": "Unknown" }])),
            Progress::Running
        );
        assert_eq!(
            progress(json!([{ "type": "Succeeded", "status": "True" }])),
            Progress::Succeeded
        );
        let cancelled = json!([{ "type": "Succeeded", "status": "False", "reason": "Cancelled", "message": "stopped" }]);
        let failed = Progress::Failed {
            reason: "Cancelled".into(),
            message: "stopped".into(),
        };
        assert_eq!(progress(cancelled), failed);
        assert!(matches!(
            progress(json!([{ "type": "Succeeded", "status": "False" }])),
            Progress::Failed { .. }
        ));
    }
}
