//! `sluice get`: lists objects of our kinds, once or as they change.

mod follow;
mod kinds;
mod rows;

pub(super) use kinds::{kind_names, resource_named};
pub(super) use rows::{people, phase};

use std::{collections::BTreeMap, io::Write};

use anyhow::{Context, ensure};
use clap::ValueEnum;
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams},
};
use serde_json::{Value, json};

use super::{
    UsageError,
    cluster::{Cluster, ClusterFlags},
    cluster_error::cluster_error,
    format::closest_name,
    message::print_message,
    table::{TableCell, TableWriter},
    terminal, yaml,
};
use kinds::{ListedKind, Selection};
use rows::ResourceTable;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// KIND [NAME…], or KIND/NAME…: pipelines, promotions, changes, freezes, checks, triggers, clusters, all;
    /// several kinds are separated by commas
    #[arg(value_name = "KIND")]
    objects: Vec<String>,
    /// List all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Label selector
    #[arg(long, short = 'l', value_name = "LABELS")]
    selector: Option<String>,
    /// Print objects again when they change, until interrupted
    #[arg(long, short)]
    watch: bool,
    /// Print no header
    #[arg(long)]
    no_headers: bool,
    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    output: GetOutput,
    #[command(flatten)]
    connection: ClusterFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GetOutput {
    Table,
    Wide,
    Json,
    Yaml,
    Name,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let selections = kinds::parse(&arguments.objects)?;
    let has_names = selections.iter().any(|it| !it.names.is_empty());
    if has_names && (arguments.all_namespaces || arguments.selector.is_some()) {
        let text = "names cannot be combined with --all-namespaces or --selector";
        return Err(UsageError(text.to_owned()).into());
    }
    let cluster = arguments.connection.connect().await?;
    if arguments.watch {
        let [selection] = selections.as_slice() else {
            return Err(UsageError("--watch needs exactly one kind".to_owned()).into());
        };
        return follow::follow(arguments, selection, &cluster, out).await;
    }
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for selection in &selections {
        let (objects, unknown) = list(arguments, selection, &cluster).await?;
        found.push((selection.kind, objects));
        missing.extend(unknown);
    }
    let is_table = matches!(arguments.output, GetOutput::Table | GetOutput::Wide);
    let is_empty = found.iter().all(|(_, objects)| objects.is_empty());
    match (is_empty, missing.is_empty()) {
        (true, true) if is_table => report_nothing(arguments, &selections, &cluster),
        (true, false) => {}
        _ => write_found(arguments, &selections, found, out)?,
    }
    ensure!(missing.is_empty(), "{}", missing.join("; "));
    Ok(())
}

fn write_found(
    arguments: &Arguments,
    selections: &[Selection],
    found: Vec<(ListedKind, Vec<DynamicObject>)>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    match arguments.output {
        GetOutput::Json => write_json(&document(selections, found)?, out),
        GetOutput::Yaml => yaml::write(out, &document(selections, found)?),
        _ => write_all(arguments, found, out),
    }
}

fn report_nothing(arguments: &Arguments, selections: &[Selection], cluster: &Cluster) {
    let scope = match arguments.all_namespaces {
        true => "any namespace".to_owned(),
        false => format!("namespace {}", cluster.namespace),
    };
    let kinds = selections.iter().map(|it| it.kind.resource().plural);
    let kinds: Vec<_> = kinds.collect();
    print_message(&format!("no {} in {scope}", kinds.join(", ")));
}

/// Writes tables or names, of several kinds below each other.
fn write_all(
    arguments: &Arguments,
    found: Vec<(ListedKind, Vec<DynamicObject>)>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let has_gaps = arguments.output != GetOutput::Name;
    let found = found.into_iter().filter(|(_, objects)| !objects.is_empty());
    for (index, (kind, objects)) in found.enumerate() {
        if index > 0 && has_gaps {
            writeln!(out)?;
        }
        ObjectPrinter::new(arguments).print(kind, objects, out)?;
    }
    Ok(())
}

/// The requested objects, in the order of the names if there are any, and what is said about missing ones.
async fn list(
    arguments: &Arguments,
    selection: &Selection,
    cluster: &Cluster,
) -> anyhow::Result<(Vec<DynamicObject>, Vec<String>)> {
    let resource = selection.kind.resource();
    let objects = api_of(cluster, &resource, arguments.all_namespaces);
    let parameters = ListParams {
        label_selector: arguments.selector.clone(),
        ..ListParams::default()
    };
    let list = objects.list(&parameters).await;
    let all = list
        .map_err(|error| cluster_error(&format!("list {}", resource.plural), error))?
        .items;
    let all: Vec<_> = all.into_iter().map(|it| tidy(it, &resource)).collect();
    Ok(select(selection, &cluster.namespace, &all))
}

/// Those that are named, without names all, and what is said about missing ones.
fn select(
    selection: &Selection,
    namespace: &str,
    all: &[DynamicObject],
) -> (Vec<DynamicObject>, Vec<String>) {
    if selection.names.is_empty() {
        return (all.to_vec(), Vec::new());
    }
    let resource = selection.kind.resource();
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    for name in &selection.names {
        match all.iter().find(|object| object.name_any() == *name) {
            Some(object) => found.push(object.clone()),
            None => unknown.push(missing(&resource, namespace, name, all)),
        }
    }
    (found, unknown)
}

fn api_of(cluster: &Cluster, resource: &ApiResource, is_everywhere: bool) -> Api<DynamicObject> {
    let client = cluster.client.clone();
    match is_everywhere {
        true => Api::all_with(client, resource),
        false => Api::namespaced_with(client, &cluster.namespace, resource),
    }
}

/// The object with its kind and without managed fields.
fn tidy(mut object: DynamicObject, resource: &ApiResource) -> DynamicObject {
    object.types = Some(kube::api::TypeMeta {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
    });
    object.metadata.managed_fields = None;
    object
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
fn document(
    selections: &[Selection],
    found: Vec<(ListedKind, Vec<DynamicObject>)>,
) -> anyhow::Result<Value> {
    let objects: Vec<_> = found.into_iter().flat_map(|(_, objects)| objects).collect();
    let is_single = selections.len() == 1 && selections[0].names.len() == 1;
    match objects.as_slice() {
        [object] if is_single => serde_json::to_value(object).context("cannot write the object"),
        all => Ok(json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": all})),
    }
}

/// Writes a value as indented JSON.
pub(super) fn write_json(value: &Value, out: &mut dyn Write) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value).context("cannot write JSON")?;
    Ok(writeln!(out, "{text}")?)
}

/// Prints objects of one kind, also in several parts.
struct ObjectPrinter<'a> {
    arguments: &'a Arguments,
    table: TableWriter,
    /// The last row of each object without its age, by namespace and name.
    printed: BTreeMap<(Option<String>, String), Vec<TableCell>>,
}

impl<'a> ObjectPrinter<'a> {
    fn new(arguments: &'a Arguments) -> Self {
        let has_header = !arguments.no_headers;
        let table = match arguments.output {
            GetOutput::Wide => TableWriter::wide(has_header),
            _ => TableWriter::new(terminal::width(), has_header),
        };
        Self {
            arguments,
            table,
            printed: BTreeMap::new(),
        }
    }

    /// Prints the objects that [`Self::changed`] returns.
    fn print_changed(
        &mut self,
        kind: ListedKind,
        (objects, are_deleted): (Vec<DynamicObject>, bool),
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let changed = self.changed(kind, objects, are_deleted)?;
        self.print(kind, changed, out)?;
        Ok(out.flush()?)
    }

    /// The objects of which something is shown that was not printed last, and those that were deleted.
    fn changed(
        &mut self,
        kind: ListedKind,
        objects: Vec<DynamicObject>,
        are_deleted: bool,
    ) -> anyhow::Result<Vec<DynamicObject>> {
        if !matches!(self.arguments.output, GetOutput::Table | GetOutput::Wide) {
            return Ok(objects);
        }
        let mut changed = Vec::new();
        for object in objects {
            let key = (object.namespace(), object.name_any());
            let mut table = self.rows(kind, vec![object.clone()])?;
            table.drop_ages();
            let row: Vec<_> = table.rows.into_iter().flatten().collect();
            let last = self.printed.insert(key.clone(), row.clone());
            if are_deleted || last != Some(row) {
                changed.push(object);
            }
            if are_deleted {
                self.printed.remove(&key);
            }
        }
        Ok(changed)
    }

    fn print(
        &mut self,
        kind: ListedKind,
        objects: Vec<DynamicObject>,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        match self.arguments.output {
            GetOutput::Json => objects
                .iter()
                .try_for_each(|object| write_json(&json!(object), out)),
            GetOutput::Yaml => objects
                .iter()
                .try_for_each(|object| yaml::write(out, object)),
            GetOutput::Name => {
                let resource = kind.resource();
                let kind = resource.kind.to_ascii_lowercase();
                objects.iter().try_for_each(|object| {
                    let name = object.name_any();
                    Ok(writeln!(out, "{kind}.{}/{name}", resource.group)?)
                })
            }
            GetOutput::Table | GetOutput::Wide if objects.is_empty() => Ok(()),
            GetOutput::Table | GetOutput::Wide => self.print_rows(kind, objects, out),
        }
    }

    fn print_rows(
        &mut self,
        kind: ListedKind,
        objects: Vec<DynamicObject>,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let ResourceTable { header, rows, .. } = self.rows(kind, objects)?;
        let environments = header.iter().position(|it| *it == rows::ENVIRONMENTS);
        Ok(match environments {
            Some(index) => self.table.write_below(out, (&header, rows), index),
            None => self.table.write(out, &header, &rows),
        }?)
    }

    /// The columns that are asked for.
    fn rows(&self, kind: ListedKind, objects: Vec<DynamicObject>) -> anyhow::Result<ResourceTable> {
        let now = jiff::Timestamp::now();
        let mut table = match kind {
            ListedKind::Pipelines => rows::pipelines(objects, now)?,
            ListedKind::Promotions => rows::promotions(objects, now)?,
            ListedKind::Changes => rows::changes(objects, now)?,
            ListedKind::Freezes => rows::freezes(objects, now)?,
            ListedKind::Checks => rows::checks(objects, now)?,
            ListedKind::Triggers => rows::triggers(objects, now)?,
            ListedKind::Clusters => rows::clusters(objects, now)?,
        };
        if self.arguments.output != GetOutput::Wide {
            table.drop_wide();
        }
        if !self.arguments.all_namespaces {
            table.drop_first();
        }
        Ok(table)
    }
}
