//! `sluice uninstall`: deletes what `sluice install` created; the CRDs with all their objects only if asked.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::{Context, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;

use super::{
    UsageError,
    cluster::{Cluster, ClusterFlags},
    cluster_error::cluster_error,
    install::{self, NAMESPACE},
    installed,
    message::print_message,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Also delete all CRDs that `sluice crds` prints, and with them all Pipelines (of both API groups),
    /// Promotions, Changes, Freezes, CheckRuns, PipelineTriggers and GitopsClusters, also those of other
    /// software
    #[arg(long)]
    crds: bool,
    /// Also delete the namespace, with everything else in it
    #[arg(long)]
    delete_namespace: bool,
    /// Print what would be deleted, and delete nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    connection: ClusterFlags,
}

/// An object to delete.
struct InstalledObject {
    api: Api<DynamicObject>,
    /// `deployment pipeline-system/pipeline-controller`
    text: String,
    name: String,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let namespace = arguments.connection.namespace.as_deref();
    let namespace = namespace.unwrap_or(NAMESPACE);
    refuse_chart(&cluster).await?;
    let mut objects = Vec::new();
    for object in install::objects(namespace)?.iter().rev() {
        if object["kind"] == "Namespace" && !arguments.delete_namespace {
            continue;
        }
        objects.extend(find(&cluster.client, object).await?);
    }
    if arguments.crds {
        objects.extend(find_crds(&cluster.client).await?);
    }
    if objects.is_empty() {
        print_message(&format!(
            "nothing of Sluice is installed in namespace {namespace}"
        ));
        return Ok(());
    }
    if arguments.dry_run {
        for object in &objects {
            writeln!(out, "would delete {}", object.text)?;
        }
        return Ok(());
    }
    confirm(arguments, objects.len())?;
    for object in &objects {
        delete(object).await?;
        writeln!(out, "deleted {}", object.text)?;
    }
    Ok(())
}

/// A release of the chart is Helm's to delete.
async fn refuse_chart(cluster: &Cluster) -> anyhow::Result<()> {
    let services = installed::services(&cluster.client, "promotion").await;
    let services = services.map_err(|error| cluster_error("list the Services", error))?;
    let of_chart = services.iter().find_map(|service| {
        let release = service.helm_release.as_deref()?;
        Some((release, service.namespace.as_str()))
    });
    if let Some((release, namespace)) = of_chart {
        bail!(
            "Sluice was installed with Helm; uninstall it with `helm uninstall {release} --namespace \
             {namespace}`. Helm keeps the CRDs: delete them with `sluice crds | kubectl delete -f -`, \
             which deletes all Pipelines and Promotions too"
        );
    }
    Ok(())
}

/// The object on the cluster, if it is there.
async fn find(client: &Client, object: &Value) -> anyhow::Result<Option<InstalledObject>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&object["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let kind = text(&object["kind"]);
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let name = text(&object["metadata"]["name"]);
    let kind = kind.to_lowercase();
    let (api, text): (Api<DynamicObject>, _) = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => (
            Api::namespaced_with(client.clone(), namespace, &resource),
            format!("{kind} {namespace}/{name}"),
        ),
        None => (
            Api::all_with(client.clone(), &resource),
            format!("{kind} {name}"),
        ),
    };
    match api.get_metadata_opt(&name).await {
        Ok(Some(_)) => Ok(Some(InstalledObject { api, text, name })),
        Ok(None) => Ok(None),
        // A cluster may lack a kind: those of the Prometheus operator, or policies in the embedded API.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405 | 501) => Ok(None),
        Err(error) => Err(cluster_error(&format!("read {text}"), error)),
    }
}

async fn find_crds(client: &Client) -> anyhow::Result<Vec<InstalledObject>> {
    let resource = ApiResource::erase::<CustomResourceDefinition>(&());
    let mut found = Vec::new();
    for crd in api::crds() {
        let name = crd.name_any();
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let there = api.get_metadata_opt(&name).await;
        let there = there.map_err(|error| cluster_error(&format!("read CRD {name}"), error))?;
        if there.is_some() {
            let text = format!("crd {name} with all its objects");
            found.push(InstalledObject { api, text, name });
        }
    }
    Ok(found)
}

async fn delete(object: &InstalledObject) -> anyhow::Result<()> {
    let parameters = DeleteParams::background();
    match object.api.delete(&object.name, &parameters).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(cluster_error(&format!("delete {}", object.text), error)),
    }
}

/// Asks in a terminal; elsewhere `--yes` is needed.
fn confirm(arguments: &Arguments, objects: usize) -> anyhow::Result<()> {
    if arguments.yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        let text = "nobody can be asked without a terminal; confirm with --yes, or see what would be \
                    deleted with --dry-run";
        return Err(UsageError(text.to_owned()).into());
    }
    anstream::eprint!("delete {objects} objects? [y/N] ");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.context("cannot read the answer")?;
    if !answer.trim().eq_ignore_ascii_case("y") {
        bail!("nothing was deleted");
    }
    Ok(())
}
