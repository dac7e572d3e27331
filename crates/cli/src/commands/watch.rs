//! `sluice watch`: what happens to pipelines, a line each, until it is stopped.

mod telling;

use std::{fmt::Debug, io::Write};

use anyhow::Context;
use api::{Pipeline, Promotion};
use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Resource,
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;

use super::{
    cluster::{Cluster, Connection, key, promotions_of},
    terminal::clean,
};
use telling::Teller;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only this pipeline
    pipeline: Option<String>,
    /// In all namespaces
    #[arg(long, short = 'A', conflicts_with_all = ["pipeline", "namespace"])]
    all_namespaces: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Something was seen on the cluster.
enum Seen {
    Pipeline(Box<Pipeline>),
    Promotion(Box<Promotion>),
    Nothing,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let namespace = match (&arguments.pipeline, arguments.all_namespaces) {
        // That the pipeline is there, and may be read, is worth finding out first.
        (Some(name), _) => Some(key(&cluster.pipeline(name).await?).0.to_owned()),
        (None, false) => Some(cluster.namespace.clone()),
        (None, true) => None,
    };
    let name = arguments.pipeline.as_deref();
    let name = name.map(|name| name.rsplit('/').next().unwrap_or(name));
    follow(&cluster, namespace.as_deref(), name, out).await
}

async fn follow(
    cluster: &Cluster,
    namespace: Option<&str>,
    name: Option<&str>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (mut own, mut theirs) = (watcher::Config::default(), watcher::Config::default());
    if let Some(name) = name {
        own = own.fields(&format!("metadata.name={name}"));
        theirs = theirs.labels(&promotions_of(name));
    }
    let pipelines = seen(cluster, namespace, own, Seen::Pipeline);
    let promotions = seen(cluster, namespace, theirs, Seen::Promotion);
    let mut seen = stream::select(pipelines, promotions);
    let mut teller = Teller::default();
    let mut failures = 0;
    while let Some(event) = seen.next().await {
        let lines = match event {
            Ok(Seen::Pipeline(pipeline)) => teller.pipeline(*pipeline),
            Ok(Seen::Promotion(promotion)) => teller.promotion(&promotion),
            Ok(Seen::Nothing) => continue,
            Err(error) => {
                failures += 1;
                refuse(error, failures, teller.has_seen_anything())?;
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

/// Everything of one kind, for ever.
fn seen<K>(
    cluster: &Cluster,
    namespace: Option<&str>,
    config: watcher::Config,
    wrap: fn(Box<K>) -> Seen,
) -> BoxStream<'static, watcher::Result<Seen>>
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
    let seen = events.map_ok(move |event| match event {
        watcher::Event::Apply(it) | watcher::Event::InitApply(it) => wrap(Box::new(it)),
        _ => Seen::Nothing,
    });
    seen.boxed()
}

/// What is refused at the start will be refused again; what is lost later comes back.
fn refuse(error: watcher::Error, failures: usize, has_seen_anything: bool) -> anyhow::Result<()> {
    if let watcher::Error::InitialListFailed(error) = error {
        if !has_seen_anything && matches!(error, kube::Error::Api(_)) {
            return Err(super::trouble::trouble(
                "watch pipelines and promotions",
                error,
            ));
        }
        if !has_seen_anything && failures > 3 {
            return Err(error).context("the cluster does not answer");
        }
    }
    if failures == 1 {
        anstream::eprintln!("the connection was lost; trying again");
    }
    Ok(())
}
