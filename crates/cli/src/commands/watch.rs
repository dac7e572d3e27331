//! `sluice watch`: prints a line for each change of pipelines and promotions, until interrupted.

mod updates;

use std::{fmt::Debug, io::Write};

use api::{Pipeline, Promotion};
use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Resource,
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;

use super::{
    cluster::{Cluster, ClusterFlags, key, promotions_of, require_environment},
    cluster_error::cluster_error,
    message::print_message,
    terminal::clean,
};
use updates::PipelineUpdates;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only this pipeline, as NAME or NAMESPACE/NAME
    pipeline: Option<String>,
    /// Only this environment
    environment: Option<String>,
    /// Watch all namespaces
    #[arg(long, short = 'A', conflicts_with_all = ["pipeline", "namespace"])]
    all_namespaces: bool,
    #[command(flatten)]
    connection: ClusterFlags,
}

/// An object of a watch event.
enum WatchedObject {
    Pipeline(Box<Pipeline>),
    Promotion(Box<Promotion>),
    None,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let namespace = match (&arguments.pipeline, arguments.all_namespaces) {
        // Fails early if the pipeline does not exist or may not be read.
        (Some(name), _) => {
            let pipeline = cluster.pipeline(name).await?;
            if let Some(environment) = &arguments.environment {
                require_environment(&pipeline, environment)?;
            }
            Some(key(&pipeline).0.to_owned())
        }
        (None, false) => Some(cluster.namespace.clone()),
        (None, true) => None,
    };
    let name = arguments.pipeline.as_deref();
    let name = name.map(|name| name.rsplit('/').next().unwrap_or(name));
    let updates = PipelineUpdates::of(arguments.environment.as_deref());
    follow(&cluster, namespace.as_deref(), (name, updates), out).await
}

async fn follow(
    cluster: &Cluster,
    namespace: Option<&str>,
    (name, mut updates): (Option<&str>, PipelineUpdates),
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (mut pipeline_config, mut promotion_config) =
        (watcher::Config::default(), watcher::Config::default());
    if let Some(name) = name {
        pipeline_config = pipeline_config.fields(&format!("metadata.name={name}"));
        promotion_config = promotion_config.labels(&promotions_of(name));
    }
    let pipelines = watch_kind(cluster, namespace, pipeline_config, WatchedObject::Pipeline);
    let promotions = watch_kind(
        cluster,
        namespace,
        promotion_config,
        WatchedObject::Promotion,
    );
    let mut objects = stream::select(pipelines, promotions);
    let mut failures = 0;
    while let Some(event) = objects.next().await {
        let lines = match event {
            Ok(WatchedObject::Pipeline(pipeline)) => updates.pipeline(*pipeline),
            Ok(WatchedObject::Promotion(promotion)) => updates.promotion(&promotion),
            Ok(WatchedObject::None) => continue,
            Err(error) => {
                failures += 1;
                handle_error(error, failures, updates.is_empty())?;
                continue;
            }
        };
        failures = 0;
        for line in lines {
            let now = jiff::Zoned::now().strftime("%H:%M:%S").to_string();
            writeln!(out, "{now}  {}", clean(&line))?;
        }
        out.flush()?;
    }
    Ok(())
}

/// Watches all objects of one kind.
fn watch_kind<K>(
    cluster: &Cluster,
    namespace: Option<&str>,
    config: watcher::Config,
    wrap: fn(Box<K>) -> WatchedObject,
) -> BoxStream<'static, watcher::Result<WatchedObject>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + 'static,
{
    let client = cluster.client.clone();
    let objects: Api<K> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let events = watcher(objects, config).default_backoff();
    let objects = events.map_ok(move |event| match event {
        watcher::Event::Apply(it) | watcher::Event::InitApply(it) => wrap(Box::new(it)),
        _ => WatchedObject::None,
    });
    objects.boxed()
}

/// Fails if the first list is refused or fails repeatedly. Later errors are retried by the watcher.
pub(super) fn handle_error(
    error: watcher::Error,
    failures: usize,
    is_first_list: bool,
) -> anyhow::Result<()> {
    let is_final = |error: &kube::Error| matches!(error, kube::Error::Api(_)) || failures > 3;
    match error {
        watcher::Error::InitialListFailed(error) if is_first_list && is_final(&error) => {
            return Err(cluster_error("watch the objects", error));
        }
        _ if failures > 1 => {}
        _ if is_first_list => print_message("the cluster does not respond; retrying"),
        _ => print_message("the connection was lost; retrying"),
    }
    Ok(())
}
