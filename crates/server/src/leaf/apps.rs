//! All apps on a cluster: HelmReleases, Kustomizations, and workloads that Flux does not manage.

use std::collections::HashMap;

use api::{
    app::{self, AppType},
    flux::{HELM_GROUP, HelmRelease, KUSTOMIZE_GROUP},
    third_party,
};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
};

use super::{
    kinds::{APPS, DiscoveredKinds},
    read_error_text, shortened,
    tree::images,
};

/// How many objects one list request returns.
const PAGE_SIZE: u32 = 250;
/// How many objects of a kind are read.
const MAX_OBJECTS_PER_KIND: usize = 20_000;

/// An app, and what it runs.
#[derive(Clone, Debug, Default)]
pub struct DeployedApp {
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The chart of a release.
    pub chart: Option<String>,
    /// What is written to git for the revision that runs.
    pub version: Option<String>,
    /// The revision that runs.
    pub revision: Option<String>,
    /// Whether it is ready.
    pub ready: bool,
    /// The revision whose release failed.
    pub failed: Option<String>,
    /// The message of its status.
    pub message: Option<String>,
    /// The images it runs.
    pub images: Vec<String>,
}

/// The apps of a cluster.
#[derive(Debug, Default)]
pub struct DeployedApps {
    /// The apps.
    pub apps: Vec<DeployedApp>,
    /// What could not be read, and why.
    pub notes: Vec<String>,
}

/// Reads all apps on a cluster.
pub async fn read(client: &Client) -> DeployedApps {
    let mut all = DeployedApps::default();
    let kinds = DiscoveredKinds::default();
    let mut by_name = HashMap::new();
    for (group, kind) in [
        (HELM_GROUP, "HelmRelease"),
        (KUSTOMIZE_GROUP, "Kustomization"),
    ] {
        let listed = list(client, &kinds, (group, kind), |object| {
            flux_app(kind, object)
        })
        .await;
        for app in all.listed_or_note(kind, listed) {
            let owner = (group, app.namespace.clone(), app.name.clone());
            by_name.insert(owner, all.apps.len());
            all.apps.push(app);
        }
    }
    for kind in ["Deployment", "StatefulSet", "DaemonSet"] {
        let listed = list(client, &kinds, (APPS, kind), |object| {
            workload(kind, object)
        })
        .await;
        for (owner, app) in all.listed_or_note(kind, listed) {
            let owner = owner.and_then(|owner| by_name.get(&owner).copied());
            match owner {
                Some(owner) => all.apps[owner].images.extend(app.images),
                None => all.apps.push(app),
            }
        }
    }
    for app in &mut all.apps {
        app.images.sort();
        app.images.dedup();
    }
    all
}

impl DeployedApps {
    /// What was listed, with a note if that is not everything.
    fn listed_or_note<T>(
        &mut self,
        kind: &str,
        listed: Result<(Vec<T>, bool), kube::Error>,
    ) -> Vec<T> {
        match listed {
            Ok((found, is_all)) => {
                if !is_all {
                    let note = format!("only the first {MAX_OBJECTS_PER_KIND} {kind}s were read");
                    self.notes.push(note);
                }
                found
            }
            Err(error) => {
                self.notes.push(format!(
                    "{kind}s could not be read: {}",
                    read_error_text(&error)
                ));
                Vec::new()
            }
        }
    }
}

/// All objects of a kind, and whether that is all there are. None if the kind is not served.
async fn list<T>(
    client: &Client,
    kinds: &DiscoveredKinds,
    (group, kind): (&str, &str),
    convert: impl Fn(&DynamicObject) -> T,
) -> Result<(Vec<T>, bool), kube::Error> {
    let Some(resource) = kinds.find(client, group, kind).await? else {
        return Ok((Vec::new(), true));
    };
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut parameters = ListParams::default().limit(PAGE_SIZE);
    let mut found = Vec::new();
    loop {
        let page = api.list(&parameters).await?;
        found.extend(page.items.iter().map(&convert));
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(_) if found.len() >= MAX_OBJECTS_PER_KIND => return Ok((found, false)),
            Some(next) => parameters = parameters.continue_token(&next),
            None => return Ok((found, true)),
        }
    }
}

fn flux_app(kind: &str, object: &DynamicObject) -> DeployedApp {
    let (group, chart) = match kind {
        "HelmRelease" => (HELM_GROUP, chart(object)),
        _ => (KUSTOMIZE_GROUP, None),
    };
    let app = app_of(AppType::of(&format!("{group}/"), kind), kind, object);
    DeployedApp { chart, ..app }
}

fn chart(object: &DynamicObject) -> Option<String> {
    let release: HelmRelease = third_party::read(&object.data);
    let deployed = release.status.history.into_iter().next();
    let deployed = deployed.and_then(|deployed| deployed.chart_name);
    deployed.or_else(|| release.spec.chart?.spec.chart)
}

/// The group, namespace and name of the Flux object that deployed a workload.
type Owner = (&'static str, String, String);

fn workload(kind: &str, object: &DynamicObject) -> (Option<Owner>, DeployedApp) {
    let labels = object.metadata.labels.as_ref();
    let label = |key: String| labels?.get(&key).cloned();
    let owner = [HELM_GROUP, KUSTOMIZE_GROUP].into_iter().find_map(|group| {
        let namespace = label(format!("{group}/namespace"))?;
        Some((group, namespace, label(format!("{group}/name"))?))
    });
    let app = app_of(AppType::of("apps/", kind), kind, object);
    let images = images(&object.data);
    (owner, DeployedApp { images, ..app })
}

fn app_of(read: AppType, kind: &str, object: &DynamicObject) -> DeployedApp {
    let reading = app::read_as(read, object, None);
    DeployedApp {
        kind: kind.to_owned(),
        namespace: object.metadata.namespace.clone().unwrap_or_default(),
        name: object.metadata.name.clone().unwrap_or_default(),
        version: reading.version,
        revision: reading.revision.map(|revision| revision.to_string()),
        ready: reading.ready,
        failed: (reading.failed && !reading.ready)
            .then(|| reading.attempted.map(|revision| revision.to_string()))
            .flatten(),
        message: reading.message.map(|message| shortened(&message)),
        ..DeployedApp::default()
    }
}
