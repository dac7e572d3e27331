//! The trigger operator's gauge of conditions, `pipelinetrigger_reconcile_condition`.
//!
//! The series of triggers and branches that are gone are removed. Labels come from enums and from the
//! names of objects only.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use api::trigger::TriggerSourceKind;
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};
use runtime::ObjectKey;

use crate::plan::ConditionSample;

/// The possible statuses of a condition; the series of the current one is 1.
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// The labels of the gauge, in the operator's order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
struct ConditionLabels {
    kind: &'static str,
    name: String,
    namespace: String,
    sourcekind: String,
    repo: String,
    r#type: String,
    status: &'static str,
}

/// The gauge of conditions. Cloning shares it.
#[derive(Clone, Default)]
pub struct TriggerMetrics {
    conditions: Family<ConditionLabels, Gauge>,
    series: Arc<Mutex<HashMap<ObjectKey, BTreeSet<ConditionLabels>>>>,
}

impl TriggerMetrics {
    /// Registers the gauge.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "pipelinetrigger_reconcile_condition",
            "The newest condition of a trigger, by source or pull request branch",
            metrics.conditions.clone(),
        );
        metrics
    }

    /// Replaces the series of one trigger.
    pub(super) fn set(
        &self,
        key: &ObjectKey,
        kind: TriggerSourceKind,
        samples: &[ConditionSample],
    ) {
        let mut series = self.series.lock();
        let before = series.remove(key).unwrap_or_default();
        let mut now = BTreeSet::new();
        for sample in samples {
            for status in STATUSES {
                let labels = ConditionLabels {
                    kind: "PipelineTrigger",
                    name: key.name.clone(),
                    namespace: key.namespace.clone(),
                    sourcekind: format!("{kind:?}"),
                    repo: sample.repository.clone(),
                    r#type: sample.type_.clone(),
                    status,
                };
                let value = i64::from(sample.status == status);
                self.conditions.get_or_create(&labels).set(value);
                now.insert(labels);
            }
        }
        for labels in before.difference(&now) {
            self.conditions.remove(labels);
        }
        series.insert(key.clone(), now);
    }

    /// Removes the series of a deleted trigger.
    pub(super) fn remove(&self, key: &ObjectKey) {
        let removed = self.series.lock().remove(key);
        for labels in removed.into_iter().flatten() {
            self.conditions.remove(&labels);
        }
    }

    /// Removes all series: another replica leads and shows its own.
    pub(super) fn clear(&self) {
        self.series.lock().clear();
        self.conditions.clear();
    }
}
