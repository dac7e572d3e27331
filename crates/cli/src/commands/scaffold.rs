//! `sluice scaffold`: the app manifests that an environment lacks, after those of the one before.
//!
//! Copies bytes, and changes of them only the namespace and the marker. Never writes over a file.

mod copy;
mod propose;

use std::{fs, io::Write, path::PathBuf};

use anyhow::{Context, bail};
use api::Pipeline;

use super::{
    checkout::Checkout,
    cluster::{Connection, must_have},
    plan,
    terminal::clean,
};
use copy::{Manifest, Target};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The pipeline's name on the cluster, or a file that holds it
    pipeline: String,
    /// Only this environment; all that lack manifests otherwise
    environment: Option<String>,
    /// A checkout of the repository with the manifests
    #[arg(long, value_name = "FOLDER")]
    checkout: PathBuf,
    /// Have the controller propose the files as pull requests in the repository of its
    /// --authoring-url, instead of writing them into the checkout
    #[arg(long)]
    change: bool,
    /// Wait until what was proposed with --change is merged
    #[arg(long, requires = "change")]
    wait: bool,
    /// How long to wait, such as 90s or 10m
    #[arg(long, value_name = "TIME", default_value = "15m")]
    timeout: api::Duration,
    /// Print the files, or the Changes, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let (pipeline, _) = plan::find(&arguments.pipeline, &arguments.connection).await?;
    if let Some(environment) = &arguments.environment {
        must_have(&pipeline, environment)?;
    }
    let mut checkout = Checkout::read(&arguments.checkout)?;
    let missing = missing(&pipeline, arguments.environment.as_deref(), &mut checkout)?;
    if missing.is_empty() {
        anstream::eprintln!("every environment has its manifests");
    }
    if arguments.change {
        return propose::propose(arguments, &pipeline, &missing, out).await;
    }
    for manifest in &missing {
        write(arguments, &checkout, manifest, out)?;
    }
    Ok(())
}

/// The manifests to write, environment by environment; each may be the model of the next.
fn missing(
    pipeline: &Pipeline,
    only: Option<&str>,
    checkout: &mut Checkout,
) -> anyhow::Result<Vec<Manifest>> {
    let Some(app) = &pipeline.spec.app_ref else {
        bail!("a pipeline without appRef names no app to look for");
    };
    let mut all = Vec::new();
    let mut before: Option<&str> = None;
    for environment in &pipeline.spec.environments {
        let name = environment.name.as_str();
        let targets = Target::all(pipeline, name);
        if targets.is_empty() {
            continue;
        }
        let models = before.map(|before| Target::all(pipeline, before));
        if let Some(models) = models.filter(|_| only.is_none_or(|only| only == name)) {
            for target in &targets {
                let manifest = copy::missing(pipeline, app, &models, target, checkout)?;
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
    checkout: &Checkout,
    manifest: &Manifest,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if arguments.dry_run {
        writeln!(
            out,
            "# {}, after {}",
            clean(&manifest.path),
            clean(&manifest.model)
        )?;
        return Ok(out.write_all(manifest.content.as_bytes())?);
    }
    let path = checkout.locate(&manifest.path);
    let cannot = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(cannot)?;
    }
    let mut file = fs::File::create_new(&path).with_context(cannot)?;
    file.write_all(manifest.content.as_bytes())
        .with_context(cannot)?;
    writeln!(
        out,
        "wrote {} after {}",
        clean(&manifest.path),
        clean(&manifest.model)
    )?;
    for remark in &manifest.remarks {
        anstream::eprintln!("{}: {}", clean(&manifest.path), clean(remark));
    }
    Ok(())
}
