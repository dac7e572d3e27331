//! Checks by Job on a real API server with Kubernetes' job controller. There is no kubelet: the test sets the
//! status of Pods.

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::ListParams};
use serde_json::json;
use testbed::real::{Assets, ControlPlane};

use crate::{
    jobs::{cron_job, e2e, expect_job, jobs},
    stage::{Stage, loopback, with},
    world::{apply, define_ours, set_status, wait_for},
};

/// Ends the Pod of a Job.
async fn end_pod(stage: &Stage, job: &str, phase: &str) {
    let pods: Api<Pod> = Api::namespaced(stage.hub.clone(), "default");
    let selector = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={job}"));
    let mut name = None;
    let has_pod = async || {
        let found = pods.list(&selector).await.unwrap();
        name = found
            .items
            .into_iter()
            .next()
            .and_then(|it| it.metadata.name);
        name.is_some()
    };
    assert!(
        wait_for(has_pod).await,
        "the job controller created no Pod for {job}"
    );
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}});
    let exit = if phase == "Succeeded" { 0 } else { 1 };
    let ended = json!({"exitCode": exit, "finishedAt": "2026-01-01T00:00:00Z", "startedAt": "2026-01-01T00:00:00Z"});
    let status = json!({"phase": phase, "containerStatuses": [{
        "name": "e2e", "image": "e2e", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": ended},
    }]});
    set_status(&stage.hub, &pod, &status).await;
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn real_jobs_pass_and_fail_with_their_pods_and_end_with_their_check_run() {
    let assets = Assets::from_env().unwrap();
    let plane = ControlPlane::start_with(&assets, &["job-controller"])
        .await
        .unwrap();
    define_ours(&plane.client()).await;
    let stage = Stage::on(plane.client()).await;
    apply(&stage.hub, &cron_job("true", true)).await;
    stage.start(loopback()).await;
    for (phase, verdict) in [("Succeeded", "Passed"), ("Failed", "Failed/JobFailed")] {
        let name = stage
            .check(with(e2e(), json!({"name": phase.to_lowercase()})))
            .await;
        expect_job(&stage, &name).await;
        end_pod(&stage, &name, phase).await;
        stage.expect(&name, verdict).await;
        stage.delete(&name).await;
        let is_gone = async || jobs(&stage).get_opt(&name).await.unwrap().is_none();
        assert!(wait_for(is_gone).await, "the Job outlives its check run");
    }
}
