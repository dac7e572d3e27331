//! Measures by a Job: made from the template of a CronJob that allows it, and passed when it completes.
//!
//! The Job has the name of the check run and the check run as its owner: a second attempt after a crash finds
//! the first, and a Job of that name with another owner is never taken for ours. Kubernetes stops it after the
//! check's timeout and deletes it with the check run.

use std::time::Duration;

use api::{CheckRun, names::CHECK_ANNOTATION, pipeline::JobCheck};
use k8s_openapi::api::{
    batch::v1::{CronJob, Job, JobTemplateSpec},
    core::v1::{Container, EnvVar},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Resource, ResourceExt,
    api::{ObjectMeta, PostParams},
};
use planner::Measurement;
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
) -> Result<Job, Measurement> {
    let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
    let jobs: Api<Job> = Api::namespaced(reconciler.hub.clone(), namespace);
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

/// A Job, if the check run is its owner.
fn owned(run: &CheckRun, job: Job) -> Result<Job, Measurement> {
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
) -> Result<Job, Measurement> {
    let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
    let cron_jobs: Api<CronJob> = Api::namespaced(reconciler.hub.clone(), namespace);
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
    let spec = cron_job.spec.clone().unwrap_or_default();
    if allows.map(String::as_str) != Some("true") || spec.suspend != Some(true) {
        let text = format!(
            "the CronJob {name} is not for checks: suspend it and set its annotation \
             {CHECK_ANNOTATION} to \"true\""
        );
        return Err(unknown("CronJobNotAllowed", text, true));
    }
    Ok(job_of(run, spec.job_template))
}

fn job_of(run: &CheckRun, template: JobTemplateSpec) -> Job {
    let described = template.metadata.unwrap_or_default();
    let mut spec = template.spec.unwrap_or_default();
    let pod = spec.template.spec.get_or_insert_default();
    let first = pod.init_containers.iter_mut().flatten();
    for container in first.chain(&mut pod.containers) {
        set_variables(container, run);
    }
    let seconds = planner::timeout_of(&run.spec.check).as_secs().max(1);
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let deadline = spec.active_deadline_seconds.unwrap_or(seconds);
    spec.active_deadline_seconds = Some(deadline.min(seconds));
    Job {
        metadata: ObjectMeta {
            name: Some(run.name_any()),
            namespace: run.metadata.namespace.clone(),
            labels: described.labels,
            annotations: described.annotations,
            owner_references: Some(owner(run).into_iter().collect()),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
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
fn set_variables(container: &mut Container, run: &CheckRun) {
    let spec = &run.spec;
    let variables = [
        ("SLUICE_PIPELINE", &spec.pipeline),
        ("SLUICE_ENVIRONMENT", &spec.environment),
        ("SLUICE_REVISION", &spec.revision),
        ("SLUICE_VERSION", &spec.version),
    ];
    let present = container.env.get_or_insert_default();
    present.retain(|it| variables.iter().all(|(name, _)| it.name != *name));
    present.extend(variables.map(|(name, value)| EnvVar {
        name: name.to_owned(),
        // A dollar sign would refer to another variable.
        value: Some(value.replace('$', "$$")),
        value_from: None,
    }));
}

fn result_of(job: &Job) -> Measurement {
    let status = job.status.as_ref();
    let conditions = status
        .and_then(|it| it.conditions.as_deref())
        .unwrap_or_default();
    let is_true = |kind: &str| {
        let found = conditions.iter().find(|it| it.type_ == kind);
        found.filter(|it| it.status == "True")
    };
    if is_true("Complete").is_some() {
        return Measurement::Passed { observed: None };
    }
    let Some(failed) = is_true("Failed") else {
        return Measurement::Pending;
    };
    let reason = failed.reason.as_deref().unwrap_or("no reason given");
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
