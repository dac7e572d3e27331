//! The operator's gauge. What a loop counts besides is `crate::metrics`.
//!
//! Series of triggers and branches that are gone go with them. Labels come from enums and from the
//! names of objects only.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use ::trigger::plan::ConditionSample;
use api::trigger::TriggerSourceKind;
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use runtime::ObjectKey;

/// The operator's three statuses; one of them is 1.
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// The labels of the operator's gauge, in its order.
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

/// The gauge. Cloning shares it.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Inner>);

#[derive(Default)]
struct Inner {
    condition: Family<ConditionLabels, Gauge>,
    shown: Mutex<HashMap<ObjectKey, BTreeSet<ConditionLabels>>>,
}

impl Metrics {
    /// Puts it on a page.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "pipelinetrigger_reconcile_condition",
            "How the newest run of a trigger is doing",
            self.0.condition.clone(),
        );
    }

    /// Shows a trigger's signals and nothing else of it.
    pub(super) fn show(
        &self,
        key: &ObjectKey,
        kind: TriggerSourceKind,
        signals: &[ConditionSample],
    ) {
        let mut shown = self.0.shown.lock();
        let before = shown.remove(key).unwrap_or_default();
        let mut now = BTreeSet::new();
        for signal in signals {
            for status in STATUSES {
                let labels = ConditionLabels {
                    kind: "PipelineTrigger",
                    name: key.name.clone(),
                    namespace: key.namespace.clone(),
                    sourcekind: format!("{kind:?}"),
                    repo: signal.repository.clone(),
                    r#type: signal.type_.clone(),
                    status,
                };
                let value = i64::from(signal.status == status);
                self.0.condition.get_or_create(&labels).set(value);
                now.insert(labels);
            }
        }
        for labels in before.difference(&now) {
            self.0.condition.remove(labels);
        }
        shown.insert(key.clone(), now);
    }

    pub(super) fn forget(&self, key: &ObjectKey) {
        let gone = self.0.shown.lock().remove(key);
        for labels in gone.into_iter().flatten() {
            self.0.condition.remove(&labels);
        }
    }

    /// Whoever leads now shows its own.
    pub(super) fn clear(&self) {
        self.0.shown.lock().clear();
        self.0.condition.clear();
    }
}
