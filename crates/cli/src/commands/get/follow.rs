//! `sluice get --watch`: prints each object again when something that is shown changes, until interrupted.

use std::{collections::BTreeMap, io::Write};

use anyhow::ensure;
use futures::{StreamExt, stream::BoxStream};
use kube::{
    ResourceExt,
    api::{ApiResource, DynamicObject},
    runtime::{WatchStreamExt, watcher},
};

use super::{
    super::{cluster::Cluster, watch::handle_error},
    Arguments, ObjectPrinter, Selection, api_of, select, tidy,
};

/// The resourceVersion of each object that has been printed, by namespace and name.
type PrintedVersions = BTreeMap<(Option<String>, String), Option<String>>;

pub(super) async fn follow(
    arguments: &Arguments,
    selection: &Selection,
    cluster: &Cluster,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let resource = selection.kind.resource();
    let mut events = watch(arguments, &resource, cluster);
    let mut printer = ObjectPrinter::new(arguments);
    let (mut listed, mut failures, mut is_first_list) = (Vec::new(), 0, true);
    let mut printed = PrintedVersions::new();
    while let Some(event) = events.next().await {
        let is_deleted = matches!(event, Ok(watcher::Event::Delete(_)));
        let changed = match event {
            Ok(event) => {
                // Every attempt to list begins with this event, also one that fails.
                if !matches!(event, watcher::Event::Init) {
                    failures = 0;
                }
                if is_first_list && matches!(event, watcher::Event::InitDone) {
                    let (_, missing) = select(selection, &cluster.namespace, &listed);
                    ensure!(missing.is_empty(), "{}", missing.join("; "));
                    is_first_list = false;
                }
                changed_objects(event, &mut listed)
            }
            Err(error) => {
                failures += 1;
                handle_error(error, failures, is_first_list)?;
                continue;
            }
        };
        let new = changed
            .into_iter()
            .filter(|object| selection.covers(&object.name_any()) && is_new(object, &mut printed));
        let new = new.map(|object| tidy(object, &resource)).collect();
        printer.print_changed(selection.kind, (new, is_deleted), out)?;
    }
    Ok(())
}

fn watch(
    arguments: &Arguments,
    resource: &ApiResource,
    cluster: &Cluster,
) -> BoxStream<'static, watcher::Result<watcher::Event<DynamicObject>>> {
    let mut config = watcher::Config::default();
    config.label_selector.clone_from(&arguments.selector);
    let objects = api_of(cluster, resource, arguments.all_namespaces);
    watcher(objects, config).default_backoff().boxed()
}

/// The objects to print after an event: the whole list when it is complete.
fn changed_objects(
    event: watcher::Event<DynamicObject>,
    listed: &mut Vec<DynamicObject>,
) -> Vec<DynamicObject> {
    match event {
        watcher::Event::Init => {
            listed.clear();
            Vec::new()
        }
        watcher::Event::InitApply(object) => {
            listed.push(object);
            Vec::new()
        }
        watcher::Event::InitDone => std::mem::take(listed),
        watcher::Event::Apply(object) | watcher::Event::Delete(object) => vec![object],
    }
}

/// Whether this version of the object has not been printed yet. A relist repeats objects.
fn is_new(object: &DynamicObject, printed: &mut PrintedVersions) -> bool {
    let key = (object.namespace(), object.name_any());
    let version = object.resource_version();
    printed.insert(key, version.clone()) != Some(version)
}
