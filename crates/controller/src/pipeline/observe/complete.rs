//! Adds what has to be requested from the cluster: images, sources, whether a namespace exists.

use std::{sync::Arc, time::Duration};

use api::{Pipeline, Revision, app::AppType, revision::is_digest};
use planner::{ObservedApp, ObservedCanaries, ObservedTarget, TargetState};

use super::{
    images::{StoredApps, with_images},
    location::TargetLocation,
    resource_set::{AppObject, objects_of, versioned_object},
};
use crate::{
    Detect, PipelineReconciler,
    apps::{
        WantedWorkloads, WatchState, Workload, Workloads,
        images::{self, WorkloadError},
        sources::AppNamespace,
    },
    clusters::cluster_connection,
    keys::{AppKind, ClusterKey},
};
use runtime::ObjectKey;

/// How long until workloads that do not run one version of the tracked image are read again.
const MIXED_AGAIN: Duration = Duration::from_secs(20);

/// Adds what has to be requested: images, and whether a namespace exists.
pub(super) async fn complete(
    reconciler: &Arc<PipelineReconciler>,
    pipeline: &Pipeline,
    known: &StoredApps,
    location: TargetLocation,
    state: TargetState,
) -> ObservedTarget {
    let state = match state {
        TargetState::Observed(apps) if apps.is_empty() => {
            match reconciler
                .has_namespace(&location.cluster, &location.namespace)
                .await
            {
                Some(false) => TargetState::NamespaceMissing,
                _ => TargetState::Missing,
            }
        }
        TargetState::Observed(mut apps) => {
            for app in &mut apps {
                with_images(reconciler, (pipeline, known), &location, app).await;
                with_canaries(reconciler, &location, app).await;
                if pipeline.spec.app_ref.is_none() {
                    with_note_on_workloads(reconciler, &location, app);
                }
                with_source(reconciler, &location, app).await;
                if let Some(track) = &pipeline.spec.track {
                    app.follows = None;
                    app.signed = None;
                    follow_image(app, &track.image);
                    let refused = reconciler
                        .apps
                        .images_note(&location.cluster, &kind_of(app));
                    if app.reading.revision.is_none() && refused.is_none() {
                        recheck_workloads(reconciler, pipeline, &location, app);
                    }
                }
            }
            TargetState::Observed(apps)
        }
        other => other,
    };
    ObservedTarget {
        cluster: location.reference,
        namespace: location.namespace,
        relies_on_reports: reconciler.settings.detect == Detect::Webhook,
        state,
    }
}

/// Adds Flagger's Canaries of the app's workloads. Where nobody may read them, the app says so and is
/// not held up.
async fn with_canaries(
    reconciler: &Arc<PipelineReconciler>,
    location: &TargetLocation,
    app: &mut ObservedApp,
) {
    let refused = "canaries are left out: reading them is not allowed";
    if let WatchState::Forbidden(_) = reconciler
        .apps
        .canary_state(&location.cluster, &location.namespace)
    {
        app.note.get_or_insert_with(|| refused.to_owned());
        return;
    }
    if !reconciler.apps.has_canaries(&location.cluster) {
        return;
    }
    match workloads(reconciler, location, app).await {
        Ok(workloads) => {
            let found = reconciler.apps.canaries_of(&location.cluster, &workloads);
            app.canaries = ObservedCanaries::Known(found);
        }
        Err(unread) if unread.is_forbidden => {
            app.note.get_or_insert(unread.note);
        }
        Err(unread) => {
            let because = format!("it is not known which canaries it has: {}", unread.note);
            app.canaries = ObservedCanaries::Unknown { because };
        }
    }
}

/// The workloads of an app, and of what it applied if it is a ResourceSet.
async fn workloads(
    reconciler: &Arc<PipelineReconciler>,
    location: &TargetLocation,
    app: &ObservedApp,
) -> Result<Workloads, WorkloadError> {
    let mut all = Vec::new();
    for object in objects_of(reconciler, location, kind_of(app), &app.name) {
        let own = workloads_of(reconciler, location, &object).await?;
        all.extend(own.iter().cloned());
    }
    Ok(all.into())
}

/// The workloads of an object: itself, what was read before, else what is asked for now.
async fn workloads_of(
    reconciler: &PipelineReconciler,
    location: &TargetLocation,
    object: &AppObject,
) -> Result<Workloads, WorkloadError> {
    let kind = object.kind.clone();
    let here = (object.namespace.as_str(), object.name.as_str());
    if kind.is_workload() {
        let itself = Workload {
            kind: kind.kind,
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        };
        return Ok([itself].into());
    }
    let record = reconciler.apps.record(&location.cluster, &kind, here);
    let record = record.unwrap_or_default();
    if let Some(workloads) = &record.workloads {
        return Ok(workloads.clone());
    }
    let client = reconciler.clients.read().get(&location.cluster).cloned();
    let Some(client) = client.filter(|_| kind.has_workloads()) else {
        return Ok([].into());
    };
    let lookups = reconciler.apps.workload_lookups(&location.cluster, &kind);
    let asked = (object.namespace.clone(), object.name.clone());
    let deployed = lookups
        .get(&client, &kind, asked, WantedWorkloads::All)
        .await?;
    let apps = &reconciler.apps;
    apps.put_workloads(
        &location.cluster,
        &kind,
        here,
        &record.reading,
        deployed.clone(),
    );
    Ok(deployed.workloads.into())
}

pub(super) fn kind_of(app: &ObservedApp) -> AppKind {
    let group = app.api_version.split_once('/').map_or("", |(it, _)| it);
    AppKind::new(group, &app.kind)
}

/// Says that labelled workloads beside the app may not be read.
fn with_note_on_workloads(
    reconciler: &PipelineReconciler,
    location: &TargetLocation,
    app: &mut ObservedApp,
) {
    let is_refused = |kind: &AppKind| {
        let (cluster, namespace) = (&location.cluster, &location.namespace);
        let state = reconciler.apps.watch_state(cluster, kind, namespace);
        kind.label.is_some() && matches!(state, WatchState::Forbidden(_))
    };
    if AppKind::labelled().iter().any(is_refused) {
        let note = "labelled workloads are left out: watching them is not allowed";
        app.note.get_or_insert_with(|| note.to_owned());
    }
}

/// What the app's revision follows and what the app was applied from, where that can be read.
async fn with_source(
    reconciler: &Arc<PipelineReconciler>,
    location: &TargetLocation,
    app: &mut ObservedApp,
) {
    let object = versioned_object(reconciler, location, kind_of(app), &app.name);
    let Some(object) = object else { return };
    let here = (object.namespace.as_str(), object.name.as_str());
    let record = reconciler
        .apps
        .record(&location.cluster, &object.kind, here);
    let client = reconciler.clients.read().get(&location.cluster).cloned();
    let (Some(record), Some(client)) = (record, client) else {
        return;
    };
    let leaf = AppNamespace {
        client: &client,
        cluster: &location.cluster,
        namespace: &object.namespace,
    };
    if let Some(source) = &record.source {
        let sources = &reconciler.sources;
        app.follows = sources.follows(leaf, source).await;
        let signature = sources.signature(leaf, source).await;
        app.signed = signature.and_then(|signature| signature.about(&app.reading));
        let digest = app.reading.revision.as_ref().map(Revision::as_str);
        if let Some(digest) = digest.filter(|it| is_digest(it))
            && let Some(version) = sources.artifact_version(leaf, source, digest).await
        {
            app.reading.version = Some(version);
        }
        // A Kustomization says so itself.
        let digest = app.reading.digest.as_deref();
        if let Some(digest) = digest.filter(|_| app.reading.source_commit.is_none()) {
            app.reading.source_commit = sources.source_commit(leaf, source, digest).await;
        }
    }
    let own = (object.kind.kind == "Kustomization").then_some(object.name.as_str());
    app.origin = reconciler.sources.origin(leaf, &record, own).await;
}

/// The revision is that of one image, as `track` asks. Where the app's workloads do not run one and
/// the same, there is none.
fn follow_image(app: &mut ObservedApp, image: &str) {
    let found = images::tracked(app.images.as_deref().unwrap_or_default(), image);
    let reading = &mut app.reading;
    let found = found.map_err(|error| reading.error = Some(error)).ok();
    let revision = found
        .as_ref()
        .and_then(|image| Revision::new(image.revision()));
    let found = found.filter(|_| revision.is_some());
    reading.ready &= revision.is_some();
    reading.digest = found
        .as_ref()
        .and_then(|image| image.digest().map(str::to_owned));
    reading.version = found.map(|image| image.version().to_owned());
    reading.attempted.clone_from(&revision);
    reading.revision = revision;
}

/// Workloads are read once for each state of their app. Those that are between two versions then are
/// read again, because nothing tells when they have arrived.
fn recheck_workloads(
    reconciler: &Arc<PipelineReconciler>,
    pipeline: &Pipeline,
    location: &TargetLocation,
    app: &ObservedApp,
) {
    let kind = kind_of(app);
    if matches!(
        AppType::of(&app.api_version, &app.kind),
        AppType::Workload(_)
    ) {
        return; // its images are part of what is watched
    }
    for object in objects_of(reconciler, location, kind, &app.name) {
        let here = (object.namespace.as_str(), object.name.as_str());
        let apps = &reconciler.apps;
        apps.forget_images(&location.cluster, &object.kind, here);
    }
    let key = ObjectKey::of(&pipeline.metadata);
    reconciler
        .workers
        .enqueue_after(key, reconciler.jittered(MIXED_AGAIN));
}

impl PipelineReconciler {
    /// Whether a namespace exists on a cluster; `None` if that cannot be told.
    async fn has_namespace(&self, cluster: &ClusterKey, namespace: &str) -> Option<bool> {
        let client = self.clients.read().get(cluster).cloned()?;
        cluster_connection::has_namespace(&client, namespace).await
    }
}
