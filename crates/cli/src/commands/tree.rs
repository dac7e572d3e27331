//! `sluice tree`: shows environments, targets, apps and images from the status of a pipeline; with
//! `--objects` also the objects on the leaf clusters, read with the caller's permissions.

mod leaf_objects;

use std::io::Write;

use api::{
    Pipeline,
    pipeline::{AppStatus, TargetStatus},
};
use futures::future::join_all;
use planner::{SummaryState, running_revisions};
use serde_json::{Value, json};

use super::{
    cluster::{ClusterFlags, key, require_environment},
    format::target_names,
    output::OutputFormat,
    terminal::{BOLD, DIM, clean, paint, painted_glyph},
};
use leaf_objects::LeafObjects;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pipeline, as NAME or NAMESPACE/NAME
    pipeline: String,
    /// Only this environment
    environment: Option<String>,
    /// Also read Flux objects, workloads and pods of each app from the clusters
    #[arg(long)]
    objects: bool,
    /// Output format
    #[arg(long, short, value_enum, default_value = "text")]
    output: OutputFormat,
    #[command(flatten)]
    connection: ClusterFlags,
}

/// A line and the nodes below it.
struct TreeNode {
    text: String,
    /// The same for programs: kind, name and what is known about it.
    document: Value,
    children: Vec<TreeNode>,
}

impl TreeNode {
    fn image(name: &str) -> Self {
        Self {
            text: clean(name),
            document: json!({"kind": "Image", "name": name}),
            children: Vec::new(),
        }
    }

    /// An error or a note.
    fn remark(text: &str) -> Self {
        Self {
            text: format!("! {}", clean(text)),
            document: json!({"kind": "Message", "text": text}),
            children: Vec::new(),
        }
    }

    fn document(&self) -> Value {
        let mut document = self.document.clone();
        if !self.children.is_empty() {
            document["children"] = self.children.iter().map(Self::document).collect();
        }
        document
    }
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let pipeline = cluster.pipeline(&arguments.pipeline).await?;
    if let Some(environment) = &arguments.environment {
        require_environment(&pipeline, environment)?;
    }
    let (namespace, name) = key(&pipeline);
    let objects = arguments
        .objects
        .then(|| LeafObjects::new(&cluster, namespace));
    let only = arguments.environment.as_deref();
    let nodes = environments(&pipeline, only, objects.as_ref()).await;
    let document = || {
        let children: Vec<Value> = nodes.iter().map(TreeNode::document).collect();
        json!({"kind": "Pipeline", "namespace": namespace, "name": name, "children": children})
    };
    arguments.output.write(out, document, |out| {
        writeln!(out, "{}", paint(BOLD, &format!("{namespace}/{name}")))?;
        Ok(draw(&nodes, "", out)?)
    })
}

fn draw(nodes: &[TreeNode], indent: &str, out: &mut dyn Write) -> std::io::Result<()> {
    for (index, node) in nodes.iter().enumerate() {
        let is_last = index + 1 == nodes.len();
        let (corner, indentation) = match is_last {
            true => ("└─ ", "   "),
            false => ("├─ ", "│  "),
        };
        writeln!(out, "{indent}{corner}{}", node.text)?;
        draw(&node.children, &format!("{indent}{indentation}"), out)?;
    }
    Ok(())
}

async fn environments(
    pipeline: &Pipeline,
    only: Option<&str>,
    objects: Option<&LeafObjects>,
) -> Vec<TreeNode> {
    let model = pipeline.status.clone().unwrap_or_default();
    let mut all = Vec::new();
    for environment in &pipeline.spec.environments {
        let name = environment.name.as_str();
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let status = model.environments.get(name);
        let state = planner::environment_state(pipeline, &model, name);
        let runs = running_revisions(status);
        let (glyph, word) = (painted_glyph(state), word(state));
        let text = format!("{glyph} {} {} {word}", clean(name), clean(&runs));
        let document =
            json!({"kind": "Environment", "name": name, "state": state.id(), "runs": runs});
        let targets = status.map(|it| it.targets.as_slice()).unwrap_or_default();
        let children = targets.iter().zip(target_names(targets));
        let children = children.map(|(it, name)| target(it, name, objects));
        let children = join_all(children).await;
        all.push(TreeNode {
            text,
            document,
            children,
        });
    }
    all
}

fn word(state: SummaryState) -> String {
    paint(DIM, &format!("({})", state.word()))
}

async fn target(target: &TargetStatus, name: String, objects: Option<&LeafObjects>) -> TreeNode {
    let state = planner::target_state(target);
    let mut children: Vec<TreeNode> = match objects {
        Some(objects) => objects.of_target(target).await,
        None => target.apps.iter().map(app).collect(),
    };
    // Messages of apps are shown already.
    let is_shown = |error: &&String| {
        target
            .apps
            .iter()
            .any(|app| app.message.as_ref() == Some(*error))
    };
    let error = target.error.as_ref();
    let error = error.filter(|error| objects.is_some() || !is_shown(error));
    children.extend(error.map(|error| TreeNode::remark(error)));
    TreeNode {
        text: format!("{} {} {}", painted_glyph(state), clean(&name), word(state)),
        document: json!({"kind": "Target", "name": name, "state": state.id()}),
        children,
    }
}

fn app(app: &AppStatus) -> TreeNode {
    let state = match app.ready {
        true => SummaryState::Ready,
        false => SummaryState::NotReady,
    };
    let revision = app.revision.as_deref().unwrap_or("-");
    let text = clean(&format!("{}/{} {revision}", app.kind, app.name));
    let message = app.message.as_ref().filter(|_| !app.ready);
    let remarks = message.into_iter().chain(&app.note);
    let remarks = remarks.map(|it| TreeNode::remark(it));
    let images = app.images.iter().map(|image| TreeNode::image(image));
    TreeNode {
        text: format!("{} {text}", painted_glyph(state)),
        document: json!({
            "kind": app.kind, "name": app.name, "state": state.id(), "runs": app.revision,
        }),
        children: images.chain(remarks).collect(),
    }
}
