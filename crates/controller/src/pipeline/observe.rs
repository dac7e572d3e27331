//! Observes the targets of a pipeline: gathers what the watches of apps know about them.

mod complete;
mod images;
mod location;
mod resource_set;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use api::{Pipeline, app::RESOURCE_SET_KIND, pipeline::PipelineStatus};
use futures::{StreamExt, stream};
use planner::{
    ClusterLabels, HoldReason, ObservedApp, ObservedEnvironment, ObservedPipeline, TargetState,
};

use complete::complete;
use images::known_apps;
use location::{TargetLocation, target_locations};

use crate::{
    Detect, PipelineReconciler,
    apps::{AppLookup, AppRecord, WatchState, sources},
    index::RequiredApp,
    keys::{AppKind, ClusterKey},
};

/// For so long after it was connected, a cluster that is not listed completely is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many requests for images or namespaces are made at the same time.
const AT_ONCE: usize = 16;

/// The result of observing a pipeline.
pub(super) enum Observation {
    Complete(ObservedPipeline),
    /// A cluster was connected only recently: wait instead of writing the status twice.
    TooEarly(Duration),
}

/// The apps that have to be watched for a pipeline.
pub(super) fn required_apps(
    reconciler: &PipelineReconciler,
    pipeline: &Pipeline,
) -> BTreeSet<RequiredApp> {
    let mut required = BTreeSet::new();
    if reconciler.settings.detect == Detect::Webhook {
        return required;
    }
    let (kinds, name) = apps_of(pipeline);
    for location in pipeline
        .spec
        .environments
        .iter()
        .flat_map(|it| target_locations(reconciler, pipeline, it))
    {
        for kind in kinds.iter().filter(|_| location.refused.is_none()) {
            required.insert(RequiredApp {
                cluster: location.cluster.clone(),
                kind: kind.clone(),
                namespace: location.namespace.clone(),
                name: name.clone(),
            });
            if let Some(name) = name
                .as_deref()
                .filter(|_| resource_set::is_resource_set(kind))
            {
                required.extend(resource_set::required_apps(
                    reconciler, &location, kind, name,
                ));
            }
        }
    }
    required
}

/// Whether an environment is held because it follows the same source as the one before.
pub(super) fn is_held_for_source(status: &PipelineStatus) -> bool {
    let mut holds = status.environments.values().flat_map(|it| &it.hold);
    holds.any(|hold| hold.reason == HoldReason::SharedSource.word())
}

/// Whether an environment demands that Flux verified signatures.
fn requires_verified_source(pipeline: &Pipeline) -> bool {
    let environments = pipeline.spec.environments.iter();
    let mut settings = environments.filter_map(|it| pipeline.spec.promotion_into(&it.name));
    settings.any(|settings| settings.require_verified_source)
}

/// The sources that the pipeline's apps follow, while they are what holds it or their signatures count:
/// nothing but a change of one of them may lift the hold, and it need not change any app.
pub(super) fn relevant_sources(
    reconciler: &PipelineReconciler,
    pipeline: &Pipeline,
) -> BTreeSet<RequiredApp> {
    let (kinds, Some(name)) = apps_of(pipeline) else {
        return BTreeSet::new();
    };
    let is_held = pipeline.status.as_ref().is_some_and(is_held_for_source);
    if !is_held && !requires_verified_source(pipeline) {
        return BTreeSet::new();
    }
    let environments = pipeline.spec.environments.iter();
    let target_locations = environments.flat_map(|it| target_locations(reconciler, pipeline, it));
    let required = |location: TargetLocation| {
        let kind = kinds.first()?.clone();
        let app = resource_set::versioned_object(reconciler, &location, kind, &name)?;
        let here = (app.namespace.as_str(), app.name.as_str());
        let record = reconciler.apps.record(&location.cluster, &app.kind, here)?;
        let (kind, namespace, name) = sources::named(record.source.as_ref()?, &app.namespace)?;
        Some(RequiredApp {
            cluster: location.cluster,
            kind,
            namespace,
            name: Some(name),
        })
    };
    target_locations
        .filter(|location| location.refused.is_none())
        .filter_map(required)
        .collect()
}

/// Whether a pipeline chooses clusters by their labels, or names some that may come and go.
pub(super) fn selects(pipeline: &Pipeline) -> bool {
    let targets = pipeline.spec.environments.iter().flat_map(|it| &it.targets);
    targets
        .into_iter()
        .any(|target| target.cluster_selector.is_some() || target.cluster_ref.is_some())
}

/// The kinds to look for, and the name where there is an `appRef`.
fn apps_of(pipeline: &Pipeline) -> (Vec<AppKind>, Option<String>) {
    match &pipeline.spec.app_ref {
        Some(reference) => (vec![AppKind::of(reference)], Some(reference.name.clone())),
        None => (AppKind::labelled(), None),
    }
}

/// Observes every target.
pub(super) async fn everything(
    reconciler: &Arc<PipelineReconciler>,
    pipeline: &Pipeline,
) -> Observation {
    if !reconciler.clusters.is_synced() && selects(pipeline) {
        return Observation::TooEarly(PATIENCE);
    }
    let mut environments = Vec::new();
    for environment in &pipeline.spec.environments {
        let mut targets = Vec::new();
        for location in target_locations(reconciler, pipeline, environment) {
            let state = state(reconciler, pipeline, &location);
            if state == TargetState::NotSynced && reconciler.is_young(&location.cluster, PATIENCE) {
                return Observation::TooEarly(PATIENCE);
            }
            targets.push((location, state));
        }
        environments.push((environment.name.clone(), targets));
    }
    let known = known_apps(pipeline);
    let mut seen = ObservedPipeline {
        trusts_unsigned_reports: reconciler.settings.allow_unsigned_reports,
        cluster_labels: cluster_labels(pipeline, &environments),
        ..ObservedPipeline::default()
    };
    for (name, targets) in environments {
        let targets = stream::iter(targets)
            .map(|(location, state)| complete(reconciler, pipeline, &known, location, state))
            .buffered(AT_ONCE)
            .collect()
            .await;
        seen.environments
            .push(ObservedEnvironment { name, targets });
    }
    Observation::Complete(seen)
}

/// The labels of the clusters of environments with a rollout: its waves may select by them.
fn cluster_labels(
    pipeline: &Pipeline,
    environments: &[(String, Vec<(TargetLocation, TargetState)>)],
) -> ClusterLabels {
    let namespace = pipeline.metadata.namespace.as_deref().unwrap_or_default();
    let has_rollout = |name: &str| {
        let settings = pipeline.spec.promotion_into(name);
        settings.is_some_and(|settings| settings.rollout.is_some())
    };
    let environments = environments.iter().filter(|(name, _)| has_rollout(name));
    let locations = environments.flat_map(|(_, targets)| targets.iter().map(|(it, _)| it));
    let labelled = locations.filter_map(|location| {
        let key = planner::cluster_key(location.reference.as_ref()?, namespace);
        Some((key, location.labels.clone()?))
    });
    labelled.collect()
}

/// What the feeds say about a location.
fn state(
    reconciler: &PipelineReconciler,
    pipeline: &Pipeline,
    location: &TargetLocation,
) -> TargetState {
    if let Some(refused) = &location.refused {
        return refused.clone();
    }
    if reconciler.settings.detect == Detect::Webhook {
        return reported_state(reconciler, &location.cluster);
    }
    let (kinds, name) = apps_of(pipeline);
    if let Some(because) = kinds
        .iter()
        .find_map(|kind| planner::refuse_group(&kind.group))
    {
        return TargetState::Refused { because };
    }
    let mut apps = Vec::new();
    let mut unknown = Vec::new();
    for kind in &kinds {
        match look(reconciler, pipeline, location, kind, name.as_deref()) {
            AppLookup::Found(found) => add(&mut apps, location, kind, &found),
            AppLookup::Unknown(state) => unknown.push((kind, state)),
        }
    }
    let obstacles = unknown
        .iter()
        .filter(|(kind, state)| is_obstacle(kind, state, &apps));
    // A cluster that does not answer says more than one that does not allow something.
    let obstacle = obstacles.min_by_key(|(_, state)| matches!(state, WatchState::Forbidden(_)));
    match (obstacle, unknown.len() == kinds.len()) {
        (Some((_, state)), _) => target_state(state),
        (None, true) => TargetState::KindMissing,
        (None, false) => {
            for set in apps.iter_mut().filter(|app| app.kind == RESOURCE_SET_KIND) {
                let is_tracked = pipeline.spec.track.is_some();
                let added = resource_set::with_applied(reconciler, location, set, is_tracked);
                if let Err(unknown) = added {
                    return unknown;
                }
            }
            unless_canaries_are_unknown(reconciler, location, apps)
        }
    }
}

/// The app of a name, or those that carry the pipeline's label.
fn look(
    reconciler: &PipelineReconciler,
    pipeline: &Pipeline,
    location: &TargetLocation,
    kind: &AppKind,
    name: Option<&str>,
) -> AppLookup {
    let (apps, cluster, namespace) = (&reconciler.apps, &location.cluster, &location.namespace);
    match name {
        Some(name) => apps.find(cluster, kind, namespace, name),
        None => {
            let pipeline = pipeline.metadata.name.as_deref().unwrap_or_default();
            apps.find_labelled(cluster, kind, namespace, pipeline)
        }
    }
}

/// Adds apps that were found. One that carries both labels is found twice. A workload that a release
/// or Kustomization of the target made is shown there.
fn add(
    apps: &mut Vec<ObservedApp>,
    location: &TargetLocation,
    kind: &AppKind,
    found: &[(String, Arc<AppRecord>)],
) {
    for (name, record) in found {
        let app = seen_app(kind, name, record);
        let is_same = |known: &ObservedApp| known.kind == app.kind && known.name == app.name;
        let is_part = kind.label.is_some() && is_part_of(apps, location, record);
        if !is_part && !apps.iter().any(is_same) {
            apps.push(app);
        }
    }
}

fn is_part_of(apps: &[ObservedApp], location: &TargetLocation, workload: &AppRecord) -> bool {
    apps.iter().any(|app| {
        let made_by = match app.kind.as_str() {
            "HelmRelease" => workload.release.as_deref(),
            "Kustomization" => workload.applier.as_deref(),
            _ => None,
        };
        made_by
            .is_some_and(|(namespace, name)| *namespace == location.namespace && *name == app.name)
    })
}

/// Whether what is not known about a kind keeps the target from being read. With labels, a kind that
/// the cluster does not have is no obstacle to the others, nor are workloads that may not be read
/// where there are other apps.
fn is_obstacle(kind: &AppKind, state: &WatchState, apps: &[ObservedApp]) -> bool {
    match state {
        WatchState::KindMissing => false,
        WatchState::Forbidden(_) => kind.label.is_none() || apps.is_empty(),
        _ => true,
    }
}

/// Apps are not believed before it is known whether Flagger analyses them.
fn unless_canaries_are_unknown(
    reconciler: &PipelineReconciler,
    location: &TargetLocation,
    apps: Vec<ObservedApp>,
) -> TargetState {
    let state = reconciler
        .apps
        .canary_state(&location.cluster, &location.namespace);
    match state {
        WatchState::Starting | WatchState::Failing(_) if !apps.is_empty() => target_state(&state),
        _ => TargetState::Observed(apps),
    }
}

fn reported_state(reconciler: &PipelineReconciler, cluster: &ClusterKey) -> TargetState {
    let is_ready = match cluster {
        ClusterKey::Hub => true,
        ClusterKey::Leaf(key) => reconciler
            .clusters
            .get(key)
            .is_some_and(|cluster| cluster.is_ready()),
    };
    match is_ready {
        true => TargetState::NotWatched,
        false => TargetState::ClusterNotReady,
    }
}

fn target_state(state: &WatchState) -> TargetState {
    match state {
        WatchState::Starting | WatchState::Synced => TargetState::NotSynced,
        WatchState::KindMissing => TargetState::KindMissing,
        WatchState::Forbidden(because) => TargetState::Forbidden {
            because: because.clone(),
        },
        WatchState::Failing(because) => TargetState::Unreachable {
            because: because.clone(),
        },
    }
}

fn seen_app(kind: &AppKind, name: &str, record: &AppRecord) -> ObservedApp {
    ObservedApp {
        api_version: record.api_version.clone(),
        kind: kind.kind.clone(),
        name: name.to_owned(),
        reading: record.reading.clone(),
        images: record.images.clone(),
        ..ObservedApp::default()
    }
}
