//! `sluice events`: lists the Kubernetes Events about our objects, oldest first.

use std::{collections::BTreeSet, io::Write};

use api::{Pipeline, names::ENVIRONMENT_LABEL};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::{
    ResourceExt,
    api::ListParams,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;

use super::{
    cluster::{Cluster, ClusterFlags, key, require_environment},
    cluster_error::cluster_error,
    format::duration,
    line_wrapper::LineWrapper,
    message::print_message,
    output::OutputFormat,
    table::{TableCell, TableWriter},
    terminal::{self, PLAIN, YELLOW},
    watch::handle_error,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only events about this pipeline and its promotions, as NAME or NAMESPACE/NAME
    pipeline: Option<String>,
    /// Only this environment
    environment: Option<String>,
    /// All namespaces
    #[arg(long, short = 'A', conflicts_with_all = ["pipeline", "namespace"])]
    all_namespaces: bool,
    /// Print new events as they happen, until interrupted
    #[arg(long, short, conflicts_with = "output")]
    watch: bool,
    /// Print no header
    #[arg(long)]
    no_headers: bool,
    /// Output format
    #[arg(long, short, value_enum, default_value = "text")]
    output: OutputFormat,
    #[command(flatten)]
    connection: ClusterFlags,
}

const HEADER: [&str; 5] = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"];

/// Selects events by the object they are about.
enum EventFilter {
    /// About any object of our kinds.
    Ours(BTreeSet<String>),
    /// About a pipeline or one of its promotions.
    Pipeline {
        name: String,
        /// Pipelines whose names start with this one's, and so do the names of their promotions.
        others: Vec<String>,
        /// Only events about this environment.
        environment: Option<String>,
    },
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut cluster = arguments.connection.connect().await?;
    let filter = match &arguments.pipeline {
        Some(name) => {
            let pipeline = cluster.pipeline(name).await?;
            if let Some(environment) = &arguments.environment {
                require_environment(&pipeline, environment)?;
            }
            let (namespace, name) = key(&pipeline);
            cluster.namespace = namespace.to_owned();
            let all = cluster.pipelines(false).await?;
            let others = all.iter().map(|it| key(it).1.to_owned());
            EventFilter::Pipeline {
                name: name.to_owned(),
                others: others.filter(|it| is_promotion_of(it, name)).collect(),
                environment: arguments.environment.clone(),
            }
        }
        None => {
            let groups = api::crds().into_iter().map(|crd| crd.spec.group);
            EventFilter::Ours(groups.collect())
        }
    };
    let mut table = TableWriter::new(terminal::width(), !arguments.no_headers);
    if arguments.watch {
        return follow(arguments, &cluster, &filter, &mut table, out).await;
    }
    let events = list(arguments, &cluster, &filter).await?;
    let document = || json!({"apiVersion": "v1", "kind": "List", "items": events});
    arguments.output.write(out, document, |out| {
        if events.is_empty() {
            print_message("no events; the API server deletes them after about an hour");
            return Ok(());
        }
        write_events(&events, &mut table, out)
    })
}

fn write_events(
    events: &[Event],
    table: &mut TableWriter,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let now = Timestamp::now();
    let out = &mut LineWrapper::new(out);
    let rows: Vec<_> = events.iter().map(|event| row(event, now)).collect();
    Ok(table.write_below(out, (&HEADER, rows), HEADER.len() - 1)?)
}

async fn list(
    arguments: &Arguments,
    cluster: &Cluster,
    filter: &EventFilter,
) -> anyhow::Result<Vec<Event>> {
    let api = cluster.api_in::<Event>(arguments.all_namespaces);
    let listed = api.list(&ListParams::default()).await;
    let listed = listed.map_err(|error| cluster_error("list the events", error))?;
    let mut events = listed.items;
    events.retain(|event| filter.matches(event));
    events.sort_by_key(last_seen);
    for event in &mut events {
        event.metadata.managed_fields = None;
    }
    Ok(events)
}

/// Prints the events there are, and each new one.
async fn follow(
    arguments: &Arguments,
    cluster: &Cluster,
    filter: &EventFilter,
    table: &mut TableWriter,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let api = cluster.api_in::<Event>(arguments.all_namespaces);
    let mut changes = watcher(api, watcher::Config::default())
        .default_backoff()
        .boxed();
    let (mut listed, mut failures, mut is_first_list) = (Vec::new(), 0, true);
    let mut newest = None;
    while let Some(change) = changes.next().await {
        match change {
            Ok(watcher::Event::InitApply(event)) => listed.push(event),
            Ok(watcher::Event::InitDone) => is_first_list = false,
            Ok(watcher::Event::Apply(event)) => listed.push(event),
            Ok(_) => {}
            Err(error) => {
                failures += 1;
                handle_error(error, failures, is_first_list)?;
            }
        }
        if is_first_list {
            continue;
        }
        failures = 0;
        let mut new = std::mem::take(&mut listed);
        // A relist repeats events.
        new.retain(|event| filter.matches(event) && last_seen(event) > newest);
        new.sort_by_key(last_seen);
        newest = new.last().map_or(newest, last_seen);
        if !new.is_empty() {
            write_events(&new, table, out)?;
            out.flush()?;
        }
    }
    Ok(())
}

impl EventFilter {
    fn matches(&self, event: &Event) -> bool {
        let about = &event.involved_object;
        let api_version = about.api_version.as_deref().unwrap_or_default();
        let group = api_version.split('/').next().unwrap_or_default();
        match self {
            Self::Ours(groups) => groups.contains(group),
            Self::Pipeline { environment, .. }
                if environment.as_ref().is_some_and(|it| !is_about(event, it)) =>
            {
                false
            }
            Self::Pipeline { name, others, .. } => {
                let about_name = about.name.as_deref().unwrap_or_default();
                let is_ours = group == <Pipeline as kube::Resource>::group(&());
                match about.kind.as_deref() {
                    Some("Pipeline") => is_ours && about_name == name,
                    Some("Promotion") => {
                        let is_of_other = others.iter().any(|it| is_promotion_of(about_name, it));
                        is_ours && is_promotion_of(about_name, name) && !is_of_other
                    }
                    _ => false,
                }
            }
        }
    }
}

/// Whether an event is about an environment, as Sluice annotates it. What is about none is about each.
fn is_about(event: &Event, environment: &str) -> bool {
    let annotated = event.annotations().get(ENVIRONMENT_LABEL);
    annotated.is_none_or(|it| it == environment)
}

/// Whether the name of a promotion starts with that of the pipeline.
fn is_promotion_of(promotion: &str, pipeline: &str) -> bool {
    let rest = promotion.strip_prefix(pipeline);
    rest.is_some_and(|rest| rest.starts_with('-'))
}

fn last_seen(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref();
    let times = [
        series
            .and_then(|it| it.last_observed_time.as_ref())
            .map(|it| it.0),
        event.last_timestamp.as_ref().map(|it| it.0),
        event.event_time.as_ref().map(|it| it.0),
        event.creation_timestamp().map(|it| it.0),
    ];
    times.into_iter().flatten().max()
}

fn row(event: &Event, now: Timestamp) -> Vec<TableCell> {
    let seen = last_seen(event).map(|seen| duration(now.as_second() - seen.as_second()));
    let about = &event.involved_object;
    let kind = about.kind.as_deref().unwrap_or_default().to_lowercase();
    let name = about.name.as_deref().unwrap_or_default();
    let type_ = event.type_.as_deref().unwrap_or_default();
    let style = if type_ == "Warning" { YELLOW } else { PLAIN };
    let series = event.series.as_ref().and_then(|series| series.count);
    let times = match series.or(event.count).unwrap_or(1) {
        0 | 1 => String::new(),
        times => format!(" (x{times})"),
    };
    let message = event.message.as_deref().unwrap_or_default();
    vec![
        TableCell::from(seen.unwrap_or_default()),
        TableCell::styled(type_, style),
        TableCell::from(event.reason.as_deref().unwrap_or_default()),
        TableCell::from(format!("{kind}/{name}")),
        TableCell::from(format!("{message}{times}")),
    ]
}
