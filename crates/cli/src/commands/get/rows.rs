//! The table rows of each kind.

use anyhow::Context;
use api::{
    Change, CheckRun, Condition, Freeze, GitopsCluster, Pipeline, PipelineTrigger, Promotion,
    change::ChangePhase, check_run::CheckVerdict, cluster::CONNECTIVITY, conditions,
    pipeline::PipelineStatus, promotion::Phase,
};
use jiff::Timestamp;
use kube::api::DynamicObject;
use planner::{FreezeState, PipelineSummary};
use serde::de::DeserializeOwned;

use super::super::{
    format::age,
    table::TableCell,
    terminal::{DIM, GREEN, PLAIN, RED, YELLOW, state_style},
};

/// The column with what each environment runs, which is never cut.
pub(super) const ENVIRONMENTS: &str = "ENVIRONMENTS";

/// A table with the namespace as its first column and the columns of wide output at the end.
pub(super) struct ResourceTable {
    pub(super) header: Vec<&'static str>,
    pub(super) rows: Vec<Vec<TableCell>>,
    /// The number of columns without wide output.
    narrow: usize,
}

impl ResourceTable {
    fn new(narrow: &[&'static str], wide: &[&'static str]) -> Self {
        Self {
            header: ["NAMESPACE"]
                .iter()
                .chain(narrow)
                .chain(wide)
                .copied()
                .collect(),
            rows: Vec::new(),
            narrow: narrow.len() + 1,
        }
    }

    pub(super) fn drop_wide(&mut self) {
        self.header.truncate(self.narrow);
        self.rows
            .iter_mut()
            .for_each(|row| row.truncate(self.narrow));
    }

    pub(super) fn drop_first(&mut self) {
        self.drop_column(0);
    }

    /// Drops the column that changes without the object.
    pub(super) fn drop_ages(&mut self) {
        let ages = self.header.iter().position(|name| *name == "AGE");
        if let Some(index) = ages {
            self.drop_column(index);
        }
    }

    fn drop_column(&mut self, index: usize) {
        self.header.remove(index);
        self.rows.iter_mut().for_each(|row| drop(row.remove(index)));
    }
}

fn read<T: kube::Resource + DeserializeOwned>(object: DynamicObject) -> anyhow::Result<T> {
    let name = object.metadata.name.clone().unwrap_or_default();
    object
        .try_parse()
        .with_context(|| format!("cannot parse {name}"))
}

fn text(value: Option<&String>) -> TableCell {
    TableCell::from(value.map(String::as_str).unwrap_or_default())
}

pub(super) fn pipelines(
    objects: Vec<DynamicObject>,
    now: Timestamp,
) -> anyhow::Result<ResourceTable> {
    let mut table = ResourceTable::new(
        &["NAME", "STATE", ENVIRONMENTS, "APP", "AGE"],
        &["READY", "WAITS FOR"],
    );
    for object in objects {
        let pipeline: Pipeline = read(object)?;
        let status = pipeline.status.clone().unwrap_or_default();
        let metadata = &pipeline.metadata;
        let app = pipeline.spec.app_ref.as_ref();
        let (state, style) = summary(&pipeline, &status);
        let app = app.map(|app| format!("{}/{}", app.kind, app.name));
        table.rows.push(vec![
            text(metadata.namespace.as_ref()),
            text(metadata.name.as_ref()),
            TableCell::styled(&state, style),
            TableCell::from(planner::runs_text(&pipeline, &status)),
            text(app.as_ref()),
            TableCell::from(age(metadata.creation_timestamp.as_ref(), now)),
            condition(&status.conditions, conditions::READY),
            TableCell::from(holds(&pipeline, &status)),
        ]);
    }
    Ok(table)
}

/// The most severe state, and the environment that has it.
fn summary(pipeline: &Pipeline, status: &PipelineStatus) -> (String, anstyle::Style) {
    if pipeline.spec.environments.is_empty() {
        return ("no environments".to_owned(), RED);
    }
    let PipelineSummary { state, .. } = planner::pipeline_summary(pipeline, status);
    let text = planner::state_text(pipeline, status);
    (format!("{} {text}", state.glyph()), state_style(state))
}

fn holds(pipeline: &Pipeline, status: &PipelineStatus) -> String {
    let names = pipeline.spec.environments.iter().map(|it| it.name.as_str());
    let holds = names.filter_map(|name| {
        let hold = status.environments.get(name)?.hold.as_ref()?;
        Some(format!("{name}: {}", hold.message))
    });
    holds.collect::<Vec<_>>().join(" | ")
}

fn condition(all: &[Condition], type_: &str) -> TableCell {
    match conditions::find(all, type_) {
        Some(condition) if condition.status == "True" => TableCell::styled("True", GREEN),
        Some(condition) if condition.status == "False" => TableCell::styled("False", RED),
        Some(_) => TableCell::styled("Unknown", YELLOW),
        None => TableCell::styled("-", DIM),
    }
}

fn message(all: &[Condition], type_: &str) -> TableCell {
    TableCell::from(
        conditions::find(all, type_)
            .map(|it| it.message.as_str())
            .unwrap_or_default(),
    )
}

/// The cell of a phase.
pub(in super::super) fn phase(phase: Option<Phase>) -> TableCell {
    let style = match phase {
        Some(Phase::Succeeded) => GREEN,
        Some(Phase::Failed) => RED,
        Some(Phase::AwaitingApproval | Phase::WaitingForMerge) => YELLOW,
        Some(Phase::Superseded | Phase::Withdrawn | Phase::Abandoned) => DIM,
        _ => PLAIN,
    };
    let word = phase.map_or("Pending".to_owned(), |phase| format!("{phase:?}"));
    TableCell::styled(&word, style)
}

/// Who decided about a promotion.
pub(in super::super) fn people(promotion: &Promotion) -> String {
    planner::people(promotion).join(", ")
}

pub(super) fn promotions(
    objects: Vec<DynamicObject>,
    now: Timestamp,
) -> anyhow::Result<ResourceTable> {
    let mut table = ResourceTable::new(
        &[
            "PIPELINE",
            "ENVIRONMENT",
            "PHASE",
            "REVISION",
            "BY",
            "AGE",
            "NAME",
        ],
        &["URL", "MESSAGE"],
    );
    let mut promotions = objects
        .into_iter()
        .map(read)
        .collect::<anyhow::Result<Vec<Promotion>>>()?;
    // Names are in no order that people know: those of one pipeline in the order in which they were created.
    promotions.sort_by_cached_key(|it| {
        let metadata = &it.metadata;
        let created = metadata.creation_timestamp.as_ref().map(|it| it.0);
        (
            metadata.namespace.clone(),
            it.spec.pipeline.clone(),
            created,
        )
    });
    for promotion in promotions {
        let (metadata, spec) = (&promotion.metadata, &promotion.spec);
        let status = promotion.status.clone().unwrap_or_default();
        let site = planner::site_of(spec, metadata.namespace.as_deref().unwrap_or_default());
        table.rows.push(vec![
            text(metadata.namespace.as_ref()),
            TableCell::from(&spec.pipeline),
            TableCell::from(site.key()),
            phase(status.phase),
            TableCell::from(&spec.shown_revision()),
            TableCell::from(people(&promotion)),
            TableCell::from(age(metadata.creation_timestamp.as_ref(), now)),
            text(metadata.name.as_ref()),
            text(status.url.as_ref()),
            text(status.message.as_ref()),
        ]);
    }
    Ok(table)
}

pub(super) fn changes(
    objects: Vec<DynamicObject>,
    now: Timestamp,
) -> anyhow::Result<ResourceTable> {
    let columns = ["NAME", "PATH", "PHASE", "BY", "AGE"];
    let mut table = ResourceTable::new(&columns, &["URL", "MESSAGE"]);
    for object in objects {
        let change: Change = read(object)?;
        let (metadata, spec) = (&change.metadata, &change.spec);
        let status = change.status.clone().unwrap_or_default();
        let (word, style) = match status.phase {
            Some(ChangePhase::Merged) => ("Merged", GREEN),
            Some(ChangePhase::Failed) => ("Failed", RED),
            Some(ChangePhase::Proposed) => ("Proposed", YELLOW),
            Some(ChangePhase::Abandoned) => ("Abandoned", DIM),
            Some(ChangePhase::Pending) | None => ("Pending", PLAIN),
        };
        table.rows.push(vec![
            text(metadata.namespace.as_ref()),
            text(metadata.name.as_ref()),
            TableCell::from(&spec.path),
            TableCell::styled(word, style),
            text(spec.by.as_ref()),
            TableCell::from(age(metadata.creation_timestamp.as_ref(), now)),
            text(status.url.as_ref()),
            text(status.message.as_ref()),
        ]);
    }
    Ok(table)
}

pub(super) fn freezes(
    objects: Vec<DynamicObject>,
    now: Timestamp,
) -> anyhow::Result<ResourceTable> {
    let columns = ["NAME", "STATE", "UNTIL", "COVERS", "REASON", "AGE"];
    let mut table = ResourceTable::new(&columns, &["MESSAGE"]);
    for object in objects {
        let freeze: Freeze = read(object)?;
        let (metadata, spec) = (&freeze.metadata, &freeze.spec);
        let (word, style, until, message) = match planner::freeze_state(spec, now) {
            FreezeState::Closed { until } => ("closed", RED, until, None),
            FreezeState::Open { until } => ("open", GREEN, until, None),
            FreezeState::Invalid(error) => ("invalid", RED, None, Some(error)),
        };
        let pipelines = match spec.pipelines.as_slice() {
            [] if spec.selector.is_some() => "selected".to_owned(),
            [] => "all".to_owned(),
            names => names.join(","),
        };
        let covers = match spec.environments.as_slice() {
            [] => pipelines,
            names => format!("{pipelines}/{}", names.join(",")),
        };
        table.rows.push(vec![
            text(metadata.namespace.as_ref()),
            text(metadata.name.as_ref()),
            TableCell::styled(word, style),
            text(until.map(|until| format!("{until:.0}")).as_ref()),
            TableCell::from(covers),
            TableCell::from(&spec.reason),
            TableCell::from(age(metadata.creation_timestamp.as_ref(), now)),
            text(message.as_ref()),
        ]);
    }
    Ok(table)
}

pub(super) fn checks(objects: Vec<DynamicObject>, now: Timestamp) -> anyhow::Result<ResourceTable> {
    let columns = [
        "PIPELINE",
        "ENVIRONMENT",
        "CHECK",
        "VERDICT",
        "REVISION",
        "CAUSE",
        "AGE",
    ];
    let mut table = ResourceTable::new(&columns, &["ATTEMPT", "MESSAGE", "URL", "NAME"]);
    for object in objects {
        let run: CheckRun = read(object)?;
        let (metadata, spec) = (&run.metadata, &run.spec);
        let status = run.status.clone().unwrap_or_default();
        let style = match status.verdict {
            CheckVerdict::Passed => GREEN,
            CheckVerdict::Failed | CheckVerdict::Error => RED,
            CheckVerdict::Pending | CheckVerdict::Running => PLAIN,
        };
        table.rows.push(vec![
            text(metadata.namespace.as_ref()),
            TableCell::from(&spec.pipeline),
            TableCell::from(&spec.environment),
            TableCell::from(&spec.check.name),
            TableCell::styled(status.verdict.word(), style),
            TableCell::from(&spec.shown_revision()),
            TableCell::from(spec.cause.word()),
            TableCell::from(age(metadata.creation_timestamp.as_ref(), now)),
            TableCell::from((spec.attempt + 1).to_string()),
            text(status.message.as_ref()),
            text(status.url.as_ref()),
            text(metadata.name.as_ref()),
        ]);
    }
    Ok(table)
}

pub(super) fn triggers(
    objects: Vec<DynamicObject>,
    now: Timestamp,
) -> anyhow::Result<ResourceTable> {
    let mut table = ResourceTable::new(
        &["NAME", "READY", "SOURCE", "EVENT", "LAST RUN", "AGE"],
        &["STATUS"],
    );
    for object in objects {
        let trigger: PipelineTrigger = read(object)?;
        let metadata = &trigger.metadata;
        let status = trigger.status.clone().unwrap_or_default();
        let source = &trigger.spec.source;
        let ready = match trigger.spec.suspend {
            true => TableCell::styled("Suspended", DIM),
            false => condition(&status.conditions, conditions::READY),
        };
        table.rows.push(vec![
            text(metadata.namespace.as_ref()),
            text(metadata.name.as_ref()),
            ready,
            TableCell::from(format!("{:?}/{}", source.kind, source.name)),
            text(status.latest_event.as_ref()),
            text(status.latest_pipeline_run.as_ref()),
            TableCell::from(age(metadata.creation_timestamp.as_ref(), now)),
            message(&status.conditions, conditions::READY),
        ]);
    }
    Ok(table)
}

pub(super) fn clusters(
    objects: Vec<DynamicObject>,
    now: Timestamp,
) -> anyhow::Result<ResourceTable> {
    let mut table = ResourceTable::new(
        &["NAME", "READY", "CONNECTED", "KUBECONFIG", "AGE"],
        &["STATUS"],
    );
    for object in objects {
        let cluster: GitopsCluster = read(object)?;
        let metadata = &cluster.metadata;
        let status = cluster.status.clone().unwrap_or_default();
        table.rows.push(vec![
            text(metadata.namespace.as_ref()),
            text(metadata.name.as_ref()),
            condition(&status.conditions, conditions::READY),
            condition(&status.conditions, CONNECTIVITY),
            text(cluster.kubeconfig_secret().as_ref()),
            TableCell::from(age(metadata.creation_timestamp.as_ref(), now)),
            message(&status.conditions, conditions::READY),
        ]);
    }
    Ok(table)
}
