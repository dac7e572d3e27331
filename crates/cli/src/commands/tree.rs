//! `sluice tree`: environments, targets, apps and images, as far as the stored status tells.

use std::io::Write;

use api::{
    Pipeline,
    pipeline::{AppStatus, TargetStatus},
};
use planner::State;

use super::{
    cluster::{Connection, key},
    terminal::{BOLD, DIM, clean, paint, painted_sign},
    words::runs,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The pipeline, or namespace/pipeline
    pipeline: String,
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
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let pipeline = cluster.pipeline(&arguments.pipeline).await?;
    write(&pipeline, out)
}

fn write(pipeline: &Pipeline, out: &mut dyn Write) -> anyhow::Result<()> {
    let (namespace, name) = key(pipeline);
    writeln!(out, "{}", paint(BOLD, &format!("{namespace}/{name}")))?;
    Ok(draw(&environments(pipeline), "", out)?)
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

fn environments(pipeline: &Pipeline) -> Vec<Branch> {
    let model = pipeline.status.clone().unwrap_or_default();
    let all = pipeline.spec.environments.iter().map(|environment| {
        let name = environment.name.as_str();
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
        Branch {
            text,
            below: targets.iter().map(target).collect(),
        }
    });
    all.collect()
}

fn word(state: State) -> String {
    paint(DIM, &format!("({})", state.word()))
}

fn target(target: &TargetStatus) -> Branch {
    let state = planner::target_state(target);
    let name = clean(&planner::target_name(target));
    let mut below: Vec<Branch> = target.apps.iter().map(app).collect();
    if let Some(error) = &target.error {
        below.push(Branch::leaf(format!("! {}", clean(error))));
    }
    Branch {
        text: format!("{} {name} {}", painted_sign(state), word(state)),
        below,
    }
}

fn app(app: &AppStatus) -> Branch {
    let state = match app.ready {
        true => State::Ready,
        false => State::NotReady,
    };
    let revision = app.revision.as_deref().unwrap_or("-");
    let text = clean(&format!("{}/{} {revision}", app.kind, app.name));
    let message = app.message.as_ref().filter(|_| !app.ready);
    let remarks = message.into_iter().chain(&app.note);
    let remarks = remarks.map(|it| Branch::leaf(format!("! {}", clean(it))));
    let images = app.images.iter().map(|image| Branch::leaf(clean(image)));
    Branch {
        text: format!("{} {text}", painted_sign(state)),
        below: images.chain(remarks).collect(),
    }
}
