//! ResourceSets of Flux Operator: their revision is that of the one HelmRelease or Kustomization that they
//! apply, or of the image that `track` names.
//!
//! What they apply is watched like any app. On the hub only apps in the ResourceSet's own namespace are
//! looked at: a pipeline may not look into others by way of an inventory.

use api::app::{AppReading, AppliedApp, RESOURCE_SET_GROUP, RESOURCE_SET_KIND};
use planner::{ObservedApp, TargetState};

use super::{location::TargetLocation, target_state};
use crate::{
    PipelineReconciler,
    apps::{AppLookup, AppRecord},
    index::RequiredApp,
    keys::{AppKind, ClusterKey},
};

/// An object on the cluster of a target that runs something.
#[derive(Clone, Debug)]
pub(super) struct AppObject {
    pub(super) kind: AppKind,
    pub(super) namespace: String,
    pub(super) name: String,
}

pub(super) fn is_resource_set(kind: &AppKind) -> bool {
    kind.group == RESOURCE_SET_GROUP && kind.kind == RESOURCE_SET_KIND
}

/// The apps that a ResourceSet applied and that may be looked at.
fn applied(location: &TargetLocation, record: &AppRecord) -> Vec<AppObject> {
    let may_look = |app: &&AppliedApp| {
        location.cluster != ClusterKey::Hub || app.namespace == location.namespace
    };
    let apps = record.applied.iter().filter(may_look);
    apps.map(|app| AppObject {
        kind: AppKind::new(&app.group, &app.kind),
        namespace: app.namespace.clone(),
        name: app.name.clone(),
    })
    .collect()
}

/// The objects whose workloads belong to an app: the app itself, and what it applied.
pub(super) fn objects_of(
    reconciler: &PipelineReconciler,
    location: &TargetLocation,
    kind: AppKind,
    name: &str,
) -> Vec<AppObject> {
    let here = (location.namespace.as_str(), name);
    let record = match is_resource_set(&kind) {
        true => reconciler.apps.record(&location.cluster, &kind, here),
        false => None,
    };
    let itself = AppObject {
        kind,
        namespace: location.namespace.clone(),
        name: name.to_owned(),
    };
    let applied = record.map(|record| applied(location, &record));
    [itself]
        .into_iter()
        .chain(applied.into_iter().flatten())
        .collect()
}

/// The object that has the revision: the app itself, or the one app that a ResourceSet applied.
pub(super) fn versioned_object(
    reconciler: &PipelineReconciler,
    location: &TargetLocation,
    kind: AppKind,
    name: &str,
) -> Option<AppObject> {
    let is_set = is_resource_set(&kind);
    let mut objects = objects_of(reconciler, location, kind, name);
    match (is_set, objects.len()) {
        (false, _) => objects.pop(),
        (true, 2) => objects.pop(),
        (true, _) => None,
    }
}

/// What has to be watched because a ResourceSet in this location applied it.
pub(super) fn required_apps(
    reconciler: &PipelineReconciler,
    location: &TargetLocation,
    kind: &AppKind,
    name: &str,
) -> Vec<RequiredApp> {
    let objects = objects_of(reconciler, location, kind.clone(), name);
    let applied = objects.into_iter().skip(1);
    let required = applied.map(|app| RequiredApp {
        cluster: location.cluster.clone(),
        kind: app.kind,
        namespace: app.namespace,
        name: Some(app.name),
    });
    required.collect()
}

/// Adds what its apps say to a ResourceSet, or says why that is not known.
pub(super) fn with_applied(
    reconciler: &PipelineReconciler,
    location: &TargetLocation,
    set: &mut ObservedApp,
    is_tracked: bool,
) -> Result<(), TargetState> {
    let kind = AppKind::new(RESOURCE_SET_GROUP, RESOURCE_SET_KIND);
    let objects = objects_of(reconciler, location, kind, &set.name);
    let mut readings = Vec::new();
    for app in objects.iter().skip(1) {
        let apps = &reconciler.apps;
        match apps.find(&location.cluster, &app.kind, &app.namespace, &app.name) {
            AppLookup::Unknown(state) => return Err(target_state(&state)),
            AppLookup::Found(found) => readings.push((app, found.into_iter().next())),
        }
    }
    let readings = readings.into_iter().map(|(app, found)| match found {
        Some((_, record)) => record.reading.clone(),
        None => AppReading {
            message: Some(format!("{} {} does not exist", app.kind.kind, app.name)),
            ..AppReading::default()
        },
    });
    merge(&mut set.reading, &readings.collect::<Vec<_>>(), is_tracked);
    Ok(())
}

/// The state of a ResourceSet and of what it applied as one. Only what it applied can fail at a revision.
fn merge(set: &mut AppReading, applied: &[AppReading], is_tracked: bool) {
    let is_set_ready = set.ready;
    let message = set.message.take().filter(|_| !is_set_ready);
    let unready = applied.iter().find(|app| !app.ready);
    let first = applied
        .first()
        .filter(|_| applied.len() == 1 && !is_tracked);
    let mut whole = first.cloned().unwrap_or_default();
    whole.ready = is_set_ready && unready.is_none();
    whole.lagging |= set.lagging;
    whole.message = message.or_else(|| unready.or(first)?.message.clone());
    if !is_tracked && applied.len() != 1 {
        whole.ready = false;
        let found = match applied.len() {
            0 => "no HelmRelease or Kustomization".to_owned(),
            many => format!("{many} HelmReleases and Kustomizations"),
        };
        whole.error = Some(format!("it applies {found}; name an image in `track`"));
    }
    *set = whole;
}

#[cfg(test)]
mod tests {
    use api::Revision;

    use super::*;

    fn reading(revision: Option<&str>, ready: bool) -> AppReading {
        AppReading {
            revision: revision.and_then(Revision::new),
            ready,
            ..AppReading::default()
        }
    }

    fn check(set: bool, applied: &[(&str, bool)], is_tracked: bool, expected: &str) {
        let mut whole = reading(None, set);
        let applied = applied
            .iter()
            .map(|(revision, ready)| reading(Some(revision), *ready));
        merge(&mut whole, &applied.collect::<Vec<_>>(), is_tracked);
        let revision = whole.revision.as_ref().map_or("-", Revision::as_str);
        let error = whole.error.unwrap_or_default();
        let shown = format!("{revision} {} {error}", whole.ready);
        assert_eq!(shown.trim_end(), expected);
    }

    #[test]
    fn the_one_app_has_the_revision() {
        check(true, &[("1.0.0", true)], false, "1.0.0 true");
        check(true, &[("1.0.0", false)], false, "1.0.0 false");
        check(false, &[("1.0.0", true)], false, "1.0.0 false");
        let none = "- false it applies no HelmRelease or Kustomization; name an image in `track`";
        check(true, &[], false, none);
        let two = "- false it applies 2 HelmReleases and Kustomizations; name an image in `track`";
        check(true, &[("1.0.0", true), ("2.0.0", true)], false, two);
    }

    #[test]
    fn with_a_tracked_image_all_have_to_be_ready() {
        check(true, &[], true, "- true");
        check(true, &[("1.0.0", true), ("2.0.0", true)], true, "- true");
        check(true, &[("1.0.0", true), ("2.0.0", false)], true, "- false");
        check(false, &[("1.0.0", true)], true, "- false");
    }
}
