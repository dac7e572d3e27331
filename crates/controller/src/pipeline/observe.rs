//! Looks at everything a pipeline has: gathers what the feeds know about its targets.

mod complete;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use api::{
    GitopsCluster, Pipeline,
    pipeline::{ClusterReference, Environment, PipelineStatus, Target},
};
use futures::{StreamExt, stream};
use planner::{HoldReason, ObservedApp, ObservedEnvironment, ObservedPipeline, TargetState};

use complete::{complete, known_apps};

use crate::{
    Detect, Shared,
    apps::{AppLookup, AppRecord, WatchState, sources},
    index::Want,
    keys::{AppKind, ClusterKey},
};
use runtime::ObjectKey;

/// For so long a cluster that was not read to the end yet is no news.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many images or namespaces are asked for at once.
const AT_ONCE: usize = 16;

/// What a look gave.
pub(super) enum Sight {
    Complete(ObservedPipeline),
    /// Some cluster has only just been connected: better wait than write twice.
    TooEarly(Duration),
}

/// One place a target of the spec stands for.
struct Place {
    reference: Option<ClusterReference>,
    cluster: ClusterKey,
    namespace: String,
    /// Why the pipeline may not look there.
    refused: Option<TargetState>,
}

/// What a pipeline needs to see.
pub(super) fn wants(shared: &Shared, pipeline: &Pipeline) -> BTreeSet<Want> {
    let mut wants = BTreeSet::new();
    if shared.settings.detect == Detect::Webhook {
        return wants;
    }
    let (kinds, name) = apps_of(pipeline);
    for place in pipeline
        .spec
        .environments
        .iter()
        .flat_map(|it| places(shared, pipeline, it))
    {
        for kind in kinds.iter().filter(|_| place.refused.is_none()) {
            wants.insert(Want {
                cluster: place.cluster.clone(),
                kind: kind.clone(),
                namespace: place.namespace.clone(),
                name: name.clone(),
            });
        }
    }
    wants
}

/// Whether an environment is held because it follows the same source as the one before.
pub(super) fn is_held_for_source(status: &PipelineStatus) -> bool {
    let mut holds = status.environments.values().flat_map(|it| &it.hold);
    holds.any(|hold| hold.reason == HoldReason::SharedSource.word())
}

/// The sources that the pipeline's apps follow, while that is what holds it: nothing but an edit of
/// one of them may lift the hold, and it need not change any app.
pub(super) fn held_sources(shared: &Shared, pipeline: &Pipeline) -> BTreeSet<Want> {
    let (kinds, Some(name)) = apps_of(pipeline) else {
        return BTreeSet::new();
    };
    if !pipeline.status.as_ref().is_some_and(is_held_for_source) {
        return BTreeSet::new();
    }
    let environments = pipeline.spec.environments.iter();
    let places = environments.flat_map(|it| places(shared, pipeline, it));
    let want = |place: Place| {
        let here = (place.namespace.as_str(), name.as_str());
        let app = shared.apps.record(&place.cluster, kinds.first()?, here)?;
        let (kind, namespace, name) = sources::named(app.source.as_ref()?, &place.namespace)?;
        Some(Want {
            cluster: place.cluster,
            kind,
            namespace,
            name: Some(name),
        })
    };
    places
        .filter(|place| place.refused.is_none())
        .filter_map(want)
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

/// Looks at every target.
pub(super) async fn everything(shared: &Arc<Shared>, pipeline: &Pipeline) -> Sight {
    if !shared.clusters.are_known() && selects(pipeline) {
        return Sight::TooEarly(PATIENCE);
    }
    let mut environments = Vec::new();
    for environment in &pipeline.spec.environments {
        let mut targets = Vec::new();
        for place in places(shared, pipeline, environment) {
            let state = state(shared, pipeline, &place);
            if state == TargetState::NotSynced && shared.is_young(&place.cluster, PATIENCE) {
                return Sight::TooEarly(PATIENCE);
            }
            targets.push((place, state));
        }
        environments.push((environment.name.clone(), targets));
    }
    let known = known_apps(pipeline);
    let mut seen = ObservedPipeline {
        trusts_unsigned_reports: shared.settings.allow_unsigned_reports,
        ..ObservedPipeline::default()
    };
    for (name, targets) in environments {
        let targets = stream::iter(targets)
            .map(|(place, state)| complete(shared, pipeline, &known, place, state))
            .buffered(AT_ONCE)
            .collect()
            .await;
        seen.environments
            .push(ObservedEnvironment { name, targets });
    }
    Sight::Complete(seen)
}

/// The places of an environment's targets, those of a selector by name.
fn places(shared: &Shared, pipeline: &Pipeline, environment: &Environment) -> Vec<Place> {
    let namespace = pipeline.metadata.namespace.as_deref().unwrap_or_default();
    let mut places = Vec::new();
    for target in &environment.targets {
        match &target.cluster_selector {
            Some(selector) => {
                for cluster in shared.clusters.selected(selector) {
                    places.extend(selected_place(shared, namespace, target, &cluster));
                }
            }
            None => places.push(named_place(shared, namespace, target)),
        }
    }
    places
}

fn selected_place(
    shared: &Shared,
    namespace: &str,
    target: &Target,
    cluster: &GitopsCluster,
) -> Option<Place> {
    if refusal(shared, namespace, cluster).is_some() {
        return None; // a selector chooses among the clusters that may be used
    }
    let key = ObjectKey::of(&cluster.metadata);
    let reference = ClusterReference {
        api_version: None,
        kind: "GitopsCluster".to_owned(),
        name: key.name.clone(),
        namespace: Some(key.namespace.clone()).filter(|it| it != namespace),
    };
    Some(Place {
        reference: Some(reference),
        cluster: ClusterKey::Leaf(key),
        namespace: target.namespace.clone(),
        refused: None,
    })
}

fn named_place(shared: &Shared, namespace: &str, target: &Target) -> Place {
    let cluster = ClusterKey::of(target.cluster_ref.as_ref(), namespace);
    let refused = match &cluster {
        ClusterKey::Hub => hub_refusal(shared, namespace, &target.namespace),
        ClusterKey::Leaf(key) => match shared.clusters.get(key) {
            None => Some(TargetState::ClusterMissing),
            Some(object) => {
                refusal(shared, namespace, &object).map(|because| TargetState::Refused { because })
            }
        },
    };
    Place {
        reference: target.cluster_ref.clone(),
        cluster,
        namespace: target.namespace.clone(),
        refused,
    }
}

/// Why a pipeline may not have a target in a namespace of the hub.
fn hub_refusal(shared: &Shared, namespace: &str, target: &str) -> Option<TargetState> {
    if namespace == target {
        return None;
    }
    if !shared.namespaces.are_known() {
        return Some(TargetState::NotSynced);
    }
    let allowed = shared.namespaces.allowed(target);
    let only_own = shared.settings.no_cross_namespace_refs;
    let because = planner::refuse_hub_namespace(target, allowed.as_deref(), namespace, only_own)?;
    Some(TargetState::Refused { because })
}

fn refusal(shared: &Shared, namespace: &str, cluster: &GitopsCluster) -> Option<String> {
    let annotations = cluster.metadata.annotations.as_ref();
    let allowed = annotations.and_then(|it| it.get(api::names::ALLOWED_NAMESPACES_ANNOTATION));
    planner::refuse_cluster(
        cluster.metadata.namespace.as_deref().unwrap_or_default(),
        allowed.map(String::as_str),
        namespace,
        shared.settings.no_cross_namespace_refs,
    )
}

/// What the feeds say about a place.
fn state(shared: &Shared, pipeline: &Pipeline, place: &Place) -> TargetState {
    if let Some(refused) = &place.refused {
        return refused.clone();
    }
    if shared.settings.detect == Detect::Webhook {
        return reported_state(shared, &place.cluster);
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
        match look(shared, pipeline, place, kind, name.as_deref()) {
            AppLookup::Found(found) => add(&mut apps, place, kind, &found),
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
        (None, false) => unless_canaries_are_unknown(shared, place, apps),
    }
}

/// The app of a name, or those that carry the pipeline's label.
fn look(
    shared: &Shared,
    pipeline: &Pipeline,
    place: &Place,
    kind: &AppKind,
    name: Option<&str>,
) -> AppLookup {
    let (apps, cluster, namespace) = (&shared.apps, &place.cluster, &place.namespace);
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
fn add(apps: &mut Vec<ObservedApp>, place: &Place, kind: &AppKind, found: &[(String, AppRecord)]) {
    for (name, record) in found {
        let app = seen_app(kind, name, record);
        let is_same = |known: &ObservedApp| known.kind == app.kind && known.name == app.name;
        let is_part = kind.label.is_some() && is_part_of(apps, place, record);
        if !is_part && !apps.iter().any(is_same) {
            apps.push(app);
        }
    }
}

fn is_part_of(apps: &[ObservedApp], place: &Place, workload: &AppRecord) -> bool {
    apps.iter().any(|app| {
        let made_by = match app.kind.as_str() {
            "HelmRelease" => workload.release.as_deref(),
            "Kustomization" => workload.applier.as_ref(),
            _ => None,
        };
        made_by.is_some_and(|(namespace, name)| *namespace == place.namespace && *name == app.name)
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
    shared: &Shared,
    place: &Place,
    apps: Vec<ObservedApp>,
) -> TargetState {
    let state = shared.apps.canary_state(&place.cluster, &place.namespace);
    match state {
        WatchState::Starting | WatchState::Failing(_) if !apps.is_empty() => target_state(&state),
        _ => TargetState::Observed(apps),
    }
}

fn reported_state(shared: &Shared, cluster: &ClusterKey) -> TargetState {
    let is_ready = match cluster {
        ClusterKey::Hub => true,
        ClusterKey::Leaf(key) => shared
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
