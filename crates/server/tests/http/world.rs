//! What every test starts from: the embedded API with our kinds, a pipeline, and the server's routers.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use api::{Pipeline, Promotion};
use apiserver::{Options, Server};
use axum::{Router, body::Body};
use futures::future::BoxFuture;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, Method, Request, StatusCode};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use runtime::wall_clock;
use serde_json::{Value, json};
use server::{AppState, Metrics, Settings};
use sha2::{Sha224, Sha256};
use tokio_util::{sync::CancellationToken, sync::DropGuard};
use tower::ServiceExt;

use crate::loops::{self, Strategy};

pub(crate) const KEY: &str = "hmac-secret";

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) hooks: Router,
    pub(crate) rest: Router,
    pub(crate) settings: Settings,
    /// The requests of the server to the API: method and path.
    calls: Arc<Mutex<Vec<(Method, String)>>>,
    meanwhile: Meanwhile,
    stop: CancellationToken,
    _guard: DropGuard,
}

/// What another client does right before the server's next write to a path that contains this text.
type Meanwhile = Arc<Mutex<Option<(String, BoxFuture<'static, ()>)>>>;

pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl World {
    /// No limits, and a pipeline `default/app`.
    pub(crate) async fn new() -> Self {
        Self::with(unlimited()).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        // One time of day for the server, the API and the test, also while tokio's clock is paused.
        let now = jiff::Timestamp::now();
        wall_clock::simulate(now);
        let server = testbed::hub::server_with(Options {
            start: Some(now),
            ..Options::default()
        });
        let client = server.client();
        let calls = Arc::default();
        let meanwhile = Meanwhile::default();
        let stop = CancellationToken::new();
        let counted = counting(&server, &calls, &meanwhile);
        let app_state = AppState::new(counted, settings.clone(), Metrics::default(), &stop);
        let world = Self {
            server,
            client,
            hooks: server::hooks::router(app_state.clone()),
            rest: server::web::router(app_state),
            settings,
            calls,
            meanwhile,
            _guard: stop.clone().drop_guard(),
            stop,
        };
        world.create(pipeline()).await;
        world
    }

    /// Another replica, which knows nothing of the first.
    pub(crate) fn replica(&self) -> Router {
        server::hooks::router(self.another_app_state())
    }

    /// Another replica's REST.
    pub(crate) fn rest_replica(&self) -> Router {
        server::web::router(self.another_app_state())
    }

    /// Another replica's REST, with other settings.
    pub(crate) fn rest_replica_with(&self, settings: Settings) -> Router {
        server::web::router(self.app_state_with(settings))
    }

    fn another_app_state(&self) -> Arc<AppState> {
        self.app_state_with(self.settings.clone())
    }

    fn app_state_with(&self, settings: Settings) -> Arc<AppState> {
        let metrics = Metrics::default();
        AppState::new(self.client.clone(), settings, metrics, &self.stop)
    }

    /// Runs the reconcilers beside the server.
    pub(crate) fn promotes(&self, strategy: Strategy) {
        let loops = loops::run(self.client.clone(), strategy);
        tokio::spawn(self.stop.clone().run_until_cancelled_owned(loops));
    }

    pub(crate) async fn create(&self, pipeline: Value) {
        let api: Api<Pipeline> = Api::namespaced(self.client.clone(), "default");
        let pipeline = serde_json::from_value(pipeline).unwrap();
        api.create(&PostParams::default(), &pipeline).await.unwrap();
    }

    pub(crate) async fn edit(&self, patch: Value) {
        let api: Api<Pipeline> = Api::namespaced(self.client.clone(), "default");
        let patch = Patch::Merge(patch);
        api.patch("app", &PatchParams::default(), &patch)
            .await
            .unwrap();
        self.settle().await;
    }

    pub(crate) async fn edit_status(&self, status: Value) {
        let api: Api<Pipeline> = Api::namespaced(self.client.clone(), "default");
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status("app", &PatchParams::default(), &patch)
            .await
            .unwrap();
        self.settle().await;
    }

    /// Lets the watches tell what has changed.
    pub(crate) async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    pub(crate) async fn create_key(&self, name: &str, key: &str) {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), "default");
        let secret = json!({"metadata": {"name": name}, "stringData": {"hmac-key": key}});
        let secret = serde_json::from_value(secret).unwrap();
        secrets
            .create(&PostParams::default(), &secret)
            .await
            .unwrap();
    }

    /// Signed calls only, with [`KEY`].
    pub(crate) async fn demand_signatures(&self) {
        self.create_key("keys", KEY).await;
        let strategy = json!({"secretRef": {"name": "keys"}});
        self.edit(json!({"spec": {"promotion": {"strategy": strategy}}}))
            .await;
    }

    pub(crate) async fn pipeline(&self) -> Pipeline {
        let api: Api<Pipeline> = Api::namespaced(self.client.clone(), "default");
        api.get("app").await.unwrap()
    }

    pub(crate) async fn promotions(&self) -> Vec<Promotion> {
        let api: Api<Promotion> = Api::namespaced(self.client.clone(), "default");
        api.list(&ListParams::default()).await.unwrap().items
    }

    pub(crate) async fn set_promotion_status(&self, promotion: &Promotion, status: Value) {
        let api: Api<Promotion> = Api::namespaced(self.client.clone(), "default");
        let name = promotion.metadata.name.as_deref().unwrap();
        let patch = Patch::Merge(json!({"status": status}));
        let parameters = PatchParams::default();
        api.patch_status(name, &parameters, &patch).await.unwrap();
        self.settle().await;
    }

    /// Has another client act after the server has read and right before it writes to such a path.
    pub(crate) fn meanwhile(&self, path: &str, act: impl Future<Output = ()> + Send + 'static) {
        *self.meanwhile.lock().unwrap() = Some((path.to_owned(), Box::pin(act)));
    }

    /// Whether somebody else has acted.
    pub(crate) fn has_happened(&self) -> bool {
        self.meanwhile.lock().unwrap().is_none()
    }

    /// The requests of the server to the API since the last call, except watches.
    pub(crate) fn calls(&self) -> Vec<(Method, String)> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        ask(&self.hooks, Request::post(path).body(body.to_owned())).await
    }

    pub(crate) async fn post_signed(&self, path: &str, body: &str, signature: &str) -> Answer {
        let request = Request::post(path).header("X-Signature", signature);
        ask(&self.hooks, request.body(body.to_owned())).await
    }
}

pub(crate) async fn ask(router: &Router, request: http::Result<Request<String>>) -> Answer {
    let request = request.unwrap().map(Body::from);
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, 1 << 24).await.unwrap();
    Answer {
        code: parts.status,
        headers: parts.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    }
}

pub(crate) fn unlimited() -> Settings {
    Settings {
        rate_limit: 0,
        // Like the reconcilers beside the server.
        allow_unsigned_reports: true,
        ..Settings::default()
    }
}

/// dev, prod and an environment without targets, as the ancestor's own tests have it.
pub(crate) fn pipeline() -> Value {
    json!({
        "apiVersion": "pipelines.weave.works/v1alpha1",
        "kind": "Pipeline",
        "metadata": {"name": "app", "namespace": "default"},
        "spec": {
            "appRef": {
                "apiVersion": "helm.toolkit.fluxcd.io/v2beta1",
                "kind": "HelmRelease",
                "name": "app",
            },
            "environments": [
                {"name": "dev", "targets": [{"namespace": "app-dev"}]},
                {"name": "prod", "targets": [{"namespace": "app-prod"}]},
                {"name": "no-targets", "targets": []},
            ],
            "promotion": {"strategy": {"pull-request": {
                "type": "github",
                "url": "https://forge.example/shop.git",
                "baseBranch": "main",
                "secretRef": {"name": "forge"},
            }}},
        },
    })
}

/// An event of that release in a namespace, as notification-controller sends it.
pub(crate) fn event(namespace: &str, revision: &str) -> Value {
    json!({
        "involvedObject": {
            "apiVersion": "helm.toolkit.fluxcd.io/v2beta1",
            "kind": "HelmRelease",
            "name": "app",
            "namespace": namespace,
            "uid": format!("uid-of-{namespace}"),
        },
        "severity": "info",
        "timestamp": "2026-02-08T12:34:13Z",
        "message": "Helm upgrade succeeded",
        "reason": "UpgradeSucceeded",
        "metadata": {"revision": revision},
        "reportingController": "helm-controller",
    })
}

pub(crate) fn sign(key: &str, message: &str) -> String {
    format!("sha256={}", hex::<Hmac<Sha256>>(key, message))
}

pub(crate) fn sign_224(key: &str, message: &str) -> String {
    format!("sha224={}", hex::<Hmac<Sha224>>(key, message))
}

fn hex<M: Mac + KeyInit>(key: &str, message: &str) -> String {
    let mut mac = <M as KeyInit>::new_from_slice(key.as_bytes()).unwrap();
    mac.update(message.as_bytes());
    let bytes = mac.finalize().into_bytes();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A call with the signature that covers all of it, made some seconds ago.
pub(crate) fn whole_call(path: &str, body: &str, seconds_ago: i64) -> Request<String> {
    let at = wall_clock::now().as_second() - seconds_ago;
    let signature = sign(KEY, &format!("{at}\nPOST\n{path}\n{body}"));
    Request::post(path)
        .header("X-Signature", signature)
        .header("X-Signature-Timestamp", at.to_string())
        .body(body.to_owned())
        .unwrap()
}

fn counting(
    server: &Server,
    calls: &Arc<Mutex<Vec<(Method, String)>>>,
    meanwhile: &Meanwhile,
) -> Client {
    let (calls, meanwhile) = (calls.clone(), meanwhile.clone());
    let router = server.router(apiserver::User::in_process());
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (uri, method) = (request.uri(), request.method());
        let is_watch = uri.query().is_some_and(|it| it.contains("watch=")) || is_list(uri);
        if !is_watch {
            let call = (method.clone(), uri.path().to_owned());
            calls.lock().unwrap().push(call);
        }
        let is_meant = |(part, _): &mut (String, _)| uri.path().contains(part.as_str());
        let act = match *method == Method::PATCH {
            true => meanwhile.lock().unwrap().take_if(is_meant),
            false => None,
        };
        let router = router.clone();
        async move {
            if let Some((_, act)) = act {
                act.await;
            }
            router.oneshot(request.map(Body::new)).await
        }
    });
    Client::new(service, "default")
}

/// The first list of a watch of all namespaces.
fn is_list(uri: &http::Uri) -> bool {
    let kinds = ["/apis/pipeline", "/apis/gitops"];
    let is_watched = kinds.iter().any(|kind| uri.path().starts_with(kind));
    is_watched && !uri.path().contains("/namespaces/")
}
