//! The status of a pipeline for programs: the states and texts of the diagram as JSON or YAML.

use api::{
    Pipeline, conditions,
    pipeline::{EnvironmentStatus, PipelineStatus},
};
use serde_json::{Value, json};

use super::super::{cluster::key, format::target_names};

/// With `only`, of that environment alone.
pub(super) fn document(pipeline: &Pipeline, only: Option<&str>) -> Value {
    let (namespace, name) = key(pipeline);
    let model = pipeline.status.clone().unwrap_or_default();
    let summary = planner::pipeline_summary(pipeline, &model);
    let ready = conditions::find(&model.conditions, conditions::READY);
    let names = pipeline.spec.environments.iter().map(|it| it.name.as_str());
    let names = names.filter(|name| only.is_none_or(|only| only == *name));
    let environments = names.map(|name| environment(pipeline, &model, name));
    json!({
        "namespace": namespace,
        "name": name,
        "state": summary.state.id(),
        "environment": summary.environment,
        "suspend": pipeline.spec.suspend,
        "ready": ready,
        "environments": environments.collect::<Vec<_>>(),
    })
}

fn environment(pipeline: &Pipeline, model: &PipelineStatus, name: &str) -> Value {
    let status = model.environments.get(name);
    let sources = planner::sources(&pipeline.spec, name);
    let sources: Vec<_> = sources.iter().map(|it| &it.name).collect();
    json!({
        "name": name,
        "after": sources,
        "state": planner::environment_state(pipeline, model, name).id(),
        "runs": planner::running_revisions(status),
        "message": planner::environment_message(status),
        "hold": status.and_then(|it| it.hold.as_ref()),
        "preflight": model.preflight.get(name),
        "promotion": status.and_then(|it| it.promotion.as_ref()),
        "rollout": status.and_then(|it| it.rollout.as_ref()),
        "targets": status.map(targets).unwrap_or_default(),
    })
}

fn targets(status: &EnvironmentStatus) -> Vec<Value> {
    let named = status.targets.iter().zip(target_names(&status.targets));
    let targets = named.map(|(target, name)| {
        json!({
            "name": name,
            "state": planner::target_state(target).id(),
            "revision": target.revision,
            "version": target.version,
            "error": target.error.clone().or_else(|| planner::failed_release(target)),
        })
    });
    targets.collect()
}
