//! `sluice get`: lists of our kinds.

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
    cluster::{Cluster, Connection},
    table, terminal,
    trouble::trouble,
    words::close_to,
    yaml,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to list
    kind: Kind,
    /// Only these
    names: Vec<String>,
    /// In all namespaces
    #[arg(long, short = 'A', conflicts_with_all = ["names", "namespace"])]
    all_namespaces: bool,
    /// Only those with these labels
    #[arg(long, short = 'l', value_name = "LABELS", conflicts_with = "names")]
    selector: Option<String>,
    /// How to print it
    #[arg(long, short, value_enum, default_value = "table")]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
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
enum Output {
    Table,
    Wide,
    Json,
    Yaml,
    Name,
}

impl Kind {
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
        Output::Json => {
            let all = document(arguments, &objects)?;
            let text = serde_json::to_string_pretty(&all).context("cannot write JSON")?;
            writeln!(out, "{text}")?;
        }
        Output::Yaml => yaml::write(out, &document(arguments, &objects)?)?,
        Output::Name => {
            let kind = resource.kind.to_ascii_lowercase();
            for object in objects {
                writeln!(out, "{kind}.{}/{}", resource.group, object.name_any())?;
            }
        }
        Output::Table | Output::Wide if objects.is_empty() => {
            let place = match arguments.all_namespaces {
                true => "any namespace".to_owned(),
                false => format!("namespace {}", cluster.namespace),
            };
            anstream::eprintln!("no {} in {place}", resource.plural);
        }
        Output::Table | Output::Wide => write_table(arguments, objects, out)?,
    }
    Ok(())
}

/// What was asked for, in the order of the names or by namespace and name.
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
        .map_err(|error| trouble(&format!("list {}", resource.plural), error))?
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

fn missing(resource: &ApiResource, namespace: &str, name: &str, known: &[DynamicObject]) -> String {
    let names: Vec<String> = known.iter().map(|object| object.name_any()).collect();
    let hint = close_to(name, names.iter().map(String::as_str));
    let hint = hint.map(|close| format!(": did you mean {close}?"));
    let plural = &resource.plural;
    format!(
        "namespace {namespace} has no {name} among its {plural}{}",
        hint.unwrap_or_default()
    )
}

/// One object if one was named, else a list of them.
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
    let is_wide = arguments.output == Output::Wide;
    let now = jiff::Timestamp::now();
    let mut sheet = match arguments.kind {
        Kind::Pipelines => rows::pipelines(objects, now)?,
        Kind::Promotions => rows::promotions(objects, now)?,
        Kind::Changes => rows::changes(objects, now)?,
        Kind::Triggers => rows::triggers(objects, now)?,
        Kind::Clusters => rows::clusters(objects, now)?,
    };
    if !is_wide {
        sheet.drop_wide();
    }
    if !arguments.all_namespaces {
        sheet.drop_first();
    }
    let width = terminal::width().filter(|_| !is_wide);
    Ok(table::write(out, &sheet.header, &sheet.rows, width)?)
}
