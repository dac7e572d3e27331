//! Reads the workloads of apps, and the images that they run.
//!
//! Flux labels what it deploys with the app it belongs to. When the watch of a kind is complete, all
//! workloads of the cluster are listed; afterwards only those of an app that changed. Its pipeline's status
//! waits for the workloads that the app had before; whether it has got others is looked up later.

mod lists;

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use api::{
    app::RESOURCE_SET_GROUP,
    flux::{HELM_GROUP, KUSTOMIZE_GROUP},
    image::{Image, common_revision},
};
use kube::{Client, api::DynamicObject};
use parking_lot::Mutex;
use tokio::sync::oneshot::{self, error::TryRecvError};

use super::{Workload, Workloads, app_watch::AppWatch};
use crate::keys::AppKind;
use lists::{WorkloadSelection, all, by_name};

/// How long listing workloads may take: the rest of a status must not wait longer for images.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Up to so many known workloads of one app are read by name, which is faster than a list.
const MAX_BY_NAME: usize = 3;
/// For how many apps one list is sent.
const BATCH_SIZE: usize = 64;
/// When a watch has become complete, the kinds of workload are listed one after the other, so that a
/// cluster on which nothing changes keeps one idle connection and not three.
const ONE_AFTER_THE_OTHER: usize = 1;
/// For an app that changed, the kinds are listed at the same time: its pipeline's status waits for them.
const ALL_AT_ONCE: usize = 3;
/// All workloads of a cluster are read in pages: the whole list would stay in the allocator's memory.
const PAGE_SIZE: u32 = 500;
const CANCELLED: &str = "images could not be read: the list was cancelled";

/// Namespace and name of an app.
type AppKey = (String, String);
type WorkloadsByApp = HashMap<AppKey, AppWorkloads>;

/// The workloads of an app, and the images that they run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AppWorkloads {
    pub(crate) images: Vec<String>,
    pub(crate) workloads: Vec<Workload>,
    /// The kinds that were listed; it may have others. None if its workloads were read by name.
    listed: WorkloadKinds,
}

impl AppWorkloads {
    /// All kinds were listed, and it has none.
    pub(crate) fn none() -> Self {
        Self {
            listed: WorkloadKinds::ALL,
            ..Self::default()
        }
    }

    /// Whether it may have workloads that were not looked up.
    pub(crate) fn is_provisional(&self) -> bool {
        self.listed != WorkloadKinds::ALL
    }
}

/// Some of the kinds of workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct WorkloadKinds {
    deployments: bool,
    stateful_sets: bool,
    daemon_sets: bool,
}

impl WorkloadKinds {
    /// All that are listed for images.
    const ALL: Self = Self {
        deployments: true,
        stateful_sets: true,
        daemon_sets: true,
    };

    /// The kinds of these workloads.
    fn of(workloads: &[Workload]) -> Self {
        let has = |kind| workloads.iter().any(|workload| workload.kind == kind);
        Self {
            deployments: has("Deployment"),
            stateful_sets: has("StatefulSet"),
            daemon_sets: has("DaemonSet"),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            deployments: self.deployments || other.deployments,
            stateful_sets: self.stateful_sets || other.stateful_sets,
            daemon_sets: self.daemon_sets || other.daemon_sets,
        }
    }
}

/// Which workloads of an app are looked up.
pub(crate) enum WantedWorkloads {
    /// All.
    All,
    /// At least those that it had when all were last listed.
    Known(Workloads),
}

impl WantedWorkloads {
    fn kinds(&self) -> WorkloadKinds {
        match self {
            Self::All => WorkloadKinds::ALL,
            Self::Known(workloads) => WorkloadKinds::of(workloads),
        }
    }

    /// The workloads to read by name, if they are few.
    fn named(&self) -> Option<&Workloads> {
        match self {
            Self::Known(workloads) if workloads.len() <= MAX_BY_NAME => Some(workloads),
            _ => None,
        }
    }
}

/// Why the workloads of an app could not be listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkloadError {
    /// What is left out of the status because of it.
    pub(crate) note: String,
    /// Whether RBAC forbids it, so that a retry does not help.
    pub(crate) is_forbidden: bool,
}

impl WorkloadError {
    fn of(error: &kube::Error) -> Self {
        Self {
            note: note(error),
            is_forbidden: matches!(error, kube::Error::Api(status) if status.code == 403),
        }
    }

    fn because(note: &str) -> Self {
        Self {
            note: note.to_owned(),
            is_forbidden: false,
        }
    }
}

/// The labels with the name and the namespace of an app.
type AppLabels = (String, String);

/// The labels that Flux sets on everything that an app of this kind deploys.
fn labels(kind: &AppKind) -> Option<AppLabels> {
    let prefix = match kind.group.as_str() {
        HELM_GROUP | KUSTOMIZE_GROUP => kind.group.clone(),
        RESOURCE_SET_GROUP => format!("resourceset.{RESOURCE_SET_GROUP}"),
        _ => return None,
    };
    Some((format!("{prefix}/name"), format!("{prefix}/namespace")))
}

/// The images of an app that is a workload itself.
pub(crate) fn of_workload(app: &DynamicObject) -> Vec<String> {
    let containers = app.data.pointer("/spec/template/spec");
    let lists = ["initContainers", "containers"];
    let containers = lists
        .iter()
        .filter_map(|list| containers?.get(list)?.as_array())
        .flatten();
    sorted(containers.filter_map(|container| container["image"].as_str().map(str::to_owned)))
}

fn sorted(images: impl Iterator<Item = String>) -> Vec<String> {
    let mut images: Vec<String> = images.collect();
    images.sort();
    images.dedup();
    images
}

/// Reads the workloads of all apps of a watch.
pub(super) async fn fill(watch: &AppWatch, scope: &str) {
    let Some(labels) = labels(&watch.kind) else {
        return;
    };
    let workloads = WorkloadSelection {
        selector: &labels.0,
        kinds: WorkloadKinds::ALL,
        concurrency: ONE_AFTER_THE_OTHER,
        page_size: Some(PAGE_SIZE),
    };
    let read = all(&watch.client, scope, &workloads, &labels);
    let read = tokio::time::timeout(TIMEOUT, read).await;
    let forbidden = match &read {
        Ok(Err(error @ kube::Error::Api(refusal))) if refusal.code == 403 => Some(note(error)),
        // Anything else is transient: a reconcile of the app lists its workloads.
        _ => None,
    };
    let apps = &watch.shared.apps;
    apps.set_images_note(&watch.cluster, &watch.kind, forbidden);
    if let Ok(Ok(workloads)) = read {
        apps.fill_workloads(&watch.cluster, &watch.kind, scope, workloads);
    }
}

/// Batches lookups of the workloads of apps of one kind on one cluster: one list answers all lookups
/// that wait when it is sent, so that many changes at once do not need a list each.
#[derive(Default)]
pub(crate) struct WorkloadLookups {
    waiting: Mutex<Vec<PendingLookup>>,
    /// Held while a batch is listed.
    batch: tokio::sync::Mutex<()>,
}

type LookupResult = Result<AppWorkloads, WorkloadError>;

struct PendingLookup {
    app: AppKey,
    wanted: WantedWorkloads,
    result: oneshot::Sender<LookupResult>,
}

impl WorkloadLookups {
    /// The workloads of one app, perhaps more than those that are wanted. For none, nothing is requested.
    pub(crate) async fn get(
        &self,
        client: &Client,
        kind: &AppKind,
        app: AppKey,
        wanted: WantedWorkloads,
    ) -> LookupResult {
        if wanted.kinds() == WorkloadKinds::default() {
            return Ok(AppWorkloads::default());
        }
        let (result, mut received) = oneshot::channel();
        let lookup = PendingLookup {
            app,
            wanted,
            result,
        };
        self.waiting.lock().push(lookup);
        loop {
            // Whoever gets the lock lists for all; the others find their result when they get it.
            let _batch = self.batch.lock().await;
            match received.try_recv() {
                Ok(result) => return result,
                Err(TryRecvError::Closed) => return Err(WorkloadError::because(CANCELLED)),
                Err(TryRecvError::Empty) => {}
            }
            let lookups: Vec<PendingLookup> = {
                let mut waiting = self.waiting.lock();
                let count = waiting.len().min(BATCH_SIZE);
                waiting.drain(..count).collect()
            };
            answer_all(client, kind, lookups).await;
        }
    }
}

async fn answer_all(client: &Client, kind: &AppKind, lookups: Vec<PendingLookup>) {
    let read = tokio::time::timeout(TIMEOUT, look_up(client, kind, &lookups)).await;
    let results = match read {
        Ok(Ok(workloads)) => Ok(workloads),
        Ok(Err(error)) => Err(WorkloadError::of(&error)),
        Err(_) => Err(WorkloadError::because("images could not be read in time")),
    };
    for lookup in lookups {
        let result = results.as_ref().map_err(Clone::clone);
        let result = result.map(|(all, listed)| AppWorkloads {
            listed: *listed,
            ..all.get(&lookup.app).cloned().unwrap_or_default()
        });
        // A reconcile that was cancelled does not need it.
        let _ = lookup.result.send(result);
    }
}

/// The workloads of the apps, and the kinds that were listed for it.
async fn look_up(
    client: &Client,
    kind: &AppKind,
    lookups: &[PendingLookup],
) -> Result<(WorkloadsByApp, WorkloadKinds), kube::Error> {
    if let [alone] = lookups
        && let Some(workloads) = alone.wanted.named()
        // Where it may not be read by name, it may be listed.
        && let Ok(read) = by_name(client, workloads).await
    {
        let by_app = WorkloadsByApp::from([(alone.app.clone(), read)]);
        return Ok((by_app, WorkloadKinds::default()));
    }
    let apps: BTreeSet<&AppKey> = lookups.iter().map(|lookup| &lookup.app).collect();
    let kinds = lookups.iter().map(|lookup| lookup.wanted.kinds());
    let kinds = kinds.fold(WorkloadKinds::default(), WorkloadKinds::and);
    Ok((of_apps(client, kind, &apps, kinds).await?, kinds))
}

/// The workloads of several apps, with lists of all namespaces where RBAC allows that.
async fn of_apps(
    client: &Client,
    kind: &AppKind,
    apps: &BTreeSet<&AppKey>,
    kinds: WorkloadKinds,
) -> Result<WorkloadsByApp, kube::Error> {
    let Some(labels) = labels(kind) else {
        return Ok(WorkloadsByApp::new());
    };
    let names: BTreeSet<&str> = apps.iter().map(|(_, name)| name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let selector = format!("{} in ({})", labels.0, names.join(","));
    let workloads = WorkloadSelection {
        selector: &selector,
        kinds,
        concurrency: ALL_AT_ONCE,
        page_size: None,
    };
    match all(client, "", &workloads, &labels).await {
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let namespaces: BTreeSet<&str> = apps.iter().map(|(it, _)| it.as_str()).collect();
            let mut by_app = WorkloadsByApp::new();
            for namespace in namespaces {
                by_app.extend(all(client, namespace, &workloads, &labels).await?);
            }
            Ok(by_app)
        }
        found => found,
    }
}

fn note(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            "images are left out: reading workloads is not allowed".to_owned()
        }
        error => format!(
            "images could not be read: {}",
            crate::clusters::describe(error)
        ),
    }
}

/// The image of that name that an app's workloads run, or why there is none: workloads that run several
/// revisions are in the middle of a rollout, or are not one app.
pub(crate) fn tracked(images: &[String], name: &str) -> Result<Image, String> {
    let parsed = images.iter().filter_map(|text| Image::parse(text));
    let named: Vec<Image> = parsed.filter(|image| image.is(name)).collect();
    if let Ok(found) = common_revision(&named) {
        let missing = || format!("no workload of the app runs the image {name}");
        return found.cloned().ok_or_else(missing);
    }
    let revisions: BTreeSet<String> = named.iter().map(Image::shown_revision).collect();
    let revisions: Vec<String> = revisions.into_iter().collect();
    Err(format!(
        "its workloads run the image {name} at {}",
        revisions.join(" and ")
    ))
}

#[cfg(test)]
mod tests;
