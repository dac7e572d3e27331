//! Every app on a cluster: what Flux deploys, and workloads that nobody deploys by Flux.

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
    kinds::{APPS, Kinds},
    short,
    tree::images,
    why,
};

/// How many objects are read at a time.
const PAGE: u32 = 250;
/// How many objects of a kind are read at most.
const MOST: usize = 20_000;

/// An app, and what it runs.
#[derive(Clone, Debug, Default)]
pub struct App {
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The chart of a release.
    pub chart: Option<String>,
    /// What would be written to git to get what runs.
    pub version: Option<String>,
    /// What runs.
    pub revision: Option<String>,
    /// Whether it runs as it should.
    pub ready: bool,
    /// The revision whose release failed.
    pub failed: Option<String>,
    /// What it says about itself.
    pub message: Option<String>,
    /// The images it runs.
    pub images: Vec<String>,
}

/// What a cluster has.
#[derive(Debug, Default)]
pub struct Apps {
    /// The apps.
    pub apps: Vec<App>,
    /// What is left out, and why.
    pub notes: Vec<String>,
}

/// Reads every app on a cluster.
pub async fn read(client: &Client) -> Apps {
    let mut all = Apps::default();
    let kinds = Kinds::default();
    let mut by_name = HashMap::new();
    for (group, kind) in [
        (HELM_GROUP, "HelmRelease"),
        (KUSTOMIZE_GROUP, "Kustomization"),
    ] {
        let listed = list(client, &kinds, (group, kind), |object| flux(kind, object)).await;
        for app in all.take(kind, listed) {
            let place = (group, app.namespace.clone(), app.name.clone());
            by_name.insert(place, all.apps.len());
            all.apps.push(app);
        }
    }
    for kind in ["Deployment", "StatefulSet", "DaemonSet"] {
        let listed = list(client, &kinds, (APPS, kind), |object| {
            workload(kind, object)
        })
        .await;
        for (owner, app) in all.take(kind, listed) {
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

impl Apps {
    fn take<T>(&mut self, kind: &str, listed: Result<(Vec<T>, bool), kube::Error>) -> Vec<T> {
        match listed {
            Ok((found, is_all)) => {
                if !is_all {
                    let note = format!("only the first {MOST} {kind}s were read");
                    self.notes.push(note);
                }
                found
            }
            Err(error) => {
                self.notes
                    .push(format!("{kind}s are left out: {}", why(&error)));
                Vec::new()
            }
        }
    }
}

/// Everything of a kind, and whether that is all there is. Nothing where the kind is not served.
async fn list<T>(
    client: &Client,
    kinds: &Kinds,
    (group, kind): (&str, &str),
    slim: impl Fn(&DynamicObject) -> T,
) -> Result<(Vec<T>, bool), kube::Error> {
    let Some(resource) = kinds.find(client, group, kind).await? else {
        return Ok((Vec::new(), true));
    };
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut parameters = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = api.list(&parameters).await?;
        found.extend(page.items.iter().map(&slim));
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(_) if found.len() >= MOST => return Ok((found, false)),
            Some(next) => parameters = parameters.continue_token(&next),
            None => return Ok((found, true)),
        }
    }
}

fn flux(kind: &str, object: &DynamicObject) -> App {
    let (group, chart) = match kind {
        "HelmRelease" => (HELM_GROUP, chart(object)),
        _ => (KUSTOMIZE_GROUP, None),
    };
    let app = described(AppType::of(&format!("{group}/"), kind), kind, object);
    App { chart, ..app }
}

fn chart(object: &DynamicObject) -> Option<String> {
    let release: HelmRelease = third_party::read(&object.data);
    let deployed = release.status.history.into_iter().next();
    let deployed = deployed.and_then(|deployed| deployed.chart_name);
    deployed.or_else(|| release.spec.chart?.spec.chart)
}

/// The group, namespace and name of what deployed a workload.
type Owner = (&'static str, String, String);

fn workload(kind: &str, object: &DynamicObject) -> (Option<Owner>, App) {
    let labels = object.metadata.labels.as_ref();
    let label = |key: String| labels?.get(&key).cloned();
    let owner = [HELM_GROUP, KUSTOMIZE_GROUP].into_iter().find_map(|group| {
        let namespace = label(format!("{group}/namespace"))?;
        Some((group, namespace, label(format!("{group}/name"))?))
    });
    let app = described(AppType::of("apps/", kind), kind, object);
    let images = images(&object.data);
    (owner, App { images, ..app })
}

fn described(read: AppType, kind: &str, object: &DynamicObject) -> App {
    let reading = app::read_as(read, object, None);
    App {
        kind: kind.to_owned(),
        namespace: object.metadata.namespace.clone().unwrap_or_default(),
        name: object.metadata.name.clone().unwrap_or_default(),
        version: reading.version,
        revision: reading.revision.map(|revision| revision.to_string()),
        ready: reading.ready,
        failed: (reading.failed && !reading.ready)
            .then(|| reading.attempted.map(|revision| revision.to_string()))
            .flatten(),
        message: reading.message.map(|message| short(&message)),
        ..App::default()
    }
}
