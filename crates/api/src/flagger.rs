//! The few fields Sluice reads of Flagger's Canary.
//!
//! Flagger analyses a new pod template of a workload before it copies it to the primary workload.
//! `status.lastAppliedSpec` is the hash of the template that was analysed last,
//! `status.lastPromotedSpec` that of the last one which passed.

use std::time::Duration;

use kube::core::DynamicObject;

use crate::{
    Time,
    third_party::{Object, StatusCondition, lenient_structs, read as read_fields},
};

/// API group of Flagger.
pub const GROUP: &str = "flagger.app";
/// The kind that is read.
pub const KIND: &str = "Canary";

/// Flagger's own default for `spec.analysis.interval`.
const USUAL_INTERVAL: Duration = Duration::from_secs(60);
/// Flagger does not look more often than this.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(10);

lenient_structs! {
    /// What a Canary asks for.
    pub struct CanarySpec {
        /// The workload it analyses, in its own namespace.
        target_ref: TargetReference,
        /// How it is analysed.
        analysis: Analysis,
        /// The same under its former name.
        canary_analysis: Analysis,
        /// Flagger leaves it alone.
        suspend: bool,
    }

    /// A workload in the Canary's namespace.
    pub struct TargetReference {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    }

    /// How a workload is analysed.
    pub struct Analysis {
        /// How often Flagger looks.
        interval: Option<String>,
    }

    /// What became of the analysis.
    pub struct CanaryStatus {
        /// How far it is.
        phase: String,
        /// The hash of the template analysed last.
        last_applied_spec: Option<String>,
        /// The hash of the last template that passed.
        last_promoted_spec: Option<String>,
        /// When anything in the status last changed.
        last_transition_time: Option<Time>,
        /// `Promoted`, with a sentence.
        conditions: Vec<StatusCondition>,
    }
}

/// How far the analysis of a workload is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CanaryPhase {
    /// The primary workload was made from the present one, without an analysis.
    Initialized,
    /// The last analysis passed and the primary workload runs what was analysed.
    Succeeded,
    /// The last analysis failed.
    Failed,
    /// The analysis passed; the primary workload is being brought up to date.
    Promoting,
    /// Flagger has not taken it up yet.
    #[default]
    Absent,
    /// Any other, such as `Progressing` or `Waiting`.
    Other(String),
}

impl CanaryPhase {
    fn of(text: &str) -> Self {
        match text {
            "Initialized" => Self::Initialized,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            "Promoting" | "Finalising" => Self::Promoting,
            "" => Self::Absent,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Whether Flagger has come to a result.
    fn is_result(&self) -> bool {
        matches!(self, Self::Initialized | Self::Succeeded | Self::Failed)
    }
}

/// What one Canary says about the workload it analyses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Canary {
    /// Its name.
    pub name: String,
    /// The kind of the workload.
    pub target_kind: String,
    /// The name of the workload, which is in the Canary's namespace.
    pub target_name: String,
    /// How far the analysis is.
    pub phase: CanaryPhase,
    /// Whether the template analysed last is another than the last one that passed.
    pub differs: bool,
    /// When the phase was reached, by the clock of its cluster; nothing while the analysis goes on,
    /// where every step moves it.
    pub changed_at: Option<Time>,
    /// How often Flagger looks.
    pub interval: Duration,
    /// Whether Flagger was told to leave it alone.
    pub suspended: bool,
    /// What Flagger says about a failure.
    pub message: Option<String>,
}

impl Canary {
    /// Reads a Canary of any API version.
    pub fn read(object: &DynamicObject) -> Self {
        let fields: Object<CanarySpec, CanaryStatus> = read_fields(&object.data);
        let (spec, status) = (fields.spec, fields.status);
        let phase = CanaryPhase::of(&status.phase);
        let message = status
            .conditions
            .into_iter()
            .find(|condition| condition.type_ == "Promoted")
            .and_then(|condition| condition.message)
            .filter(|text| phase == CanaryPhase::Failed && !text.is_empty());
        let interval = spec.analysis.interval.or(spec.canary_analysis.interval);
        Self {
            name: object.metadata.name.clone().unwrap_or_default(),
            target_kind: spec.target_ref.kind,
            target_name: spec.target_ref.name,
            differs: status.last_applied_spec != status.last_promoted_spec,
            changed_at: status.last_transition_time.filter(|_| phase.is_result()),
            interval: interval_of(interval.as_deref()),
            suspended: spec.suspend,
            message,
            phase,
        }
    }
}

fn interval_of(text: Option<&str>) -> Duration {
    let parsed = text.and_then(|text| text.parse::<crate::Duration>().ok());
    let length = parsed.map_or(USUAL_INTERVAL, |interval| interval.length());
    length.max(SHORTEST_INTERVAL)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn canary(spec: Value, status: Value) -> Canary {
        let object = json!({
            "apiVersion": "flagger.app/v1beta1", "kind": "Canary",
            "metadata": {"name": "web", "namespace": "shop"}, "spec": spec, "status": status,
        });
        Canary::read(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_failed_canary_is_read() {
        let read = canary(
            json!({
                "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "podinfo"},
                "analysis": {"interval": "30s"},
            }),
            json!({
                "phase": "Failed", "canaryWeight": 0, "failedChecks": 5, "iterations": 0,
                "lastAppliedSpec": "77b7d8", "lastPromotedSpec": "5454669676",
                "lastTransitionTime": "2026-07-01T10:00:00Z",
                "conditions": [{
                    "type": "Promoted", "status": "False", "reason": "Failed",
                    "message": "Canary analysis failed, Deployment scaled to zero.",
                }],
            }),
        );
        assert_eq!(read.phase, CanaryPhase::Failed);
        assert!(read.differs);
        assert_eq!(read.interval, Duration::from_secs(30));
        assert_eq!(
            (read.target_kind.as_str(), read.target_name.as_str()),
            ("Deployment", "podinfo")
        );
        assert_eq!(
            read.message.as_deref(),
            Some("Canary analysis failed, Deployment scaled to zero.")
        );
        assert!(read.changed_at.is_some());
    }

    #[test]
    fn steps_of_an_analysis_do_not_change_what_is_read() {
        let step = |weight: i64, at: &str| {
            let status =
                json!({"phase": "Progressing", "canaryWeight": weight, "lastTransitionTime": at});
            canary(json!({}), status)
        };
        assert_eq!(
            step(10, "2026-07-01T10:00:00Z"),
            step(20, "2026-07-01T10:01:00Z")
        );
    }

    #[test]
    fn intervals_are_flaggers() {
        for (spec, seconds) in [
            (json!({}), 60),
            (json!({"analysis": {"interval": "5m"}}), 300),
            (json!({"canaryAnalysis": {"interval": "2m"}}), 120),
            (json!({"analysis": {"interval": "1s"}}), 10),
            (json!({"analysis": {"interval": "often"}}), 60),
        ] {
            let read = canary(spec.clone(), json!({}));
            assert_eq!(read.interval, Duration::from_secs(seconds), "{spec}");
            assert_eq!(read.phase, CanaryPhase::Absent);
        }
    }
}
