//! All apps on all clusters that a caller may inspect, whether or not they belong to a pipeline.
//!
//! The verb `inspect` on a GitopsCluster shows what runs on it; on all GitopsClusters, also what runs
//! on the hub.

use std::{collections::HashMap, sync::Arc, time::Duration};

use api::Pipeline;
use futures::future::join_all;
use kube::ResourceExt;
use runtime::ObjectKey;
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use crate::{
    AppState,
    access::{AccessRequest, Caller, PIPELINES},
    leaf::{ClusterOrHub, apps::DeployedApp},
    problem::Problem,
    target_objects::cluster_key_of,
};

/// How long reading all clusters may take.
const FLEET_TIMEOUT: Duration = Duration::from_secs(25);

/// An app on a cluster.
pub(crate) struct FleetApp {
    /// The GitopsCluster; nothing for the hub.
    pub(crate) cluster: Option<ObjectKey>,
    pub(crate) app: DeployedApp,
    /// The environments that it belongs to, of pipelines that the caller may see.
    pub(crate) environments: Vec<EnvironmentReference>,
}

/// An environment of a pipeline.
#[derive(Clone)]
pub(crate) struct EnvironmentReference {
    pub(crate) pipeline: ObjectKey,
    pub(crate) environment: String,
}

/// A cluster, or a part of it, that could not be read.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UnreadCluster {
    /// Empty for the hub.
    pub(crate) cluster: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cluster_namespace: Option<String>,
    pub(crate) because: String,
}

/// The apps of all clusters.
#[derive(Default)]
pub(crate) struct Fleet {
    pub(crate) apps: Vec<FleetApp>,
    pub(crate) unread: Vec<UnreadCluster>,
}

/// By cluster, kind, namespace and name of an app: the environments that it belongs to.
type EnvironmentsByApp = HashMap<(Option<ObjectKey>, [String; 3]), Vec<EnvironmentReference>>;

/// Reads all clusters that the caller may inspect, or those of one name; nothing if there are none.
pub(crate) async fn read_fleet(
    app_state: &Arc<AppState>,
    caller: &Caller,
    only: Option<&str>,
) -> Result<Option<Fleet>, Problem> {
    let mut clusters = inspectable_clusters(app_state, caller).await?;
    if clusters.is_empty() {
        return Ok(None);
    }
    clusters.retain(|cluster| {
        let name = cluster.as_ref().map(|cluster| cluster.name_any());
        only.is_none_or(|only| only == name.unwrap_or_default())
    });
    let pipelines = caller.pipelines().await?;
    let environments = environments_by_app(&pipelines);
    let deadline = Instant::now() + FLEET_TIMEOUT;
    let reads = clusters.iter().map(async |cluster| {
        let read = timeout_at(deadline, app_state.leaf_reader.apps(cluster)).await;
        read.unwrap_or_else(|_| Err("timed out before it was read; try again".to_owned()))
    });
    let mut fleet = Fleet::default();
    for (cluster, read) in clusters.iter().zip(join_all(reads).await) {
        let key = cluster
            .as_ref()
            .map(|cluster| ObjectKey::of(&cluster.metadata));
        let unread = |because: &String| UnreadCluster {
            cluster: key.as_ref().map(|key| key.name.clone()).unwrap_or_default(),
            cluster_namespace: key.as_ref().map(|key| key.namespace.clone()),
            because: because.clone(),
        };
        match read {
            Ok(read) => {
                fleet.unread.extend(read.notes.iter().map(unread));
                let apps = read.apps.iter();
                fleet
                    .apps
                    .extend(apps.map(|app| fleet_app(&key, app, &environments)));
            }
            Err(because) => fleet.unread.push(unread(&because)),
        }
    }
    Ok(Some(fleet))
}

fn fleet_app(
    cluster: &Option<ObjectKey>,
    app: &DeployedApp,
    environments: &EnvironmentsByApp,
) -> FleetApp {
    let names = [&app.kind, &app.namespace, &app.name].map(Clone::clone);
    let environments = environments.get(&(cluster.clone(), names));
    FleetApp {
        cluster: cluster.clone(),
        app: app.clone(),
        environments: environments.cloned().unwrap_or_default(),
    }
}

async fn inspectable_clusters(
    app_state: &Arc<AppState>,
    caller: &Caller,
) -> Result<Vec<ClusterOrHub>, Problem> {
    let mut clusters = app_state.objects.clusters();
    clusters.sort_by_key(|it| (it.name_any(), it.namespace()));
    if caller.may_see(&AccessRequest::inspect(None, None)).await? {
        let leaves = clusters.into_iter().map(Some);
        return Ok(std::iter::once(None).chain(leaves).collect());
    }
    let mut inspectable = Vec::new();
    for cluster in clusters {
        let key = ObjectKey::of(&cluster.metadata);
        let whole_namespace = AccessRequest::inspect(Some(&key.namespace), None);
        let this_cluster = AccessRequest::inspect(Some(&key.namespace), Some(&key.name));
        if caller.may_see(&whole_namespace).await? || caller.may_see(&this_cluster).await? {
            inspectable.push(Some(cluster));
        }
    }
    Ok(inspectable)
}

fn environments_by_app(pipelines: &[Arc<Pipeline>]) -> EnvironmentsByApp {
    let mut by_app = EnvironmentsByApp::new();
    for pipeline in pipelines {
        let key = ObjectKey::of(&pipeline.metadata);
        let environments = pipeline.status.iter().flat_map(|it| &it.environments);
        for (environment, status) in environments {
            for target in &status.targets {
                let cluster = cluster_key_of(target, &key.namespace);
                let namespace = target.namespace.clone().unwrap_or_default();
                for app in &target.apps {
                    let names = [app.kind.clone(), namespace.clone(), app.name.clone()];
                    let of_app = by_app.entry((cluster.clone(), names)).or_default();
                    of_app.push(EnvironmentReference {
                        pipeline: key.clone(),
                        environment: environment.clone(),
                    });
                }
            }
        }
    }
    by_app
}

impl Caller {
    /// The pipelines that they may list.
    pub(crate) async fn pipelines(&self) -> Result<Vec<Arc<Pipeline>>, Problem> {
        let objects = &self.app_state().objects;
        let namespace_of = |key: &ObjectKey| key.namespace.clone();
        let keys = self.visible(PIPELINES, objects.pipeline_keys(), namespace_of);
        let keys = keys.await?;
        let pipelines = keys.iter().filter_map(|key| objects.cached_pipeline(key));
        Ok(pipelines.collect())
    }
}
