//! `sluice triggers`: lists the triggers of a pipeline that the caller may read.

use std::io::Write;

use api::PipelineTrigger;
use kube::{
    Api, Client,
    api::ListParams,
    core::{ApiResource, DynamicObject},
    discovery,
};
use serde_json::{Value, json};
use trigger::plan::{ListedTrigger, TriggerObjects, triggers_of};

use crate::{
    args::triggers::{Arguments, TriggersOutput},
    commands::{self, Cluster, TableCell, TableWriter, cluster_error, terminal_width},
};

/// Runs `sluice triggers`.
pub(crate) async fn print(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    write(&cluster, arguments, out).await
}

async fn write(
    cluster: &Cluster,
    arguments: &Arguments,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let pipeline = cluster.pipeline(&arguments.pipeline).await?;
    let namespace = pipeline.metadata.namespace.as_deref().unwrap_or_default();
    let (around, omitted) = read_related_objects(&cluster.client, namespace).await?;
    let mut listed = triggers_of(&pipeline, &around);
    for hook in listed.iter_mut().filter(|listed| listed.kind == "Hook") {
        let base = arguments.hook_url.trim_end_matches('/');
        hook.name = format!("{base}{}", hook.name);
    }
    match arguments.output {
        TriggersOutput::Table => write_table(&listed, out)?,
        TriggersOutput::Json => writeln!(out, "{:#}", json!(listed))?,
        TriggersOutput::Yaml => commands::write_yaml(out, &json!(listed))?,
    }
    for note in omitted {
        commands::print_message(&format!("sluice: {note}"));
    }
    Ok(())
}

/// PipelineTriggers in the pipeline's namespace, and Flux's image automation objects in all namespaces
/// that the caller may list.
async fn read_related_objects(
    client: &Client,
    namespace: &str,
) -> anyhow::Result<(TriggerObjects, Vec<String>)> {
    let triggers: Api<PipelineTrigger> = Api::namespaced(client.clone(), namespace);
    let triggers = triggers.list(&ListParams::default()).await;
    let triggers = triggers.map_err(|error| {
        let attempted = format!("list the PipelineTriggers in namespace {namespace}");
        cluster_error(&attempted, error)
    })?;
    let mut omitted = Vec::new();
    let mut around = TriggerObjects {
        triggers: triggers.items,
        ..TriggerObjects::default()
    };
    for (kind, found) in [
        ("ImagePolicy", &mut around.image_policies),
        ("ImageUpdateAutomation", &mut around.image_automations),
    ] {
        match list_images(client, namespace, kind).await {
            Ok(objects) => *found = objects,
            Err(error) => {
                let error = cluster_error(&format!("list {kind} objects"), error);
                omitted.push(commands::error_text(&error));
            }
        }
    }
    Ok((around, omitted))
}

/// Objects of one of Flux's image kinds in all namespaces, or only in the pipeline's namespace if the
/// caller may not list all. Empty if Flux's image automation is not installed.
async fn list_images(
    client: &Client,
    namespace: &str,
    kind: &str,
) -> Result<Vec<Value>, kube::Error> {
    let Some(resource) = find_resource(client, kind).await? else {
        return Ok(Vec::new());
    };
    let everywhere: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let here: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let list = match everywhere.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.is_forbidden() => {
            here.list(&ListParams::default()).await?
        }
        outcome => outcome?,
    };
    Ok(list.items.iter().map(|object| json!(object)).collect())
}

async fn find_resource(client: &Client, kind: &str) -> Result<Option<ApiResource>, kube::Error> {
    let groups = client.list_api_groups().await?.groups;
    let group = api::flux::IMAGE_GROUP;
    if !groups.iter().any(|served| served.name == group) {
        return Ok(None);
    }
    let group = discovery::group(client, group).await?;
    Ok(group.recommended_kind(kind).map(|(resource, _)| resource))
}

fn write_table(listed: &[ListedTrigger], out: &mut dyn Write) -> anyhow::Result<()> {
    if listed.is_empty() {
        writeln!(out, "This pipeline has no triggers.")?;
        return Ok(());
    }
    let rows = listed.iter().map(|listed| {
        let namespace = listed.namespace.as_ref();
        let name = namespace.map_or(listed.name.clone(), |namespace| {
            format!("{namespace}/{}", listed.name)
        });
        [&listed.kind, &name, &listed.effect]
            .map(TableCell::from)
            .to_vec()
    });
    let mut table = TableWriter::new(terminal_width(), true);
    let header = ["KIND", "NAME", "WHAT IT DOES"];
    Ok(table.write_below(out, (&header, rows.collect()), header.len() - 1)?)
}

#[cfg(test)]
mod tests;
