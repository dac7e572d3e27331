//! `sluice get`: lists objects of our kinds.

mod rows;

pub(super) use rows::{people, phase};

use std::io::Write;

use anyhow::{Context, bail};
use clap::ValueEnum;
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams},
};
use serde_json::{Value, json};

use super::{
    cluster::{Cluster, ClusterFlags},
    cluster_error::cluster_error,
    format::closest_name,
    table, terminal, yaml,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Kind to list
    kind: ListedKind,
    /// Only objects with these names
    names: Vec<String>,
    /// List all namespaces
    #[arg(long, short = 'A', conflicts_with_all = ["names", "namespace"])]
    all_namespaces: bool,
    /// Label selector
    #[arg(long, short = 'l', value_name = "LABELS", conflicts_with = "names")]
    selector: Option<String>,
    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: GetOutput,
    #[command(flatten)]
    connection: ClusterFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ListedKind {
    #[value(aliases = ["pipeline"])]
    Pipelines,
    #[value(aliases = ["promotion"])]
    Promotions,
    #[value(aliases = ["change"])]
    Changes,
    #[value(aliases = ["trigger", "pipelinetrigger", "pipelinetriggers"])]
    Triggers,
    #[value(aliases = ["cluster", "gitopscluster", "gitopsclusters"])]
    Clusters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GetOutput {
    Table,
    Wide,
    Json,
    Yaml,
    Name,
}

impl ListedKind {
    fn resource(self) -> ApiResource {
        match self {
            Self::Pipelines => ApiResource::erase::<api::Pipeline>(&()),
            Self::Promotions => ApiResource::erase::<api::Promotion>(&()),
            Self::Changes => ApiResource::erase::<api::Change>(&()),
            Self::Triggers => ApiResource::erase::<api::PipelineTrigger>(&()),
            Self::Clusters => ApiResource::erase::<api::GitopsCluster>(&()),
        }
    }
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let objects = list(arguments, &cluster).await?;
    let resource = arguments.kind.resource();
    match arguments.output {
        GetOutput::Json => {
            let all = document(arguments, &objects)?;
            let text = serde_json::to_string_pretty(&all).context("cannot write JSON")?;
            writeln!(out, "{text}")?;
        }
        GetOutput::Yaml => yaml::write(out, &document(arguments, &objects)?)?,
        GetOutput::Name => {
            let kind = resource.kind.to_ascii_lowercase();
            for object in objects {
                writeln!(out, "{kind}.{}/{}", resource.group, object.name_any())?;
            }
        }
        GetOutput::Table | GetOutput::Wide if objects.is_empty() => {
            let scope = match arguments.all_namespaces {
                true => "any namespace".to_owned(),
                false => format!("namespace {}", cluster.namespace),
            };
            anstream::eprintln!("no {} in {scope}", resource.plural);
        }
        GetOutput::Table | GetOutput::Wide => write_table(arguments, objects, out)?,
    }
    Ok(())
}

/// The requested objects, in the order of the names if there are any.
async fn list(arguments: &Arguments, cluster: &Cluster) -> anyhow::Result<Vec<DynamicObject>> {
    let resource = arguments.kind.resource();
    let client = cluster.client.clone();
    let objects: Api<DynamicObject> = match arguments.all_namespaces {
        true => Api::all_with(client, &resource),
        false => Api::namespaced_with(client, &cluster.namespace, &resource),
    };
    let parameters = ListParams {
        label_selector: arguments.selector.clone(),
        ..ListParams::default()
    };
    let list = objects.list(&parameters).await;
    let mut all = list
        .map_err(|error| cluster_error(&format!("list {}", resource.plural), error))?
        .items;
    for object in &mut all {
        object.types = Some(kube::api::TypeMeta {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
        });
        object.metadata.managed_fields = None;
    }
    if arguments.names.is_empty() {
        return Ok(all);
    }
    let mut named = Vec::new();
    for name in &arguments.names {
        let found = all.iter().find(|object| object.name_any() == *name);
        let Some(object) = found else {
            bail!("{}", missing(&resource, &cluster.namespace, name, &all));
        };
        named.push(object.clone());
    }
    Ok(named)
}

fn missing(
    resource: &ApiResource,
    namespace: &str,
    name: &str,
    existing: &[DynamicObject],
) -> String {
    let names: Vec<String> = existing.iter().map(|object| object.name_any()).collect();
    let hint = closest_name(name, names.iter().map(String::as_str));
    let hint = hint.map(|close| format!(": did you mean {close}?"));
    let plural = &resource.plural;
    format!(
        "there is no {name} among the {plural} of namespace {namespace}{}",
        hint.unwrap_or_default()
    )
}

/// A single object if one name was given, otherwise a List.
fn document(arguments: &Arguments, objects: &[DynamicObject]) -> anyhow::Result<Value> {
    if let ([object], [_]) = (objects, arguments.names.as_slice()) {
        return serde_json::to_value(object).context("cannot write the object");
    }
    Ok(json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": objects}))
}

fn write_table(
    arguments: &Arguments,
    objects: Vec<DynamicObject>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let is_wide = arguments.output == GetOutput::Wide;
    let now = jiff::Timestamp::now();
    let mut table = match arguments.kind {
        ListedKind::Pipelines => rows::pipelines(objects, now)?,
        ListedKind::Promotions => rows::promotions(objects, now)?,
        ListedKind::Changes => rows::changes(objects, now)?,
        ListedKind::Triggers => rows::triggers(objects, now)?,
        ListedKind::Clusters => rows::clusters(objects, now)?,
    };
    if !is_wide {
        table.drop_wide();
    }
    if !arguments.all_namespaces {
        table.drop_first();
    }
    let width = terminal::width().filter(|_| !is_wide);
    Ok(table::write(out, &table.header, &table.rows, width)?)
}
