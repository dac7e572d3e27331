//! Measures by a Job: made from the template of a CronJob that allows it, and passed when it completes.
//!
//! The Job has the name of the check run and the check run as its owner: a second attempt after a crash finds
//! the first, and a Job of that name with another owner is never taken for ours. Kubernetes stops it after the
//! check's timeout and deletes it with the check run. Templates are copied as they are, with fields of newer
//! versions of Kubernetes.

use std::time::Duration;

use api::{CheckRun, names::CHECK_ANNOTATION, pipeline::JobCheck};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta, PostParams, TypeMeta},
};
use planner::Measurement;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{CheckReconciler, uid, unknown};

/// How long one request to the hub may take.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// Looks at the Job, and creates it if there is none; also returns its name.
pub(super) async fn measure(
    reconciler: &CheckReconciler,
    run: &CheckRun,
    check: &JobCheck,
) -> (Measurement, Option<String>) {
    let name = run.name_any();
    match find_or_create(reconciler, run, check).await {
        Ok(job) => (result_of(&job), Some(name)),
        Err(measurement) => (measurement, None),
    }
}

async fn find_or_create(
    reconciler: &CheckReconciler,
    run: &CheckRun,
    check: &JobCheck,
) -> Result<DynamicObject, Measurement> {
    let jobs = batch_api(reconciler, run, &job_resource());
    let name = run.name_any();
    if let Some(job) = bounded(jobs.get_opt(&name), "get Jobs").await? {
        return owned(run, job);
    }
    let was_created = run.status.as_ref().is_some_and(|it| it.job.is_some());
    if was_created {
        let message = format!("the Job {name} was deleted before its result was read");
        return Err(Measurement::Failed {
            reason: "JobGone".to_owned(),
            message,
            observed: None,
        });
    }
    let job = from_template(reconciler, run, check).await?;
    if !reconciler.telemetry.leader.may_write() {
        let text = "this replica may not be the leader any more";
        return Err(unknown("NotLeading", text, false));
    }
    let parameters = PostParams::default();
    match timeout(REQUEST_TIME, jobs.create(&parameters, &job)).await {
        // It was created meanwhile, by us before a crash or by somebody else.
        Ok(Err(kube::Error::Api(refusal))) if refusal.code == 409 => {
            match bounded(jobs.get_opt(&name), "get Jobs").await? {
                Some(job) => owned(run, job),
                None => Err(unknown("HubUnavailable", "the Job is being deleted", false)),
            }
        }
        Ok(created) => created.map_err(|error| refused(&error, "create Jobs")),
        Err(_) => Err(unknown(
            "HubUnavailable",
            "the API server did not answer",
            false,
        )),
    }
}

fn job_resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("batch", "v1", "Job"))
}

/// Objects of a kind in the namespace of the check run.
fn batch_api(
    reconciler: &CheckReconciler,
    run: &CheckRun,
    resource: &ApiResource,
) -> Api<DynamicObject> {
    let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
    Api::namespaced_with(reconciler.hub.clone(), namespace, resource)
}

/// A Job, if the check run is its owner.
fn owned(run: &CheckRun, job: DynamicObject) -> Result<DynamicObject, Measurement> {
    let is_ours = |uid_of_owner: &str| uid_of_owner == uid(run);
    if job.owner_references().iter().any(|it| is_ours(&it.uid)) {
        return Ok(job);
    }
    let name = job.name_any();
    let text = format!("a Job {name} exists that this check did not create; delete it");
    Err(unknown("JobNotOurs", text, true))
}

/// The Job as the CronJob's template describes it.
async fn from_template(
    reconciler: &CheckReconciler,
    run: &CheckRun,
    check: &JobCheck,
) -> Result<DynamicObject, Measurement> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("batch", "v1", "CronJob"));
    let cron_jobs = batch_api(reconciler, run, &resource);
    let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
    let name = check.cron_job_ref.name.as_str();
    let missing = || {
        let text = format!("there is no CronJob {name} in {namespace}; create it, suspended");
        unknown("CronJobMissing", text, true)
    };
    if name.is_empty() {
        return Err(missing());
    }
    let cron_job = bounded(cron_jobs.get_opt(name), "get CronJobs").await?;
    let cron_job = cron_job.ok_or_else(missing)?;
    let allows = cron_job.annotations().get(CHECK_ANNOTATION);
    let is_suspended = cron_job.data["spec"]["suspend"] == json!(true);
    if allows.map(String::as_str) != Some("true") || !is_suspended {
        let text = format!(
            "the CronJob {name} is not for checks: suspend it and set its annotation \
             {CHECK_ANNOTATION} to \"true\""
        );
        return Err(unknown("CronJobNotAllowed", text, true));
    }
    Ok(job_of(run, &cron_job.data["spec"]["jobTemplate"]))
}

fn job_of(run: &CheckRun, template: &Value) -> DynamicObject {
    let described = |field: &str| {
        let texts = template["metadata"][field].clone();
        serde_json::from_value(texts).unwrap_or_default()
    };
    let mut spec = template["spec"].clone();
    for list in ["initContainers", "containers"] {
        let containers = spec.pointer_mut(&format!("/template/spec/{list}"));
        for container in containers
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            set_variables(container, run);
        }
    }
    let seconds = planner::timeout_of(&run.spec.check).as_secs().max(1);
    let deadline = spec["activeDeadlineSeconds"].as_u64().unwrap_or(seconds);
    spec["activeDeadlineSeconds"] = json!(deadline.min(seconds));
    DynamicObject {
        types: Some(TypeMeta {
            api_version: "batch/v1".to_owned(),
            kind: "Job".to_owned(),
        }),
        metadata: ObjectMeta {
            name: Some(run.name_any()),
            namespace: run.metadata.namespace.clone(),
            labels: described("labels"),
            annotations: described("annotations"),
            owner_references: Some(owner(run).into_iter().collect()),
            ..ObjectMeta::default()
        },
        data: json!({ "spec": spec }),
    }
}

/// The check run as the owner, without blocking its deletion: that would need one more right.
fn owner(run: &CheckRun) -> Option<OwnerReference> {
    let owner = run.controller_owner_ref(&())?;
    Some(OwnerReference {
        block_owner_deletion: None,
        ..owner
    })
}

/// Tells a container what it checks.
fn set_variables(container: &mut Value, run: &CheckRun) {
    let spec = &run.spec;
    let variables = [
        ("SLUICE_PIPELINE", &spec.pipeline),
        ("SLUICE_ENVIRONMENT", &spec.environment),
        ("SLUICE_REVISION", &spec.revision),
        ("SLUICE_VERSION", &spec.version),
    ];
    let mut present = container["env"].as_array().cloned().unwrap_or_default();
    present.retain(|it| variables.iter().all(|(name, _)| it["name"] != **name));
    // A dollar sign would refer to another variable.
    let variable =
        |(name, value): (&str, &String)| json!({"name": name, "value": value.replace('$', "$$")});
    present.extend(variables.map(variable));
    container["env"] = Value::Array(present);
}

fn result_of(job: &DynamicObject) -> Measurement {
    let conditions = job.data["status"]["conditions"].as_array();
    let is_true = |kind: &str| {
        let mut conditions = conditions.into_iter().flatten();
        conditions.find(|it| it["type"] == kind && it["status"] == "True")
    };
    if is_true("Complete").is_some() {
        return Measurement::Passed { observed: None };
    }
    let Some(failed) = is_true("Failed") else {
        return Measurement::Pending;
    };
    let reason = failed["reason"].as_str().unwrap_or("no reason given");
    Measurement::Failed {
        reason: "JobFailed".to_owned(),
        message: format!(
            "the Job {} failed ({reason}); read its pods' logs",
            job.name_any()
        ),
        observed: None,
    }
}

/// Waits for an answer of the hub.
async fn bounded<T>(
    request: impl Future<Output = kube::Result<T>>,
    right: &str,
) -> Result<T, Measurement> {
    match timeout(REQUEST_TIME, request).await {
        Ok(answer) => answer.map_err(|error| refused(&error, right)),
        Err(_) => Err(unknown(
            "HubUnavailable",
            "the API server did not answer",
            false,
        )),
    }
}

fn refused(error: &kube::Error, right: &str) -> Measurement {
    match error {
        kube::Error::Api(refusal) if refusal.code == 403 => {
            let text = format!(
                "Sluice may not {right} here: allow it (checks.jobs of the chart): {}",
                refusal.message
            );
            unknown("JobsForbidden", text, true)
        }
        kube::Error::Api(refusal) if (400..500).contains(&refusal.code) => {
            let text = format!("the API server refuses the Job: {}", refusal.message);
            unknown("JobRefused", text, true)
        }
        error => unknown("HubUnavailable", error.to_string(), false),
    }
}
