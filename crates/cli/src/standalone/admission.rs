//! Enforces in the embedded API the rules that the ValidatingAdmissionPolicy enforces in a cluster.

use std::sync::Arc;

use api::{Change, CheckRun, Pipeline, Promotion, WegoPipeline};
use apiserver::{Admission, AdmissionRequest, Operation, Options};
use kube::Resource;
use planner::{
    WritingUser, refuse_change, refuse_check_run, refuse_freeze, refuse_pipeline,
    refuse_pipeline_deletion, refuse_promotion,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The options of the embedded API.
pub(super) fn options() -> Options {
    Options {
        admission: Some(Arc::new(PolicyAdmission)),
        ..Options::default()
    }
}

struct PolicyAdmission;

impl Admission for PolicyAdmission {
    fn applies_to(&self, group: &str, resource: &str, subresource: &str) -> bool {
        let groups = [Pipeline::group(&()), WegoPipeline::group(&())];
        let is_checked = subresource.is_empty() || resource == "checkruns";
        groups.iter().any(|it| it == group) && is_checked
    }

    fn review(&self, request: &AdmissionRequest<'_>) -> Result<(), String> {
        if request.is_in_process() {
            return Ok(());
        }
        let is_deletion = request.operation == Operation::Delete;
        let refused = match request.resource {
            "pipelines" if is_deletion => {
                let old: Pipeline = read(request.old_object)?;
                check_writer(request, request.name, |writer| {
                    refuse_pipeline_deletion(&old, writer)
                })
            }
            "checkruns" => return review_check_run(request),
            "freezes" => check_writer(request, "", |writer| refuse_freeze(request.name, writer)),
            _ if is_deletion => None,
            "promotions" => {
                let new: Promotion = read(request.object)?;
                let old = request.old_object.map(|old| read(Some(old))).transpose()?;
                check_writer(request, &new.spec.pipeline, |writer| {
                    refuse_promotion(old.as_ref(), &new, writer)
                })
            }
            "pipelines" => {
                let new: Pipeline = read(request.object)?;
                let old = request.old_object.map(|old| read(Some(old))).transpose()?;
                check_writer(request, request.name, |writer| {
                    refuse_pipeline(old.as_ref(), &new, writer)
                })
            }
            "changes" if request.old_object.is_none() => {
                let new: Change = read(request.object)?;
                check_writer(request, "", |writer| refuse_change(&new, writer))
            }
            _ => None,
        };
        refused.map_or(Ok(()), Err)
    }
}

fn review_check_run(request: &AdmissionRequest<'_>) -> Result<(), String> {
    if !request.subresource.is_empty() {
        return Err("the status of a check run is written by Sluice".to_owned());
    }
    let new = request.object.map(|new| read(Some(new))).transpose()?;
    let old = request.old_object.map(|old| read(Some(old))).transpose()?;
    let pipeline = new.as_ref().map(|new: &CheckRun| new.spec.pipeline.clone());
    let refused = check_writer(request, &pipeline.unwrap_or_default(), |writer| {
        refuse_check_run(old.as_ref(), new.as_ref(), writer)
    });
    refused.map_or(Ok(()), Err)
}

fn check_writer(
    request: &AdmissionRequest<'_>,
    pipeline: &str,
    refuse: impl FnOnce(&WritingUser<'_>) -> Option<String>,
) -> Option<String> {
    let may = |verb: &str, environment: Option<&str>| {
        // Permissions are on our pipelines, also for a pipeline of the early group.
        let (group, environment) = (Pipeline::group(&()), environment.unwrap_or_default());
        request.may_in(&group, verb, "pipelines", environment, pipeline)
    };
    let user = request.user;
    refuse(&WritingUser {
        name: &user.name,
        groups: &user.groups,
        may: &may,
    })
}

fn read<T: DeserializeOwned>(object: Option<&Value>) -> Result<T, String> {
    let object = object.cloned().unwrap_or_default();
    serde_json::from_value(object).map_err(|error| format!("cannot parse the object: {error}"))
}
