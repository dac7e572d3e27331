//! A cluster in the process: the kinds that triggers depend on, and the controller itself.

use std::{sync::Arc, time::Duration};

use api::PipelineTrigger;
use apiserver::{FaultRates, Options, Server};
use axum::{
    extract::{Request, State},
    http::StatusCode,
    middleware::Next,
    response::{IntoResponse, Response},
};
use controller::Metrics;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
    client::Body,
    core::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::{
        wait::{await_condition, conditions::is_crd_established},
        watcher,
    },
};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use runtime::{CacheConfig, Clock, Health, LeaderGuard, ObjectCache};
use serde_json::{Value, json};
use testbed::real::{Assets, ControlPlane};
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;
use trigger::controller::{
    self as trigger_controller, TriggerContext, TriggerMetrics, TriggerSettings,
};

pub(crate) const NAMESPACE: &str = "jq-example-namespace";

/// Group, version, kind and plural of every kind that is not ours.
pub(crate) const FOREIGN: &[(&str, &str, &str, &str)] = &[
    (
        "source.toolkit.fluxcd.io",
        "v1",
        "GitRepository",
        "gitrepositories",
    ),
    (
        "source.toolkit.fluxcd.io",
        "v1",
        "OCIRepository",
        "ocirepositories",
    ),
    ("source.toolkit.fluxcd.io", "v1", "Bucket", "buckets"),
    ("source.toolkit.fluxcd.io", "v1", "HelmChart", "helmcharts"),
    (
        "image.toolkit.fluxcd.io",
        "v1",
        "ImagePolicy",
        "imagepolicies",
    ),
    (
        "image.toolkit.fluxcd.io",
        "v1",
        "ImageRepository",
        "imagerepositories",
    ),
    (
        "pipeline.jquad.rocks",
        "v1alpha1",
        "PullRequest",
        "pullrequests",
    ),
    ("tekton.dev", "v1", "Pipeline", "pipelines"),
    ("tekton.dev", "v1", "Task", "tasks"),
    ("tekton.dev", "v1", "PipelineRun", "pipelineruns"),
    (
        "credentials.jquad.rocks",
        "v1alpha1",
        "ManagedCredential",
        "managedcredentials",
    ),
];

/// Our own and built-in kinds.
const OTHERS: &[(&str, &str, &str, &str)] = &[
    (
        "pipeline.jquad.rocks",
        "v1alpha1",
        "PipelineTrigger",
        "pipelinetriggers",
    ),
    ("pipelines.weave.works", "v1alpha1", "Pipeline", "pipelines"),
    ("events.k8s.io", "v1", "Event", "events"),
    ("", "v1", "ServiceAccount", "serviceaccounts"),
];

/// A cluster and everything a test does to it.
#[derive(Clone)]
pub(crate) struct Cluster {
    /// The embedded API; none where a real one is used.
    server: Option<Server>,
    /// The client of the test.
    pub(crate) client: Client,
    pub(crate) metrics: Metrics,
    conditions: TriggerMetrics,
    pub(crate) settings: TriggerSettings,
    /// The client of the controller, whose requests are counted.
    counted: Client,
    namespace: &'static str,
    /// Paths that contain this are refused to the controller.
    forbidden: Arc<Mutex<Option<&'static str>>>,
    /// When the test started: the server's time on objects, and the paused clock.
    started: (Timestamp, Instant),
    _control_plane: Option<Arc<ControlPlane>>,
}

impl Cluster {
    /// Our definitions and a namespace, nothing else.
    pub(crate) async fn bare(seed: u64) -> Self {
        Self::bare_in(NAMESPACE, seed).await
    }

    async fn bare_in(namespace: &'static str, seed: u64) -> Self {
        let server = testbed::hub::server_with(Options {
            seed: Some(seed),
            ..Options::default()
        });
        let (metrics, conditions) = metrics();
        let forbidden = Arc::<Mutex<Option<&str>>>::default();
        let guard = axum::middleware::from_fn_with_state(forbidden.clone(), refuse);
        let counted = ServiceBuilder::new()
            .layer(metrics.count_requests("hub"))
            .map_request(|request: http::Request<Body>| request.map(axum::body::Body::new))
            .service(server.router(apiserver::User::in_process()).layer(guard));
        let cluster = Self {
            client: server.client(),
            counted: Client::new(counted, "default"),
            server: Some(server),
            metrics,
            conditions,
            settings: settings(),
            namespace,
            forbidden,
            started: (Clock::start().now(), Instant::now()),
            _control_plane: None,
        };
        cluster.prepare().await;
        cluster
    }

    /// A real control plane with everything and the controller.
    pub(crate) async fn real() -> Self {
        let control_plane = ControlPlane::start(&Assets::from_env().unwrap()).await;
        let control_plane = control_plane.unwrap();
        let (metrics, conditions) = metrics();
        let cluster = Self {
            client: control_plane.client(),
            counted: control_plane.client(),
            server: None,
            metrics,
            conditions,
            settings: settings(),
            namespace: NAMESPACE,
            forbidden: Arc::default(),
            started: (Clock::start().now(), Instant::now()),
            _control_plane: Some(Arc::new(control_plane)),
        };
        cluster.prepare().await;
        cluster
    }

    async fn prepare(&self) {
        if self.server.is_none() {
            for definition in api::crds() {
                self.define(&definition).await;
            }
        }
        let name = self.namespace;
        let manifest =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        self.apply(&manifest).await;
    }

    /// With Flux, Tekton and the controller.
    pub(crate) async fn whole() -> Self {
        Self::whole_in(NAMESPACE).await
    }

    /// The same, with everything in another namespace.
    pub(crate) async fn whole_in(namespace: &'static str) -> Self {
        let cluster = Self::bare_in(namespace, 1).await;
        cluster.install_all().await;
        cluster.start();
        cluster
    }

    /// Flux and Tekton.
    pub(crate) async fn install_all(&self) {
        for kind in FOREIGN {
            self.install(kind).await;
        }
    }

    async fn define(&self, definition: &CustomResourceDefinition) {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let parameters = PostParams::default();
        let created = definitions.create(&parameters, definition).await;
        let name = created.expect("a valid definition").name_any();
        let established = await_condition(definitions, &name, is_crd_established());
        established.await.expect("it is served");
    }

    /// A definition that takes anything.
    pub(crate) async fn install(&self, kind: &(&str, &str, &str, &str)) {
        self.define(&definition(kind)).await;
    }

    /// Starts the controller.
    pub(crate) fn start(&self) -> JoinHandle<()> {
        let concurrency = self.settings.concurrency;
        let worker_metrics = self
            .metrics
            .of_controller(trigger_controller::NAME, concurrency);
        let triggers = ObjectCache::new(CacheConfig::default());
        let (client, namespace) = (self.counted.clone(), self.settings.namespace.clone());
        let context = TriggerContext {
            client: self.counted.clone(),
            triggers: triggers.clone(),
            settings: self.settings.clone(),
            leader: LeaderGuard::without_election(),
            event_metrics: self.metrics.events().clone(),
            worker_metrics,
            metrics: self.conditions.clone(),
            health: Health::new(Duration::from_secs(300)),
            stop: CancellationToken::new(),
        };
        tokio::spawn(async move {
            tokio::select! {
                outcome = trigger_controller::run(context) => outcome.unwrap(),
                () = triggers.watch(client, namespace.as_deref(), watcher::Config::default()) => {}
            }
        })
    }

    /// From now on the controller may not list a kind, or may list everything.
    pub(crate) fn forbid(&self, plural: Option<&'static str>) {
        *self.forbidden.lock() = plural;
    }

    pub(crate) fn inject(&self, faults: FaultRates) {
        let server = self.server.as_ref().expect("the embedded API");
        server.inject_faults(faults);
    }

    /// How many requests of the controller had one of these methods.
    pub(crate) fn requests(&self, methods: &[&str]) -> u64 {
        let page = self.metrics.page();
        let lines = page
            .lines()
            .filter(|line| line.starts_with("rest_client_requests_total{"));
        let asked = lines.filter(|line| {
            let method = |method: &&str| line.contains(&format!("method=\"{method}\""));
            methods.iter().any(method)
        });
        let count = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
        asked.map(count).sum()
    }

    /// How many writes the controller sent.
    pub(crate) fn writes(&self) -> u64 {
        self.requests(&["POST", "PUT", "PATCH", "DELETE"])
    }

    /// Objects of the first known kind of that name.
    pub(crate) fn objects(&self, kind: &str) -> Api<DynamicObject> {
        self.objects_in(None, kind)
    }

    fn objects_in(&self, group: Option<&str>, kind: &str) -> Api<DynamicObject> {
        let known = FOREIGN.iter().chain(OTHERS);
        let (group, version, kind, plural) = known
            .into_iter()
            .find(|known| known.2 == kind && group.is_none_or(|group| group == known.0))
            .unwrap();
        let kind = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        Api::namespaced_with(self.client.clone(), self.namespace, &resource)
    }

    /// Creates or merges one manifest; status goes where status goes.
    pub(crate) async fn apply(&self, manifest: &Value) {
        let kind = manifest["kind"].as_str().expect("a kind");
        if kind == "Namespace" {
            let namespaces: Api<k8s_openapi::api::core::v1::Namespace> =
                Api::all(self.client.clone());
            let namespace = serde_json::from_value(manifest.clone()).unwrap();
            namespaces
                .create(&PostParams::default(), &namespace)
                .await
                .expect("a namespace");
            return;
        }
        let object: DynamicObject = serde_json::from_value(manifest.clone()).unwrap();
        let api_version = manifest["apiVersion"].as_str().expect("an API version");
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let objects = self.objects_in(Some(group), kind);
        let name = object.name_any();
        // Fields that the definition does not know are refused.
        let strictly = PatchParams::apply("test").validation_strict();
        let applied = objects
            .patch(&name, &strictly, &Patch::Apply(&object))
            .await;
        applied.unwrap_or_else(|error| panic!("{manifest} is refused: {error}"));
        if let Some(status) = manifest.get("status") {
            self.set_status(kind, &name, status.clone()).await;
        }
    }

    pub(crate) async fn apply_yaml(&self, text: &str) {
        for document in text.split("\n---") {
            let manifest: Value =
                serde_saphyr::from_str(document.trim_start_matches("---")).unwrap();
            if !manifest.is_null() {
                self.apply(&manifest).await;
            }
        }
    }

    pub(crate) async fn set_status(&self, kind: &str, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        self.insist(async || {
            self.objects(kind)
                .patch_status(name, &PatchParams::default(), &patch)
                .await
                .map(drop)
        })
        .await;
    }

    pub(crate) async fn change(&self, kind: &str, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        self.insist(async || {
            self.objects(kind)
                .patch(name, &PatchParams::default(), &patch)
                .await
                .map(drop)
        })
        .await;
    }

    /// Tries until it works: faults may be injected.
    async fn insist(&self, attempt: impl AsyncFn() -> Result<(), kube::Error>) {
        while let Err(error) = attempt().await {
            assert!(
                matches!(&error, kube::Error::Api(status) if status.code >= 500 || status.code == 409),
                "{error}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) async fn push(&self, repository: &str, revision: &str) {
        let artifact = json!({
            "revision": revision, "path": format!("gitrepository/{NAMESPACE}/{repository}/x.tar.gz"),
        });
        self.set_status("GitRepository", repository, json!({ "artifact": artifact }))
            .await;
    }

    pub(crate) async fn finish(&self, run: &str, status: &str, reason: &str) {
        let now = self.started.0 + SignedDuration::try_from(self.started.1.elapsed()).unwrap();
        let status = json!({
            "conditions": [{ "type": "Succeeded", "status": status, "reason": reason, "message": "said Tekton" }],
            "completionTime": if status == "Unknown" { Value::Null } else { json!(now.to_string()) },
        });
        self.set_status("PipelineRun", run, status).await;
    }

    /// Every run, oldest first.
    pub(crate) async fn runs(&self) -> Vec<Value> {
        let list = self
            .objects("PipelineRun")
            .list(&ListParams::default())
            .await;
        let mut runs: Vec<Value> = list
            .map(|list| list.items)
            .unwrap_or_default()
            .iter()
            .map(|run| serde_json::to_value(run).unwrap())
            .collect();
        runs.sort_by_key(|run| {
            run["metadata"]["resourceVersion"]
                .as_str()
                .unwrap()
                .parse::<u64>()
                .unwrap()
        });
        runs.sort_by_key(|run| {
            run["metadata"]["creationTimestamp"]
                .as_str()
                .map(str::to_owned)
        });
        runs
    }

    pub(crate) async fn trigger(&self, name: &str) -> PipelineTrigger {
        let api: Api<PipelineTrigger> = Api::namespaced(self.client.clone(), self.namespace);
        loop {
            match api.get(name).await {
                Ok(trigger) => return trigger,
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    pub(crate) async fn status(&self, name: &str) -> Value {
        serde_json::to_value(self.trigger(name).await.status).unwrap()
    }

    /// Ten minutes pass; then nothing is left to do.
    pub(crate) async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(600)).await;
    }

    pub(crate) async fn wait_for_runs(&self, count: usize) -> Vec<Value> {
        self.wait_for(&format!("{count} runs"), async || {
            let runs = self.runs().await;
            (runs.len() == count).then_some(runs)
        })
        .await
    }

    /// Waits until `ready` has something, for at most an hour of the paused clock.
    pub(crate) async fn wait_for<T>(&self, what: &str, ready: impl AsyncFn() -> Option<T>) -> T {
        for _ in 0..7200 {
            if let Some(found) = ready().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        panic!(
            "waited in vain for {what}; the runs: {:#?}",
            self.runs().await
        );
    }

    pub(crate) async fn wait_for_ready(&self, trigger: &str, expected: &str) -> Value {
        let seen = async || {
            let status = self.status(trigger).await;
            (ready(&status).starts_with(expected)).then_some(status)
        };
        for _ in 0..6000 {
            if let Some(status) = seen().await {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!(
            "{trigger} never became {expected}: {:#}",
            self.status(trigger).await
        );
    }
}

fn metrics() -> (Metrics, TriggerMetrics) {
    let mut registry = Registry::default();
    let conditions = TriggerMetrics::register(&mut registry);
    (Metrics::beside(registry), conditions)
}

fn settings() -> TriggerSettings {
    TriggerSettings {
        concurrency: 20,
        ..TriggerSettings::default()
    }
}

async fn refuse(
    State(forbidden): State<Arc<Mutex<Option<&'static str>>>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path().to_owned();
    let plural = *forbidden.lock();
    match plural.filter(|plural| path.ends_with(plural)) {
        None => next.run(request).await,
        Some(plural) => {
            let message = format!("{plural} is forbidden: you may not list it");
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": message, "reason": "Forbidden", "code": 403,
            });
            (StatusCode::FORBIDDEN, axum::Json(status)).into_response()
        }
    }
}

pub(crate) fn ready(status: &Value) -> String {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions
        .iter()
        .find(|condition| condition["type"] == "Ready");
    let text = |field: &str| {
        ready
            .and_then(|ready| ready[field].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    format!("{} {}: {}", text("status"), text("reason"), text("message"))
}

pub(crate) fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn definition(
    (group, version, kind, plural): &(&str, &str, &str, &str),
) -> CustomResourceDefinition {
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = json!({
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List") },
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": anything, "status": anything } } }
            }]
        }
    });
    serde_json::from_value(definition).unwrap()
}
