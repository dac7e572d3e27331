//! Another writer, or another leader, between reading an object and patching its status.

use std::time::Duration;

use api::{
    Pipeline,
    pipeline::{PipelineStatus, Report},
};
use apiserver::Server;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use tokio::{sync::watch, time::Instant};

use super::*;
use crate::leader::{FencingToken, HeldLease};

/// A hub with one pipeline, as it was read.
async fn hub() -> (Api<Pipeline>, Pipeline) {
    hub_on(&Server::in_memory()).await
}

async fn hub_on(server: &Server) -> (Api<Pipeline>, Pipeline) {
    let client = server.client();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in api::crds() {
        let parameters = PostParams::default();
        definitions.create(&parameters, &definition).await.unwrap();
    }
    let pipelines: Api<Pipeline> = Api::namespaced(client, "default");
    let pipeline = serde_json::from_value(json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app"},
            "environments": [{"name": "dev", "targets": [{"namespace": "dev"}]}],
        },
    }))
    .unwrap();
    let created = pipelines.create(&PostParams::default(), &pipeline).await;
    (pipelines, created.unwrap())
}

fn observed(generation: i64) -> PipelineStatus {
    PipelineStatus {
        observed_generation: Some(generation),
        ..PipelineStatus::default()
    }
}

async fn stored(pipelines: &Api<Pipeline>) -> Option<PipelineStatus> {
    pipelines.get("p").await.unwrap().status
}

#[tokio::test]
async fn what_somebody_else_wrote_meanwhile_is_not_written_over() {
    let (pipelines, read) = hub().await;
    let leader = LeaderGuard::without_election();
    let writer = StatusWriter::new(pipelines.clone().into_client(), leader, "test");
    let theirs = json!({"status": {
        "observedGeneration": 7, "reports": {"dev": {"revision": "1.0.0"}},
    }});
    let (parameters, theirs) = (PatchParams::default(), Patch::Merge(&theirs));
    let patched = pipelines.patch_status("p", &parameters, &theirs).await;
    let theirs = patched.unwrap().status;

    let written = writer
        .patch(&read, read.status.as_ref(), &observed(1))
        .await;
    let Ok(StatusPatch::Conflict(newest)) = written else {
        panic!("it was written over what somebody else wrote");
    };
    assert_eq!(newest.status, theirs);
    assert_eq!(stored(&pipelines).await, theirs);

    // Decided again, on the newest state.
    let mut ours = newest.status.clone().unwrap();
    ours.observed_generation = Some(1);
    let written = writer.patch(&newest, newest.status.as_ref(), &ours).await;
    assert!(matches!(written, Ok(StatusPatch::Patched(_))));
    let stored = stored(&pipelines).await.unwrap();
    let report = stored
        .reports
        .get("dev")
        .map(|report: &Report| report.revision.as_str());
    assert_eq!(
        (stored.observed_generation, report),
        (Some(1), Some("1.0.0"))
    );
}

#[tokio::test]
async fn nothing_is_written_without_leading() {
    let (pipelines, read) = hub().await;
    let (held, lease) = watch::channel(None);
    let leader = LeaderGuard::without_election().and_lease(lease);
    let writer = StatusWriter::new(pipelines.clone().into_client(), leader, "test");
    let leads_for = |time: Duration| {
        let fencing_token = FencingToken {
            lease: "lease".to_owned(),
            transitions: 1,
        };
        let expires_at = Instant::now() + time;
        held.send_replace(Some(HeldLease {
            fencing_token,
            expires_at,
        }));
    };
    let status = observed(1);
    let attempt = || writer.patch(&read, read.status.as_ref(), &status);

    assert!(
        matches!(attempt().await, Err(StatusError::NotLeading)),
        "never led"
    );
    leads_for(Duration::from_millis(1));
    assert!(
        matches!(attempt().await, Err(StatusError::NotLeading)),
        "too little time is left"
    );
    leads_for(Duration::from_secs(3600));
    held.send_replace(None);
    assert!(
        matches!(attempt().await, Err(StatusError::NotLeading)),
        "somebody else leads"
    );
    assert_eq!(stored(&pipelines).await, read.status);
    leads_for(Duration::from_secs(3600));
    assert!(matches!(attempt().await, Ok(StatusPatch::Patched(_))));
}

/// A client that may read everything and patch nothing.
fn read_only(server: &Server) -> Client {
    let router = server.router(apiserver::User::in_process());
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let router = router.clone();
        async move {
            if request.method() != http::Method::PATCH {
                let request = request.map(axum::body::Body::new);
                return tower::ServiceExt::oneshot(router, request).await;
            }
            let status = json!({
                "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 403,
                "reason": "Forbidden", "message": "not allowed",
            });
            let mut response = http::Response::new(axum::body::Body::from(status.to_string()));
            *response.status_mut() = http::StatusCode::FORBIDDEN;
            Ok(response)
        }
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn an_object_that_is_gone_is_no_error_and_a_refusal_is_one() {
    let server = Server::in_memory();
    let (pipelines, read) = hub_on(&server).await;
    let attempt = async |client: Client| {
        let writer = StatusWriter::new(client, LeaderGuard::without_election(), "test");
        let status = observed(1);
        writer.patch(&read, read.status.as_ref(), &status).await
    };
    let refused = attempt(read_only(&server)).await;
    let Err(StatusError::Hub(kube::Error::Api(refused))) = refused else {
        panic!("it must be refused: {refused:?}");
    };
    assert_eq!(refused.code, 403);
    let parameters = kube::api::DeleteParams::default();
    pipelines.delete("p", &parameters).await.unwrap();
    let gone = attempt(server.client()).await;
    assert!(matches!(gone, Ok(StatusPatch::NotFound)), "{gone:?}");
}
