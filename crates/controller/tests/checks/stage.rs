//! A hub with a pipeline and its check runs, and the check reconciler.

use std::sync::{Arc, Mutex};

use api::{
    CheckRun, Pipeline,
    check_run::{CheckResult, CheckRunSpec, CheckRunStatus},
};
use controller::{CheckReconciler, Settings};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use net::HostPatterns;
use runtime::LeaderGuard;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    fault_injector::{Crash, FaultInjector},
    world::{apply, settings, wait_for},
};

pub(crate) struct Stage {
    pub(crate) hub: Client,
    pub(crate) injector: Arc<FaultInjector>,
    /// The CronJob `e2e`, where the hub has no kind CronJob.
    cron_job: Option<Arc<Mutex<Option<Value>>>>,
    process: tokio::sync::Mutex<JoinSet<()>>,
}

/// Settings that let checks ask loopback.
pub(crate) fn loopback() -> Settings {
    Settings {
        check_hosts: HostPatterns::parse(["127.0.0.1"]).unwrap(),
        ..settings()
    }
}

impl Stage {
    /// A hub with the pipeline `shop`, and nothing that runs.
    pub(crate) async fn idle() -> Self {
        Self {
            cron_job: Some(Arc::default()),
            ..Self::on(testbed::hub::server().client()).await
        }
    }

    /// On a hub that has our kinds.
    pub(crate) async fn on(hub: Client) -> Self {
        testbed::tls::install_provider();
        let pipeline = json!({
            "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": "shop", "namespace": "default"},
            "spec": {"environments": [{"name": "staging", "targets": [{"namespace": "shop"}]}]},
        });
        apply(&hub, &pipeline).await;
        Self {
            hub,
            injector: Arc::new(FaultInjector::default()),
            cron_job: None,
            process: tokio::sync::Mutex::default(),
        }
    }

    /// The same with the reconciler running.
    pub(crate) async fn running() -> Self {
        let stage = Self::idle().await;
        stage.start(loopback()).await;
        stage
    }

    /// Lets the hub have this CronJob.
    pub(crate) fn set_cron_job(&self, cron_job: Value) {
        let stored = self.cron_job.as_ref().unwrap();
        *stored.lock().unwrap() = Some(cron_job);
    }

    /// The hub as the reconciler reaches it: with the CronJob that the embedded API does not serve.
    fn reached(&self) -> Client {
        let hub = self.injector.before_hub(&self.hub);
        let Some(cron_job) = self.cron_job.clone() else {
            return hub;
        };
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (hub, cron_job) = (hub.clone(), cron_job.clone());
            async move {
                if !request.uri().path().contains("/cronjobs/") {
                    return hub.send(request).await;
                }
                let found = cron_job.lock().unwrap().clone();
                let missing = json!({
                    "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 404,
                    "reason": "NotFound", "message": "there is no such CronJob",
                });
                let (code, body) = found.map_or((404, missing), |found| (200, found));
                let response = http::Response::builder().status(code);
                let body = kube::client::Body::from(body.to_string().into_bytes());
                Ok(response.body(body).unwrap())
            }
        });
        Client::new(service, "default")
    }

    pub(crate) async fn start(&self, settings: Settings) {
        let leader = LeaderGuard::without_election();
        let reconciler = CheckReconciler::new(self.reached(), settings, leader);
        let mut process = self.process.lock().await;
        process.spawn(controller::check::run(reconciler));
    }

    /// Ends the reconciler wherever it is.
    pub(crate) async fn kill(&self) {
        self.process.lock().await.shutdown().await;
    }

    /// One process after the other, each of which dies as planned but the last.
    pub(crate) async fn live(&self, crashes: &[Crash]) {
        for crash in crashes {
            self.injector.plan(Some(*crash));
            self.start(loopback()).await;
            self.injector.died().await;
            self.kill().await;
        }
        self.injector.plan(None);
        self.start(loopback()).await;
        std::future::pending().await
    }

    pub(crate) fn runs(&self) -> Api<CheckRun> {
        Api::namespaced(self.hub.clone(), "default")
    }

    /// Lets the pipeline need this check while 1.1.0 soaks in staging.
    async fn soak(&self, check: &Value) {
        let pipelines: Api<Pipeline> = Api::namespaced(self.hub.clone(), "default");
        let pipeline = pipelines.get("shop").await.unwrap();
        let checks = pipeline.spec.checks.iter().map(|it| json!(it));
        let checks: Vec<Value> = checks.chain([check.clone()]).collect();
        let names: Vec<&Value> = checks.iter().map(|it| &it["name"]).collect();
        let spec = json!({
            "appRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"},
            "checks": checks,
            "environments": [
                {"name": "staging", "targets": [{"namespace": "shop"}], "verify": {"checks": names}},
                {"name": "prod", "targets": [{"namespace": "shop-prod"}]},
            ],
            "promotion": {"soak": "1h", "strategy": {"notification": {}}},
        });
        let ready = json!({
            "namespace": "shop", "ready": true, "revision": "1.1.0", "version": "1.1.0",
            "readySince": runtime::Clock::start().now(),
        });
        let status = json!({"environments": {"staging": {"targets": [ready]}}});
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(json!({"spec": spec})));
        pipelines.patch("shop", &parameters, &patch).await.unwrap();
        let patch = Patch::Merge(json!({"status": status}));
        pipelines
            .patch_status("shop", &parameters, &patch)
            .await
            .unwrap();
    }

    /// A check run as the pipeline reconciler creates it; its name.
    pub(crate) async fn check(&self, check: Value) -> String {
        if check.get("interval").is_some() {
            self.soak(&check).await;
        }
        let run = self.check_run(check).await;
        let created = self.runs().create(&PostParams::default(), &run).await;
        created.unwrap().name_any()
    }

    pub(crate) async fn check_run(&self, check: Value) -> CheckRun {
        let pipelines: Api<Pipeline> = Api::namespaced(self.hub.clone(), "default");
        let pipeline = pipelines.get("shop").await.unwrap();
        let spec = CheckRunSpec {
            pipeline: "shop".to_owned(),
            environment: "staging".to_owned(),
            revision: "1.1.0".to_owned(),
            version: "1.1.0".to_owned(),
            check: serde_json::from_value(check).unwrap(),
            ..CheckRunSpec::default()
        };
        let mut run = CheckRun::new(&api::names::check_run_name(&spec), spec);
        run.metadata = ObjectMeta {
            owner_references: Some(vec![pipeline.owner_ref(&()).unwrap()]),
            ..run.metadata
        };
        run
    }

    pub(crate) async fn status(&self, name: &str) -> CheckRunStatus {
        self.runs()
            .get(name)
            .await
            .unwrap()
            .status
            .unwrap_or_default()
    }

    /// Waits until a check run is as drawn: `Verdict/Reason`.
    pub(crate) async fn expect(&self, name: &str, expected: &str) -> CheckRunStatus {
        let mut status = CheckRunStatus::default();
        let is_so = async || {
            status = self.status(name).await;
            drawn(&status) == expected
        };
        if !wait_for(is_so).await {
            panic!(
                "{name} is {} and not {expected}: {status:?}",
                drawn(&status)
            );
        }
        status
    }

    /// Somebody reports the result of an external check.
    pub(crate) async fn report(&self, name: &str, passed: bool, message: &str) {
        let result = CheckResult {
            passed,
            message: Some(message.to_owned()),
            url: Some("https://tickets.example.com/1".to_owned()),
            ..CheckResult::default()
        };
        let patch = Patch::Merge(json!({"spec": {"result": result}}));
        let runs = self.runs();
        runs.patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.runs()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }
}

fn drawn(status: &CheckRunStatus) -> String {
    let verdict = status.verdict.word();
    match &status.reason {
        Some(reason) => format!("{verdict}/{reason}"),
        None => verdict.to_owned(),
    }
}

/// An http check.
pub(crate) fn http(url: &str, expression: &str) -> Value {
    json!({"name": "smoke", "http": {"url": url, "passExpr": expression}})
}

/// A check of a Prometheus.
pub(crate) fn prometheus(address: &str, expression: &str) -> Value {
    let query = r#"errors{env="${environment}"}"#;
    let prometheus = json!({"address": address, "query": query, "passExpr": expression});
    json!({"name": "errors", "prometheus": prometheus})
}

/// The same check with more fields.
pub(crate) fn with(mut check: Value, more: Value) -> Value {
    let more = more.as_object().unwrap().clone();
    check.as_object_mut().unwrap().extend(more);
    check
}
