//! Flux Operator's ResourceSets. They are ready by themselves; the revision is that of what they apply.

use kube::core::DynamicObject;

use super::{AppReading, FluxHealth};
use crate::{
    Revision,
    flux::{HELM_GROUP, Inventory, InventoryEntry, KUSTOMIZE_GROUP},
    third_party::{Object, StatusCondition, lenient_structs, read},
};

/// The API group of Flux Operator.
pub const GROUP: &str = "fluxcd.controlplane.io";
/// The kind.
pub const KIND: &str = "ResourceSet";
/// How many apps of one ResourceSet are read.
const MOST_APPS: usize = 32;

pub(super) type ResourceSet = Object<ResourceSetSpec, ResourceSetStatus>;

lenient_structs! {
    /// Nothing of it is read.
    pub(super) struct ResourceSetSpec {}

    /// What became of a ResourceSet.
    pub(super) struct ResourceSetStatus {
        /// Conditions.
        conditions: Option<Vec<StatusCondition>>,
        /// The digest of the objects that it applied.
        last_applied_revision: Option<String>,
        /// What it applied.
        inventory: Inventory,
    }
}

/// A HelmRelease or Kustomization that a ResourceSet applied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppliedApp {
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// Whether it is ready. The revision tells only that what it applies has changed.
pub(super) fn reading(set: &ResourceSet, generation: i64) -> AppReading {
    let conditions = set.status.conditions.as_deref().unwrap_or_default();
    let health = FluxHealth::of(conditions, None, generation);
    let applied = set.status.last_applied_revision.as_deref();
    AppReading {
        revision: applied.and_then(Revision::new),
        ready: health.is_ready && !health.lagging,
        lagging: health.lagging,
        message: health.message,
        ..AppReading::default()
    }
}

/// The HelmReleases and Kustomizations that a ResourceSet applied.
pub fn applied_apps(set: &DynamicObject) -> Vec<AppliedApp> {
    let set: ResourceSet = read(&set.data);
    let apps = set.status.inventory.entries.iter().filter_map(app);
    let mut apps: Vec<_> = apps.collect();
    apps.sort();
    apps.dedup();
    apps.truncate(MOST_APPS);
    apps
}

fn app(entry: &InventoryEntry) -> Option<AppliedApp> {
    let [namespace, name, group, kind] = entry.object()?;
    let apps = [
        (HELM_GROUP, "HelmRelease"),
        (KUSTOMIZE_GROUP, "Kustomization"),
    ];
    apps.contains(&(group, kind)).then(|| AppliedApp {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}
