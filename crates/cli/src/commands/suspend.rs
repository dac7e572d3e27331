//! `sluice suspend` and `sluice resume`: set `suspend` in the spec of a pipeline or an environment.

use std::io::Write;

use anyhow::Context;
use api::Pipeline;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    cluster::{Cluster, ClusterFlags, FIELD_MANAGER, key, require_environment},
    cluster_error::cluster_error,
    message::print_message,
    terminal::clean,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pipeline, as NAME or NAMESPACE/NAME
    pipeline: String,
    /// Only this environment
    environment: Option<String>,
    #[command(flatten)]
    connection: ClusterFlags,
}

pub(super) async fn run(
    arguments: &Arguments,
    suspend: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let pipeline = cluster.pipeline(&arguments.pipeline).await?;
    let (_, name) = key(&pipeline);
    let environment = arguments.environment.as_deref();
    if let Some(environment) = environment {
        require_environment(&pipeline, environment)?;
    }
    let what = match environment {
        Some(environment) => format!("{environment} of {name}"),
        None => name.to_owned(),
    };
    let (verb, done, current) = match suspend {
        true => ("suspend", "suspended", "already suspended"),
        false => ("resume", "resumed", "not suspended"),
    };
    let rest = match suspend {
        true => String::new(),
        false => still_suspended(&pipeline, environment),
    };
    if is_suspended(&pipeline, environment) == suspend {
        writeln!(out, "{what} is {current}{rest}")?;
        return Ok(());
    }
    let patch = patch(&pipeline, environment, suspend);
    let written = write(&cluster, &pipeline, patch).await?;
    written.map_err(|error| cluster_error(&format!("{verb} {what}"), error))?;
    writeln!(out, "{done} {what}{rest}")?;
    if let Some(owner) = other_manager(&pipeline) {
        print_message(&format!(
            "{owner} also manages this field and may revert it; change it in the source of {owner} as well"
        ));
    }
    Ok(())
}

async fn write(
    cluster: &Cluster,
    pipeline: &Pipeline,
    patch: Value,
) -> anyhow::Result<kube::Result<Pipeline>> {
    let patch: json_patch::Patch =
        serde_json::from_value(patch).context("cannot create the patch")?;
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let (namespace, name) = key(pipeline);
    let pipelines = cluster.api::<Pipeline>(namespace);
    let patch = Patch::Json::<()>(patch);
    Ok(pipelines.patch(name, &parameters, &patch).await)
}

fn is_suspended(pipeline: &Pipeline, environment: Option<&str>) -> bool {
    match environment {
        None => pipeline.spec.suspend,
        Some(name) => {
            let mut environments = pipeline.spec.environments.iter();
            environments.any(|it| it.name == name && it.suspend)
        }
    }
}

/// What remains suspended after a resume, and the command for it, as the end of a sentence.
fn still_suspended(pipeline: &Pipeline, environment: Option<&str>) -> String {
    let (namespace, name) = key(pipeline);
    if environment.is_some() {
        return match pipeline.spec.suspend {
            true => format!("; the pipeline is suspended: sluice resume {name} -n {namespace}"),
            false => String::new(),
        };
    }
    let environments = pipeline.spec.environments.iter();
    let names = environments
        .filter(|it| it.suspend)
        .map(|it| it.name.as_str());
    let names: Vec<&str> = names.collect();
    let (are, Some(first)) = (if names.len() == 1 { "is" } else { "are" }, names.first()) else {
        return String::new();
    };
    let all = clean(&names.join(", "));
    let first = clean(first);
    format!("; {all} {are} suspended: sluice resume {name} {first} -n {namespace}")
}

/// Environments are addressed by index, so the patch tests the name.
fn patch(pipeline: &Pipeline, environment: Option<&str>, suspend: bool) -> Value {
    let mut environments = pipeline.spec.environments.iter();
    let index = environment.and_then(|name| environments.position(|it| it.name == name));
    let operation = match suspend {
        true => "add",
        false => "remove",
    };
    let Some(index) = index else {
        return json!([{"op": operation, "path": "/spec/suspend", "value": true}]);
    };
    let path = format!("/spec/environments/{index}");
    json!([
        {"op": "test", "path": format!("{path}/name"), "value": environment},
        {"op": operation, "path": format!("{path}/suspend"), "value": true},
    ])
}

/// Another field manager that sets `spec.suspend`.
fn other_manager(pipeline: &Pipeline) -> Option<&str> {
    let entries = pipeline.metadata.managed_fields.iter().flatten();
    let sets_it = |fields: &Value| fields.pointer("/f:spec/f:suspend").is_some();
    let mut others = entries.filter_map(|entry| {
        let manager = entry.manager.as_deref()?;
        let is_other = manager != FIELD_MANAGER;
        (is_other && sets_it(&entry.fields_v1.as_ref()?.0)).then_some(manager)
    });
    others.next()
}
