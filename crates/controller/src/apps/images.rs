//! The images that apps run, and the workloads they made.
//!
//! Flux labels what it deploys with the app it belongs to. When a feed has become complete all
//! workloads of its cluster are read at once; afterwards only those of an app that changed.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use api::image::{Image, common_revision};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    core::v1::PodSpec,
};
use kube::{
    Api, Client, Resource,
    api::{DynamicObject, ListParams},
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot::{self, error::TryRecvError};

use super::{Workload, feed::Feed};
use crate::keys::AppKind;

/// How long reading images may take; they are worth less than the rest of a status.
const WITHIN: Duration = Duration::from_secs(3);

/// For how many apps one list asks.
const AT_ONCE: usize = 64;
/// When a watch has become complete, the kinds of workload are listed one after the other, so that a
/// cluster on which nothing changes keeps one idle connection and not three.
const ONE_AFTER_THE_OTHER: usize = 1;
/// For an app that changed, all three kinds are listed at the same time: its pipeline's status waits
/// for them.
const ALL_AT_ONCE: usize = 3;
const UNANSWERED: &str = "images could not be read: whoever read them stopped";

/// An app by namespace and name.
type Place = (String, String);
/// What apps deployed.
type AllDeployed = HashMap<Place, Deployed>;

/// What was read of an app's workloads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Deployed {
    pub(crate) images: Vec<String>,
    pub(crate) workloads: Vec<Workload>,
}

/// Why the workloads of an app could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unread {
    /// What is left out because of it.
    pub(crate) note: String,
    /// Whether it is not allowed, so that trying again does not help.
    pub(crate) is_refused: bool,
}

impl Unread {
    fn of(error: &kube::Error) -> Self {
        Self {
            note: note(error),
            is_refused: matches!(error, kube::Error::Api(status) if status.code == 403),
        }
    }

    fn because(note: &str) -> Self {
        Self {
            note: note.to_owned(),
            is_refused: false,
        }
    }
}
/// The labels that name an app and its namespace.
type Labels = (String, String);

/// The labels by which Flux marks what an app of this kind deployed: name and namespace.
fn labels(kind: &AppKind) -> Option<Labels> {
    let is_flux =
        [api::flux::HELM_GROUP, api::flux::KUSTOMIZE_GROUP].contains(&kind.group.as_str());
    is_flux.then(|| {
        (
            format!("{}/name", kind.group),
            format!("{}/namespace", kind.group),
        )
    })
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

/// Reads the images of all apps of a feed.
pub(super) async fn fill(feed: &Feed, scope: &str) {
    let Some(labels) = labels(&feed.kind) else {
        return;
    };
    let read = all(&feed.client, scope, &labels.0, &labels, ONE_AFTER_THE_OTHER);
    let read = tokio::time::timeout(WITHIN, read).await;
    let refused = match &read {
        Ok(Err(error @ kube::Error::Api(refusal))) if refusal.code == 403 => Some(note(error)),
        // Anything else passes: the images of each app are read when it is looked at.
        _ => None,
    };
    let apps = &feed.shared.apps;
    apps.set_images_note(&feed.cluster, &feed.kind, refused);
    if let Ok(Ok(deployed)) = read {
        apps.fill_deployed(&feed.cluster, &feed.kind, scope, deployed);
    }
}

/// Those who ask for the images of apps of one kind on one cluster. One list answers all who have
/// asked by the time it is sent, so that many changes at once do not cost a list each.
#[derive(Default)]
pub(crate) struct Line {
    waiting: Mutex<Vec<Question>>,
    turn: tokio::sync::Mutex<()>,
}

/// What an app deployed, or why that is not known.
type Answer = Result<Deployed, Unread>;

struct Question {
    place: Place,
    answer: oneshot::Sender<Answer>,
}

impl Line {
    /// What one app deployed.
    pub(crate) async fn ask(&self, client: &Client, kind: &AppKind, place: Place) -> Answer {
        let (answer, mut answered) = oneshot::channel();
        self.waiting.lock().push(Question { place, answer });
        loop {
            // Whoever has the turn asks for everybody; the others find their answer when they get it.
            let _turn = self.turn.lock().await;
            match answered.try_recv() {
                Ok(answer) => return answer,
                Err(TryRecvError::Closed) => return Err(Unread::because(UNANSWERED)),
                Err(TryRecvError::Empty) => {}
            }
            let questions: Vec<Question> = {
                let mut waiting = self.waiting.lock();
                let count = waiting.len().min(AT_ONCE);
                waiting.drain(..count).collect()
            };
            answer_all(client, kind, questions).await;
        }
    }
}

async fn answer_all(client: &Client, kind: &AppKind, questions: Vec<Question>) {
    let places: BTreeSet<&Place> = questions.iter().map(|question| &question.place).collect();
    let read = tokio::time::timeout(WITHIN, of_apps(client, kind, &places)).await;
    let answers = match read {
        Ok(Ok(deployed)) => Ok(deployed),
        Ok(Err(error)) => Err(Unread::of(&error)),
        Err(_) => Err(Unread::because("images could not be read in time")),
    };
    for question in questions {
        let answer = answers.as_ref().map_err(Clone::clone);
        let answer = answer.map(|all| all.get(&question.place).cloned().unwrap_or_default());
        // Whoever does not wait any more does not need it.
        let _ = question.answer.send(answer);
    }
}

/// What several apps deployed, asked for in one go where that is allowed.
async fn of_apps(
    client: &Client,
    kind: &AppKind,
    places: &BTreeSet<&Place>,
) -> Result<AllDeployed, kube::Error> {
    let Some(labels) = labels(kind) else {
        return Ok(AllDeployed::new());
    };
    let names: BTreeSet<&str> = places.iter().map(|(_, name)| name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let selector = format!("{} in ({})", labels.0, names.join(","));
    match all(client, "", &selector, &labels, ALL_AT_ONCE).await {
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let namespaces: BTreeSet<&str> = places.iter().map(|(it, _)| it.as_str()).collect();
            let mut deployed = AllDeployed::new();
            for namespace in namespaces {
                let found = all(client, namespace, &selector, &labels, ALL_AT_ONCE).await?;
                deployed.extend(found);
            }
            Ok(deployed)
        }
        found => found,
    }
}

fn note(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            "images are left out: reading workloads is not allowed".to_owned()
        }
        error => format!("images could not be read: {}", crate::clusters::told(error)),
    }
}

/// What the apps deployed whose workloads are selected, in one namespace or (`scope` empty) in all.
async fn all(
    client: &Client,
    scope: &str,
    selector: &str,
    (name_label, namespace_label): &Labels,
    concurrency: usize,
) -> Result<AllDeployed, kube::Error> {
    let mut deployed = AllDeployed::new();
    for found in selected(client, scope, selector, concurrency).await? {
        let label = |key: &str| found.labels.get(key).cloned().unwrap_or_default();
        let place = (label(namespace_label), label(name_label));
        let deployed = deployed.entry(place).or_default();
        deployed.images.extend(found.images);
        deployed.workloads.push(found.workload);
    }
    for found in deployed.values_mut() {
        found.images = sorted(std::mem::take(&mut found.images).into_iter());
    }
    Ok(deployed)
}

/// What is read of a workload.
struct Found {
    workload: Workload,
    labels: std::collections::BTreeMap<String, String>,
    images: Vec<String>,
}

async fn selected(
    client: &Client,
    scope: &str,
    selector: &str,
    concurrency: usize,
) -> Result<Vec<Found>, kube::Error> {
    let lists = [
        list::<Deployment>(client, scope, selector, |it| {
            it.spec.as_ref()?.template.spec.as_ref()
        })
        .boxed(),
        list::<StatefulSet>(client, scope, selector, |it| {
            it.spec.as_ref()?.template.spec.as_ref()
        })
        .boxed(),
        list::<DaemonSet>(client, scope, selector, |it| {
            it.spec.as_ref()?.template.spec.as_ref()
        })
        .boxed(),
    ];
    let lists = stream::iter(lists).buffered(concurrency);
    lists.try_concat().await
}

async fn list<K>(
    client: &Client,
    scope: &str,
    selector: &str,
    pod: fn(&K) -> Option<&PodSpec>,
) -> Result<Vec<Found>, kube::Error>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = match scope {
        "" => Api::all(client.clone()),
        namespace => Api::namespaced(client.clone(), namespace),
    };
    // From the server's memory: a list that must be the newest waits for etcd, 100 ms at a time, and
    // a workload changed long before its app became ready.
    let mut parameters = ListParams::default().labels(selector).match_any();
    let mut workloads = Vec::new();
    loop {
        let page = api.list(&parameters).await?;
        for workload in &page.items {
            let metadata = workload.meta();
            workloads.push(Found {
                workload: Workload {
                    kind: K::kind(&()).into_owned(),
                    namespace: metadata.namespace.clone().unwrap_or_default(),
                    name: metadata.name.clone().unwrap_or_default(),
                },
                labels: metadata.labels.clone().unwrap_or_default(),
                images: pod(workload).map(images_of).unwrap_or_default(),
            });
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(workloads),
        }
    }
}

fn images_of(pod: &PodSpec) -> Vec<String> {
    let first = pod.init_containers.iter().flatten();
    let containers = first.chain(&pod.containers);
    containers
        .filter_map(|container| container.image.clone())
        .collect()
}

/// The one revision of the image of that name that an app's workloads run, or why there is none.
/// Workloads that run several are between two revisions, or are not one app.
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
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use apiserver::Server;
    use futures::future::join_all;
    use kube::{api::PostParams, client::Body};
    use serde_json::json;
    use tower::ServiceExt;

    use super::*;

    /// A client that counts what it asks.
    fn counted(server: &Server) -> (Client, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let (router, asked) = (server.router(apiserver::User::in_process()), count.clone());
        let service = tower::service_fn(move |request: http::Request<Body>| {
            asked.fetch_add(1, Ordering::Relaxed);
            router.clone().oneshot(request.map(axum::body::Body::new))
        });
        (Client::new(service, "default"), count)
    }

    async fn workload(server: &Server, number: usize) {
        let app = format!("app-{number}");
        let labels = json!({"helm.toolkit.fluxcd.io/name": app, "helm.toolkit.fluxcd.io/namespace": "default"});
        let image = format!("registry.example/app:{number}");
        let deployment = serde_json::from_value(json!({
            "metadata": {"name": app, "labels": labels},
            "spec": {
                "selector": {"matchLabels": {"app": app}},
                "template": {
                    "metadata": {"labels": {"app": app}},
                    "spec": {"containers": [{"name": "app", "image": image}]},
                },
            },
        }));
        let api: Api<Deployment> = Api::namespaced(server.client(), "default");
        let deployment = deployment.unwrap();
        api.create(&PostParams::default(), &deployment)
            .await
            .unwrap();
    }

    #[test]
    fn several_versions_of_the_tracked_image_are_no_revision() {
        let tracked = |images: &[&str]| {
            let images: Vec<String> = images.iter().map(|&image| image.to_owned()).collect();
            tracked(&images, "acme/shop").map(|image| image.shown_revision())
        };
        let mixed = "its workloads run the image acme/shop at 1.10.0 and 1.9.0";
        assert_eq!(
            tracked(&["acme/shop:1.10.0", "acme/shop:1.9.0", "acme/db:1"]),
            Err(mixed.to_owned())
        );
        assert_eq!(tracked(&["acme/shop:2", "acme/db:1"]), Ok("2".to_owned()));
        // One workload pins the digest as well.
        assert_eq!(
            tracked(&["acme/shop:2", "acme/shop:2@sha256:a"]),
            Ok("2@sha256:a".to_owned())
        );
        let none = "no workload of the app runs the image acme/shop";
        assert_eq!(tracked(&["acme/db:1"]), Err(none.to_owned()));
    }

    #[tokio::test]
    async fn many_questions_at_once_cost_a_few_lists() {
        let server = Server::in_memory();
        for number in 0..40 {
            workload(&server, number).await;
        }
        let (client, count) = counted(&server);
        let kind = AppKind::new(api::flux::HELM_GROUP, "HelmRelease");
        let line = Line::default();
        let answers = join_all((0..40).map(|number| {
            line.ask(
                &client,
                &kind,
                ("default".to_owned(), format!("app-{number}")),
            )
        }));
        for (number, answer) in answers.await.into_iter().enumerate() {
            let deployed = answer.unwrap();
            assert_eq!(deployed.images, [format!("registry.example/app:{number}")]);
            assert_eq!(deployed.workloads[0].name, format!("app-{number}"));
        }
        // Three kinds of workload for whoever came first, and three for all who came meanwhile.
        assert_eq!(count.load(Ordering::Relaxed), 6);
    }
}
