//! Checks by Job. The embedded API has no job controller: the test sets what it would.

use k8s_openapi::api::batch::v1::Job;
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use crate::{
    stage::Stage,
    world::{apply, set_status, wait_for},
};

/// A CronJob for checks.
pub(crate) fn cron_job(annotation: &str, suspend: bool) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {"name": "e2e", "namespace": "default",
            "annotations": {"pipelines.weave.works/check": annotation}},
        "spec": {"schedule": "0 0 31 2 *", "suspend": suspend, "jobTemplate": {
            "metadata": {"labels": {"app": "e2e"}},
            "spec": {"backoffLimit": 0, "template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "e2e", "image": "e2e", "env": [
                    {"name": "SLUICE_REVISION", "value": "forged"}, {"name": "MODE", "value": "fast"},
                ]}],
            }}},
        }},
    })
}

pub(crate) fn e2e() -> Value {
    json!({"name": "e2e", "job": {"cronJobRef": {"name": "e2e"}}, "timeout": "10m"})
}

pub(crate) fn jobs(stage: &Stage) -> Api<Job> {
    Api::namespaced(stage.hub.clone(), "default")
}

pub(crate) async fn expect_job(stage: &Stage, name: &str) -> Job {
    let mut found = None;
    let is_there = async || {
        found = jobs(stage).get_opt(name).await.unwrap();
        found.is_some()
    };
    assert!(wait_for(is_there).await, "there is no Job {name}");
    found.unwrap()
}

async fn finish(stage: &Stage, name: &str, condition: &str) {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}});
    let status = json!({"conditions": [{"type": condition, "status": "True", "reason": "BackoffLimitExceeded"}]});
    set_status(&stage.hub, &job, &status).await;
}

#[tokio::test]
async fn a_job_is_made_from_the_template_and_its_end_is_the_verdict() {
    let stage = Stage::idle().await;
    stage.set_cron_job(cron_job("true", true));
    stage.start(crate::stage::loopback()).await;
    for (condition, verdict, number) in
        [("Complete", "Passed", 1), ("Failed", "Failed/JobFailed", 2)]
    {
        let check = crate::stage::with(e2e(), json!({"name": format!("e2e-{number}")}));
        let name = stage.check(check).await;
        let job = expect_job(&stage, &name).await;
        let run = stage.runs().get(&name).await.unwrap();
        let owner = &job.metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!(Some(&owner.uid), run.metadata.uid.as_ref());
        assert_eq!(owner.block_owner_deletion, None);
        let spec = job.spec.unwrap();
        assert_eq!(spec.active_deadline_seconds, Some(600));
        let container = &spec.template.spec.unwrap().containers[0];
        let variables = container.env.as_ref().unwrap().iter();
        let variables: Vec<_> = variables
            .map(|it| format!("{}={}", it.name, it.value.as_deref().unwrap_or_default()))
            .collect();
        let expected = "MODE=fast SLUICE_PIPELINE=shop SLUICE_ENVIRONMENT=staging SLUICE_REVISION=1.1.0 SLUICE_VERSION=1.1.0";
        assert_eq!(variables.join(" "), expected);
        finish(&stage, &name, condition).await;
        let status = stage.expect(&name, verdict).await;
        assert_eq!(status.job.as_deref(), Some(name.as_str()));
    }
}

#[tokio::test]
async fn a_job_of_somebody_else_is_never_taken_for_ours() {
    let stage = Stage::idle().await;
    stage.set_cron_job(cron_job("true", true));
    let run = stage.check_run(e2e()).await;
    let name = run.metadata.name.clone().unwrap();
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}},
    });
    apply(&stage.hub, &job).await;
    finish(&stage, &name, "Complete").await;
    stage.start(crate::stage::loopback()).await;
    stage.check(e2e()).await;
    let status = stage.expect(&name, "Error/JobNotOurs").await;
    assert!(
        status
            .message
            .unwrap()
            .contains("this check did not create")
    );
}

#[tokio::test]
async fn a_cron_job_that_does_not_allow_checks_is_not_run() {
    for (annotation, suspend) in [("false", true), ("true", false), ("", true)] {
        let stage = Stage::idle().await;
        stage.set_cron_job(cron_job(annotation, suspend));
        stage.start(crate::stage::loopback()).await;
        let name = stage.check(e2e()).await;
        stage.expect(&name, "Error/CronJobNotAllowed").await;
        let all = jobs(&stage).list(&ListParams::default()).await.unwrap();
        assert_eq!(all.items.len(), 0);
    }
    let stage = Stage::idle().await;
    stage.start(crate::stage::loopback()).await;
    let name = stage.check(e2e()).await;
    stage.expect(&name, "Error/CronJobMissing").await;
}
