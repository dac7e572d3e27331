//! Adds the images of an app's workloads, requested once for each state of the app.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use api::{Pipeline, pipeline::AppStatus};
use kube::Client;
use planner::ObservedApp;
use runtime::ObjectKey;

use super::{
    complete::kind_of,
    location::TargetLocation,
    resource_set::{AppObject, is_resource_set, objects_of},
};
use crate::{PipelineReconciler, apps::WantedWorkloads};

/// How long after a status that shows the images of the workloads that an app had before, all are listed.
const ALL_WORKLOADS_AFTER: Duration = Duration::from_secs(1);
/// The stored state of each app, by cluster, namespace, and kind and name.
pub(super) type StoredApps = BTreeMap<(String, String, String), AppStatus>;

pub(super) fn known_apps(pipeline: &Pipeline) -> StoredApps {
    let mut known = StoredApps::new();
    let environments = pipeline
        .status
        .iter()
        .flat_map(|status| status.environments.values());
    for target in environments.flat_map(|environment| &environment.targets) {
        let cluster = target
            .cluster_app_ref
            .as_ref()
            .and_then(|it| it.cluster_ref.as_ref());
        let cluster = cluster.map(|it| format!("{:?}/{}", it.namespace, it.name));
        let namespace = target.namespace.clone().unwrap_or_default();
        for app in &target.apps {
            let location = (
                cluster.clone().unwrap_or_default(),
                namespace.clone(),
                format!("{}/{}", app.kind, app.name),
            );
            known.insert(location, app.clone());
        }
    }
    known
}

/// Adds the images of an app's workloads, if its state has changed since they were read.
pub(super) async fn with_images(
    reconciler: &Arc<PipelineReconciler>,
    (pipeline, known): (&Pipeline, &StoredApps),
    location: &TargetLocation,
    app: &mut ObservedApp,
) {
    let (apps, kind) = (&reconciler.apps, kind_of(app));
    if is_resource_set(&kind) {
        return with_images_of_all(reconciler, location, app).await;
    }
    let here = (location.namespace.as_str(), app.name.as_str());
    let record = apps.record(&location.cluster, &kind, here);
    let record = record.unwrap_or_default();
    if app.images.is_none() {
        app.note = apps.images_note(&location.cluster, &kind);
    }
    let is_read = app.images.is_some() || !planner::needs_images(stored(known, location, app), app);
    if app.note.is_some() || is_read && !record.has_provisional_images {
        return;
    }
    let Some(client) = reconciler.clients.read().get(&location.cluster).cloned() else {
        return;
    };
    let is_decisive = pipeline.spec.track.is_some() || apps.has_canaries(&location.cluster);
    let wanted = match &record.workloads {
        Some(known) if !is_decisive && !record.has_provisional_images => {
            WantedWorkloads::Known(known.clone())
        }
        _ => WantedWorkloads::All,
    };
    let lookups = apps.workload_lookups(&location.cluster, &kind);
    let asked = (location.namespace.clone(), app.name.clone());
    match lookups.get(&client, &kind, asked, wanted).await {
        Ok(deployed) => {
            app.images = Some(deployed.images.clone());
            if deployed.is_provisional() {
                let key = ObjectKey::of(&pipeline.metadata);
                let delay = reconciler.jittered(ALL_WORKLOADS_AFTER);
                reconciler.workers.enqueue_after(key, delay);
            }
            apps.put_workloads(&location.cluster, &kind, here, &app.reading, deployed);
        }
        Err(unread) => app.note = Some(unread.note),
    }
}

/// The stored state of an app.
fn stored<'a>(
    known: &'a StoredApps,
    location: &TargetLocation,
    app: &ObservedApp,
) -> Option<&'a AppStatus> {
    let cluster = location.reference.as_ref();
    let cluster = cluster.map(|it| format!("{:?}/{}", it.namespace, it.name));
    known.get(&(
        cluster.unwrap_or_default(),
        location.namespace.clone(),
        format!("{}/{}", app.kind, app.name),
    ))
}

/// Adds the images of a ResourceSet: of the workloads that it applied itself, and of those of its apps.
async fn with_images_of_all(
    reconciler: &Arc<PipelineReconciler>,
    location: &TargetLocation,
    set: &mut ObservedApp,
) {
    let Some(client) = reconciler.clients.read().get(&location.cluster).cloned() else {
        return;
    };
    let mut images = BTreeSet::new();
    for object in objects_of(reconciler, location, kind_of(set), &set.name) {
        match images_of(reconciler, location, &client, &object).await {
            Ok(found) => images.extend(found),
            Err(note) => {
                set.note = Some(note);
                return;
            }
        }
    }
    set.images = Some(images.into_iter().collect());
}

/// The images of an object's workloads, or why they are left out.
async fn images_of(
    reconciler: &PipelineReconciler,
    location: &TargetLocation,
    client: &Client,
    object: &AppObject,
) -> Result<Vec<String>, String> {
    let (apps, cluster, kind) = (&reconciler.apps, &location.cluster, &object.kind);
    if let Some(note) = apps.images_note(cluster, kind) {
        return Err(note);
    }
    let here = (object.namespace.as_str(), object.name.as_str());
    let record = apps.record(cluster, kind, here).unwrap_or_default();
    if let (Some(images), false) = (&record.images, record.has_provisional_images) {
        return Ok(images.clone());
    }
    let asked = (object.namespace.clone(), object.name.clone());
    let lookups = apps.workload_lookups(cluster, kind);
    let deployed = lookups.get(client, kind, asked, WantedWorkloads::All).await;
    let deployed = deployed.map_err(|unread| unread.note)?;
    apps.put_workloads(cluster, kind, here, &record.reading, deployed.clone());
    Ok(deployed.images)
}
