//! Every app on every cluster that somebody may look into, whether or not a pipeline names it.
//!
//! Who may `inspect` a GitopsCluster sees what runs on it; who may everywhere, also the hub.

use std::{collections::HashMap, sync::Arc, time::Duration};

use api::Pipeline;
use futures::future::join_all;
use kube::ResourceExt;
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use crate::{
    Door,
    leaf::{Place, apps::App},
    objects::cluster_of,
    rest::access::{Caller, PIPELINES, Wish},
    watched::ObjectKey,
};

/// How long a look at all clusters may take.
const ENOUGH: Duration = Duration::from_secs(25);

/// An app somewhere.
pub(crate) struct Found {
    /// The GitopsCluster; the hub without one.
    pub(crate) cluster: Option<ObjectKey>,
    pub(crate) app: App,
    /// The pipelines that name it, among those that may be seen.
    pub(crate) named_by: Vec<Named>,
}

/// An environment of a pipeline.
#[derive(Clone)]
pub(crate) struct Named {
    pub(crate) pipeline: ObjectKey,
    pub(crate) environment: String,
}

/// What could not be read.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Unread {
    /// Empty for the hub.
    pub(crate) cluster: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cluster_namespace: Option<String>,
    pub(crate) because: String,
}

/// What was found on all clusters.
#[derive(Default)]
pub(crate) struct Fleet {
    pub(crate) apps: Vec<Found>,
    pub(crate) unread: Vec<Unread>,
}

/// An app by cluster, kind, namespace and name.
type Known = HashMap<(Option<ObjectKey>, [String; 3]), Vec<Named>>;

/// Looks at all clusters that somebody may look into, or at those of one name; nothing where there
/// is none.
pub(crate) async fn look(
    door: &Arc<Door>,
    caller: &Caller,
    only: Option<&str>,
) -> Result<Option<Fleet>, kube::Error> {
    let open = open(door, caller).await?;
    if open.is_empty() {
        return Ok(None);
    }
    let is_wanted = |place: &Place| {
        let name = place.as_ref().map(|cluster| cluster.name_any());
        only.is_none_or(|only| only == name.unwrap_or_default())
    };
    let wanted: Vec<Place> = open.into_iter().filter(is_wanted).collect();
    let pipelines = caller.pipelines().await?;
    let known = named(&pipelines);
    let enough = Instant::now() + ENOUGH;
    let looks = wanted.iter().map(async |place| {
        let seen = timeout_at(enough, door.leaves.apps(place)).await;
        seen.unwrap_or_else(|_| Err("not read yet: ask again".to_owned()))
    });
    let mut fleet = Fleet::default();
    for (place, seen) in wanted.iter().zip(join_all(looks).await) {
        let cluster = place.as_ref().map(|cluster| ObjectKey::of(&**cluster));
        let named = cluster.as_ref();
        let unread = |because: &String| Unread {
            cluster: named.map(|key| key.name.clone()).unwrap_or_default(),
            cluster_namespace: named.map(|key| key.namespace.clone()),
            because: because.clone(),
        };
        match seen {
            Ok(seen) => {
                fleet.unread.extend(seen.notes.iter().map(unread));
                let found = seen.apps.iter().map(|app| found(&cluster, app, &known));
                fleet.apps.extend(found);
            }
            Err(because) => fleet.unread.push(unread(&because)),
        }
    }
    Ok(Some(fleet))
}

fn found(cluster: &Option<ObjectKey>, app: &App, known: &Known) -> Found {
    let names = [&app.kind, &app.namespace, &app.name].map(Clone::clone);
    let named_by = known.get(&(cluster.clone(), names));
    Found {
        cluster: cluster.clone(),
        app: app.clone(),
        named_by: named_by.cloned().unwrap_or_default(),
    }
}

/// The clusters that somebody may look into.
async fn open(door: &Arc<Door>, caller: &Caller) -> Result<Vec<Place>, kube::Error> {
    let mut clusters = door.watched.clusters();
    clusters.sort_by_key(|it| (it.name_any(), it.namespace()));
    if caller.may_see(&Wish::inspect(None, None)).await? {
        let leaves = clusters.into_iter().map(Some);
        return Ok(std::iter::once(None).chain(leaves).collect());
    }
    let mut open = Vec::new();
    for cluster in clusters {
        let key = ObjectKey::of(&*cluster);
        let here = Wish::inspect(Some(&key.namespace), None);
        let alone = Wish::inspect(Some(&key.namespace), Some(&key.name));
        if caller.may_see(&here).await? || caller.may_see(&alone).await? {
            open.push(Some(cluster));
        }
    }
    Ok(open)
}

/// Which pipelines name which apps.
fn named(pipelines: &[Arc<Pipeline>]) -> Known {
    let mut known = Known::new();
    for pipeline in pipelines {
        let key = ObjectKey::of(&**pipeline);
        let environments = pipeline.status.iter().flat_map(|it| &it.environments);
        for (environment, status) in environments {
            for target in &status.targets {
                let cluster = cluster_of(target).map(|it| {
                    let namespace = it.namespace.as_deref().filter(|it| !it.is_empty());
                    ObjectKey::new(namespace.unwrap_or(&key.namespace), &it.name)
                });
                let namespace = target.namespace.clone().unwrap_or_default();
                for app in &target.apps {
                    let names = [app.kind.clone(), namespace.clone(), app.name.clone()];
                    let named = known.entry((cluster.clone(), names)).or_default();
                    named.push(Named {
                        pipeline: key.clone(),
                        environment: environment.clone(),
                    });
                }
            }
        }
    }
    known
}

impl Caller {
    /// The pipelines that they may list.
    pub(crate) async fn pipelines(&self) -> Result<Vec<Arc<Pipeline>>, kube::Error> {
        let all = self.door().watched.pipelines();
        let namespace_of = |it: &Arc<Pipeline>| it.namespace().unwrap_or_default();
        self.visible(PIPELINES, all, namespace_of).await
    }
}
