//! `sluice scaffold`: creates the missing app manifests of an environment from those of the previous one.
//!
//! Copies the files and changes only the namespace and what says which revision to run: the marker, the tag
//! that is followed, or where the cluster asks. Never overwrites a file.

mod copy;
mod propose;
mod revision_text;

use std::{fs, io::Write, path::PathBuf};

use anyhow::{Context, bail};
use api::Pipeline;

use super::{
    checkout::ManifestCheckout,
    cluster::{ClusterFlags, require_environment},
    message::print_message,
    plan,
    terminal::clean,
};
use copy::{NewManifest, ScaffoldTarget};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name of the pipeline on the cluster, or a file with its manifest
    pipeline: String,
    /// Only this environment [default: all environments with missing manifests]
    environment: Option<String>,
    /// Checkout of the repository with the manifests
    #[arg(long, value_name = "FOLDER")]
    checkout: PathBuf,
    /// Create Changes, which the controller proposes as pull requests in the repository of its
    /// --authoring-url, instead of writing files into the checkout
    #[arg(long)]
    change: bool,
    /// Wait until the pull requests of --change are merged
    #[arg(long, requires = "change")]
    wait: bool,
    /// How long to wait, such as 90s or 10m
    #[arg(long, value_name = "TIME", default_value = "15m")]
    timeout: api::Duration,
    /// Print the files, or the Changes, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connection: ClusterFlags,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let (pipeline, _) = plan::find(&arguments.pipeline, &arguments.connection).await?;
    if let Some(environment) = &arguments.environment {
        require_environment(&pipeline, environment)?;
    }
    let mut checkout = ManifestCheckout::read(&arguments.checkout)?;
    let missing = missing(&pipeline, arguments.environment.as_deref(), &mut checkout)?;
    if missing.is_empty() {
        print_message("no manifests are missing");
    }
    if arguments.change {
        return propose::propose(arguments, &pipeline, &missing, out).await;
    }
    for manifest in &missing {
        write(arguments, &checkout, manifest, out)?;
    }
    Ok(())
}

/// The missing manifests, in the order of environments: each may be the template of the next.
fn missing(
    pipeline: &Pipeline,
    only: Option<&str>,
    checkout: &mut ManifestCheckout,
) -> anyhow::Result<Vec<NewManifest>> {
    let Some(app) = &pipeline.spec.app_ref else {
        bail!("the pipeline has no appRef, so its manifests cannot be found");
    };
    let mut all = Vec::new();
    let mut before: Option<&str> = None;
    for environment in &pipeline.spec.environments {
        let name = environment.name.as_str();
        let targets = ScaffoldTarget::all(pipeline, name);
        if targets.is_empty() {
            continue;
        }
        let templates = before.map(|before| ScaffoldTarget::all(pipeline, before));
        if let Some(templates) = templates.filter(|_| only.is_none_or(|only| only == name)) {
            for target in &targets {
                let manifest = copy::missing(pipeline, app, &templates, target, checkout)?;
                if let Some(manifest) = &manifest {
                    let content = manifest.content.clone().into_bytes();
                    checkout.files.insert(manifest.path.clone(), content);
                }
                all.extend(manifest);
            }
        }
        before = Some(name);
    }
    Ok(all)
}

fn write(
    arguments: &Arguments,
    checkout: &ManifestCheckout,
    manifest: &NewManifest,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if arguments.dry_run {
        writeln!(
            out,
            "# {}, copied from {}",
            clean(&manifest.path),
            clean(&manifest.template)
        )?;
        return Ok(out.write_all(manifest.content.as_bytes())?);
    }
    let path = checkout.locate(&manifest.path);
    let attempted = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(attempted)?;
    }
    let mut file = fs::File::create_new(&path).with_context(attempted)?;
    file.write_all(manifest.content.as_bytes())
        .with_context(attempted)?;
    writeln!(
        out,
        "wrote {}, copied from {}",
        clean(&manifest.path),
        clean(&manifest.template)
    )?;
    for remark in &manifest.remarks {
        print_message(&format!("{}: {}", clean(&manifest.path), clean(remark)));
    }
    Ok(())
}
