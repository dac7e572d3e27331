//! `sluice explain`: prints the explanation that the planner computes from the stored objects.

use std::io::Write;

use api::{Pipeline, Promotion, conditions, pipeline::PipelineStatus};
use planner::{GateAnswer, Plan};
use serde_json::{Value, json};

use super::{
    cluster::{Cluster, ClusterFlags, key, require_environment},
    output::OutputFormat,
    status::{WaitingPromotions, suggested_command},
    terminal::{BOLD, clean, paint, shown},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pipeline, as NAME or NAMESPACE/NAME [default: all of the namespace]
    pipeline: Option<String>,
    /// Only this environment
    environment: Option<String>,
    /// All namespaces
    #[arg(long, short = 'A', conflicts_with_all = ["pipeline", "namespace"])]
    all_namespaces: bool,
    /// Output format
    #[arg(long, short, value_enum, default_value = "text")]
    output: OutputFormat,
    #[command(flatten)]
    connection: ClusterFlags,
}

/// A pipeline with its plan.
struct PlannedPipeline {
    pipeline: Pipeline,
    model: PipelineStatus,
    plan: Plan,
    waiting: WaitingPromotions,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let Some(name) = &arguments.pipeline else {
        return overview(arguments, &cluster, out).await;
    };
    let pipeline = cluster.pipeline(name).await?;
    let only = arguments.environment.as_deref();
    if let Some(only) = only {
        require_environment(&pipeline, only)?;
    }
    let promotions = cluster.promotions(&pipeline).await?;
    let waiting = WaitingPromotions::of(&cluster, &pipeline).await;
    let planned = PlannedPipeline::new(pipeline, &promotions, waiting);
    arguments.output.write(
        out,
        || planned.document(only),
        |out| write_lines(&planned.text(only), "", out),
    )
}

/// Explains every pipeline of the namespace, or of all.
async fn overview(
    arguments: &Arguments,
    cluster: &Cluster,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut all = Vec::new();
    for pipeline in cluster.pipelines(arguments.all_namespaces).await? {
        let promotions = cluster.promotions(&pipeline).await?;
        let waiting = WaitingPromotions::of(cluster, &pipeline).await;
        all.push(PlannedPipeline::new(pipeline, &promotions, waiting));
    }
    let document = || {
        let items = all.iter().map(|planned| planned.document(None));
        json!({"items": items.collect::<Vec<_>>()})
    };
    arguments.output.write(out, document, |out| {
        for (index, planned) in all.iter().enumerate() {
            let (namespace, name) = key(&planned.pipeline);
            let gap = if index > 0 { "\n" } else { "" };
            let title = clean(&format!("{namespace}/{name}"));
            writeln!(out, "{gap}{}", paint(BOLD, &title))?;
            write_lines(&planned.text(None), "  ", out)?;
        }
        Ok(())
    })
}

fn write_lines(text: &str, indent: &str, out: &mut dyn Write) -> anyhow::Result<()> {
    for line in text.lines() {
        writeln!(out, "{indent}{}", shown(line))?;
    }
    Ok(())
}

impl PlannedPipeline {
    fn new(pipeline: Pipeline, promotions: &[Promotion], waiting: WaitingPromotions) -> Self {
        let model = pipeline.status.clone().unwrap_or_default();
        let plan = planner::plan(&pipeline, &model, promotions, jiff::Timestamp::now());
        Self {
            pipeline,
            model,
            plan,
            waiting,
        }
    }

    fn text(&self, only: Option<&str>) -> String {
        let text = match only {
            Some(name) => self.environment_text(name),
            None => planner::explain(&self.pipeline, &self.model, &self.plan),
        };
        let suggested = self.suggested_commands(only);
        [text]
            .into_iter()
            .chain(suggested)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// `try: …` for each environment that a command helps.
    fn suggested_commands(&self, only: Option<&str>) -> Vec<String> {
        let names = self.pipeline.spec.environments.iter().map(|it| &it.name);
        let names = names.filter(|name| only.is_none_or(|only| only == *name));
        let commands = names
            .filter_map(|name| suggested_command(&self.pipeline, &self.model, name, &self.waiting));
        commands.collect()
    }

    fn environment_text(&self, name: &str) -> String {
        let text = planner::explain_environment(&self.pipeline, name, &self.model, &self.plan);
        text.unwrap_or_default()
    }

    fn document(&self, only: Option<&str>) -> Value {
        let (namespace, name) = key(&self.pipeline);
        let names = self.pipeline.spec.environments.iter().map(|it| &it.name);
        let names = names.filter(|name| only.is_none_or(|only| only == *name));
        let environments: Vec<Value> = names.map(|name| self.environment(name)).collect();
        let ready = conditions::find(&self.model.conditions, conditions::READY);
        json!({
            "namespace": namespace,
            "name": name,
            "suspend": self.pipeline.spec.suspend,
            "ready": ready,
            "environments": environments,
            "warnings": self.plan.warnings,
        })
    }

    fn environment(&self, name: &str) -> Value {
        let planned = self.plan.environments.get(name);
        let hold = planned.and_then(|it| it.hold.as_ref());
        let gates = planned.into_iter().flat_map(|it| &it.gates);
        let gates: Vec<Value> = gates.map(GateAnswer::document).collect();
        let state = planner::environment_state(&self.pipeline, &self.model, name);
        json!({
            "name": name,
            "state": state.id(),
            "runs": planner::running_revisions(self.model.environments.get(name)),
            "hold": hold.map(|hold| hold.status()),
            "preflight": self.model.preflight.get(name),
            "next": planned.and_then(|it| it.next.as_ref()),
            "gates": gates,
            "promotion": planned.and_then(|it| it.promotion.as_ref()),
            "text": self.environment_text(name),
        })
    }
}
