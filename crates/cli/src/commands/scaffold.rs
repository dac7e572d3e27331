//! `sluice scaffold`: the app manifests that an environment lacks, after those of the one before.
//!
//! Copies bytes, and changes of them only the namespace and the marker. Never writes over a file.

mod copy;

use std::{fs, io::Write, path::PathBuf};

use anyhow::{Context, bail};
use api::{
    Change, Pipeline,
    change::ChangeSpec,
    names::{short_hash, slug},
};
use kube::api::PostParams;

use super::{
    checkout::Checkout,
    cluster::{Connection, FIELD_MANAGER, key, must_have},
    plan,
    terminal::clean,
    trouble::trouble,
    yaml,
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
    /// Store the files as Change objects instead of writing them; this version's controller does not
    /// propose those in git yet
    #[arg(long)]
    change: bool,
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
    for manifest in &missing {
        match arguments.change {
            true => propose(arguments, &pipeline, manifest, out).await?,
            false => write(arguments, &checkout, manifest, out)?,
        }
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

/// Stores the file as a Change, which the controller turns into a pull request.
async fn propose(
    arguments: &Arguments,
    pipeline: &Pipeline,
    manifest: &Manifest,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (namespace, name) = key(pipeline);
    let environment = &manifest.environment;
    let hash = short_hash(&[&manifest.path, &manifest.content]);
    let readable = slug(&format!("{name}-{environment}"), 45, "change");
    let spec = ChangeSpec {
        path: manifest.path.clone(),
        content: manifest.content.clone(),
        title: format!("Add {name} to {environment}"),
        by: None,
    };
    let mut change = Change::new(&format!("{readable}-{hash}"), spec);
    change.metadata.namespace = Some(namespace.to_owned());
    if arguments.dry_run {
        return yaml::write(out, &change);
    }
    let cluster = arguments.connection.connect().await?;
    let parameters = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    match cluster
        .api::<Change>(namespace)
        .create(&parameters, &change)
        .await
    {
        Ok(_) => {}
        // The name says what is in it: the same change was asked for before.
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => return Err(trouble("create the Change", error)),
    }
    let change = change.metadata.name.unwrap_or_default();
    writeln!(
        out,
        "stored {} as change {change}; no controller proposes it in git yet",
        clean(&manifest.path)
    )?;
    Ok(())
}
