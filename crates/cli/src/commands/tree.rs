//! `sluice tree`: environments, targets, apps and images, as far as the stored status tells; with
//! `--objects` what the clusters themselves say, by kubeconfigs that the caller may read.

mod objects;

use std::io::Write;

use api::{
    Pipeline,
    pipeline::{AppStatus, TargetStatus},
};
use futures::future::join_all;
use planner::SummaryState;

use super::{
    cluster::{Connection, key, must_have},
    terminal::{BOLD, DIM, clean, paint, painted_sign},
    words::runs,
};
use objects::Objects;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The pipeline, or namespace/pipeline
    pipeline: String,
    /// Only this environment
    environment: Option<String>,
    /// Ask the clusters for Flux's objects, workloads and pods behind each app
    #[arg(long)]
    objects: bool,
    #[command(flatten)]
    connection: Connection,
}

/// A line and what hangs below it.
struct Branch {
    text: String,
    below: Vec<Branch>,
}

impl Branch {
    fn leaf(text: String) -> Self {
        Self {
            text,
            below: Vec::new(),
        }
    }

    /// Something that is missing or wrong.
    fn remark(text: &str) -> Self {
        Self::leaf(format!("! {}", clean(text)))
    }
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let pipeline = cluster.pipeline(&arguments.pipeline).await?;
    if let Some(environment) = &arguments.environment {
        must_have(&pipeline, environment)?;
    }
    let (namespace, name) = key(&pipeline);
    let objects = arguments.objects.then(|| Objects::new(&cluster, namespace));
    let only = arguments.environment.as_deref();
    let branches = environments(&pipeline, only, objects.as_ref()).await;
    writeln!(out, "{}", paint(BOLD, &format!("{namespace}/{name}")))?;
    Ok(draw(&branches, "", out)?)
}

fn draw(branches: &[Branch], indent: &str, out: &mut dyn Write) -> std::io::Result<()> {
    for (index, branch) in branches.iter().enumerate() {
        let is_last = index + 1 == branches.len();
        let (corner, trunk) = match is_last {
            true => ("└─ ", "   "),
            false => ("├─ ", "│  "),
        };
        writeln!(out, "{indent}{corner}{}", branch.text)?;
        draw(&branch.below, &format!("{indent}{trunk}"), out)?;
    }
    Ok(())
}

async fn environments(
    pipeline: &Pipeline,
    only: Option<&str>,
    objects: Option<&Objects>,
) -> Vec<Branch> {
    let model = pipeline.status.clone().unwrap_or_default();
    let mut all = Vec::new();
    for environment in &pipeline.spec.environments {
        let name = environment.name.as_str();
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let status = model.environments.get(name);
        let state = planner::environment_state(pipeline, &model, name);
        let runs = clean(&runs(status));
        let text = format!(
            "{} {} {runs} {}",
            painted_sign(state),
            clean(name),
            word(state)
        );
        let targets = status.map(|it| it.targets.as_slice()).unwrap_or_default();
        let below = targets.iter().map(|it| target(it, objects));
        let below = join_all(below).await;
        all.push(Branch { text, below });
    }
    all
}

fn word(state: SummaryState) -> String {
    paint(DIM, &format!("({})", state.word()))
}

async fn target(target: &TargetStatus, objects: Option<&Objects>) -> Branch {
    let state = planner::target_state(target);
    let name = clean(&planner::target_name(target));
    let mut below: Vec<Branch> = match objects {
        Some(objects) => objects.behind(target).await,
        None => target.apps.iter().map(app).collect(),
    };
    // What an app says about itself stands there already.
    let said = |error: &&String| {
        target
            .apps
            .iter()
            .any(|app| app.message.as_ref() == Some(*error))
    };
    let error = target.error.as_ref();
    let error = error.filter(|error| objects.is_some() || !said(error));
    below.extend(error.map(|error| Branch::remark(error)));
    Branch {
        text: format!("{} {name} {}", painted_sign(state), word(state)),
        below,
    }
}

fn app(app: &AppStatus) -> Branch {
    let state = match app.ready {
        true => SummaryState::Ready,
        false => SummaryState::NotReady,
    };
    let revision = app.revision.as_deref().unwrap_or("-");
    let text = clean(&format!("{}/{} {revision}", app.kind, app.name));
    let message = app.message.as_ref().filter(|_| !app.ready);
    let remarks = message.into_iter().chain(&app.note);
    let remarks = remarks.map(|it| Branch::remark(it));
    let images = app.images.iter().map(|image| Branch::leaf(clean(image)));
    Branch {
        text: format!("{} {text}", painted_sign(state)),
        below: images.chain(remarks).collect(),
    }
}
