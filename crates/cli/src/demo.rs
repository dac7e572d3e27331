//! `sluice demo`: what exists so far, shown for real.
//!
//! Today that is the embedded Kubernetes API and our kinds on it. It says plainly what is missing.

use std::io::Write;

use anyhow::Context;
use api::Pipeline;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, ResourceExt, api::PostParams};
use serde_json::json;

/// Applies the kinds to an embedded API, creates a pipeline, and has a wrong one refused.
pub(crate) async fn run(out: &mut dyn Write) -> anyhow::Result<()> {
    let client = apiserver::Server::in_memory().client();
    writeln!(
        out,
        "An embedded Kubernetes API runs in this process; nothing is left behind.\n"
    )?;
    apply_definitions(&client, out).await?;
    create_pipeline(&client, out).await?;
    refuse_pipeline(&client, out).await?;
    writeln!(
        out,
        "\nThat is all this demo shows so far: the kinds and the API they live in.\n\
         `sluice controller` watches clusters and keeps pipelines up to date; nothing is promoted yet.\n\
         `sluice crds` prints the definitions for a cluster of yours."
    )?;
    Ok(())
}

async fn apply_definitions(client: &Client, out: &mut dyn Write) -> anyhow::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    writeln!(out, "Kinds:")?;
    for crd in api::crds() {
        let name = crd.name_any();
        definitions
            .create(&PostParams::default(), &crd)
            .await
            .with_context(|| format!("cannot apply the definition {name}"))?;
        writeln!(out, "  {name}")?;
    }
    Ok(())
}

async fn create_pipeline(client: &Client, out: &mut dyn Write) -> anyhow::Result<()> {
    let pipelines: Api<Pipeline> = Api::namespaced(client.clone(), "default");
    let pipeline: Pipeline = serde_json::from_value(json!({
        "apiVersion": "pipelines.weave.works/v1alpha1",
        "kind": "Pipeline",
        "metadata": {"name": "podinfo"},
        "spec": {
            "appRef": {
                "apiVersion": "helm.toolkit.fluxcd.io/v2",
                "kind": "HelmRelease",
                "name": "podinfo",
            },
            "environments": [
                {"name": "dev", "targets": [{"namespace": "podinfo-dev"}]},
                {"name": "prod", "targets": [{"namespace": "podinfo-prod"}]},
            ],
        },
    }))
    .context("cannot read the sample pipeline")?;
    let created = pipelines
        .create(&PostParams::default(), &pipeline)
        .await
        .context("cannot create the sample pipeline")?;
    let yaml = serde_saphyr::to_string(&created).context("cannot write the pipeline as YAML")?;
    writeln!(out, "\nA pipeline, as the API stored it:")?;
    for line in yaml.lines() {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

async fn refuse_pipeline(client: &Client, out: &mut dyn Write) -> anyhow::Result<()> {
    let request =
        http::Request::post("/apis/pipelines.weave.works/v1alpha1/namespaces/default/pipelines")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(
                json!({
                    "apiVersion": "pipelines.weave.works/v1alpha1",
                    "kind": "Pipeline",
                    "metadata": {"name": "typo"},
                    "spec": {"environments": [{"name": "dev"}]},
                })
                .to_string()
                .into_bytes(),
            )
            .context("cannot make a request")?;
    match client.request::<serde_json::Value>(request).await {
        Err(kube::Error::Api(status)) => {
            writeln!(
                out,
                "\nA pipeline without targets is refused:\n  {}",
                status.message
            )?;
            Ok(())
        }
        Err(error) => Err(error).context("cannot ask the embedded API"),
        Ok(_) => anyhow::bail!("the embedded API took a pipeline without targets"),
    }
}
