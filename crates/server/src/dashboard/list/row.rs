//! The row of a pipeline. Rows do not depend on the viewer, so their cells are rendered once per change
//! and put together once for the columns of the page.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use api::{Pipeline, pipeline::PipelineStatus};
use jiff::Timestamp;
use parking_lot::Mutex;
use planner::SummaryState;
use runtime::{ObjectCache, ObjectKey, cache::CacheIndex};

use super::columns::Columns;
use crate::{
    dashboard::{
        components::{
            address, external_link, pull_request_label, screen_reader_text, state_icon, timestamp,
        },
        html::{Element, Html, is_address, tag},
        icons,
        page::PagePart,
        version::{colour, shortened},
    },
    view::{self, Cell},
};

/// How much of a message a row shows.
const MAX_MESSAGE: usize = 160;
/// How many environments without a column of their own a row shows.
const MAX_OTHERS: usize = 4;

/// A pipeline in the list.
pub(crate) struct PipelineRow {
    pub(in crate::dashboard) key: ObjectKey,
    pub(super) id: Arc<str>,
    /// The state that counts.
    pub(super) state: SummaryState,
    /// The states of its environments; `Ready` only if all are.
    pub(super) states: BTreeSet<SummaryState>,
    pub(super) changed: Option<Timestamp>,
    /// The text that is searched.
    pub(super) text: String,
    /// In the order of promotion.
    pub(super) environments: Vec<String>,
    /// One for each environment.
    cells: Vec<Html>,
    /// A status with the Freezes and nothing else: whether they are closed depends on the time.
    freezes: PipelineStatus,
    head: Html,
    why: Html,
    /// The place of the environment that a revision waits to enter.
    waiting: Option<usize>,
    tail: Html,
    last: Mutex<Option<RenderedRow>>,
}

/// A row, and the columns and Freezes that it was put together for.
struct RenderedRow {
    columns: Arc<Columns>,
    frozen: Vec<FrozenEnvironment>,
    part: Arc<PagePart>,
}

/// The place of an environment that is frozen, and by what.
type FrozenEnvironment = (usize, String);

/// The rows of all pipelines, rendered when a pipeline changes. Nothing is rendered before the list is
/// first asked for.
#[derive(Default)]
pub(crate) struct PipelineRows(OnceLock<CacheIndex<Arc<PipelineRow>>>);

impl PipelineRows {
    pub(in crate::dashboard) fn all(
        &self,
        pipelines: &Arc<ObjectCache<Pipeline>>,
    ) -> Vec<Arc<PipelineRow>> {
        let render = |pipeline: &Pipeline| Some(Arc::new(PipelineRow::new(pipeline)));
        let index = self.0.get_or_init(|| CacheIndex::new(pipelines, render));
        let mut rows = Vec::new();
        index.for_each(|_, row| rows.push(row.clone()));
        rows
    }
}

impl PipelineRow {
    pub(super) fn new(pipeline: &Pipeline) -> Self {
        let key = ObjectKey::of(&pipeline.metadata);
        let cells = view::cells(pipeline);
        let mut text = format!("{} {}", key.namespace, key.name);
        for cell in &cells {
            text += &format!(" {} {}", cell.name, cell.revision);
        }
        let mut states: BTreeSet<_> = cells.iter().map(|cell| cell.state).collect();
        if states.len() > 1 {
            states.remove(&SummaryState::Ready);
        }
        let changed = view::last_change(pipeline);
        Self {
            id: row_id(&key).into(),
            state: view::pipeline_state(pipeline),
            states,
            changed: changed.as_ref().map(|time| time.0),
            text: text.to_lowercase(),
            environments: cells.iter().map(|cell| cell.name.to_owned()).collect(),
            cells: cells.iter().map(|it| cell(it).into()).collect(),
            freezes: PipelineStatus {
                freezes: pipeline
                    .status
                    .as_ref()
                    .map(|it| it.freezes.clone())
                    .unwrap_or_default(),
                ..PipelineStatus::default()
            },
            head: head(&key, pipeline).into(),
            why: why(pipeline),
            waiting: waiting_environment(pipeline, &cells),
            tail: tag("td")
                .class("dim")
                .child(changed.as_ref().map(timestamp))
                .into(),
            last: Mutex::default(),
            key,
        }
    }

    /// The text that is searched, in lower case.
    pub(in crate::dashboard) fn searched_text(&self) -> &str {
        &self.text
    }

    /// The environments that are frozen.
    pub(super) fn frozen(&self, now: Timestamp) -> Vec<FrozenEnvironment> {
        if self.freezes.freezes.is_empty() {
            return Vec::new();
        }
        let names = self.environments.iter().enumerate();
        let frozen = names.map(|(at, name)| (at, planner::frozen_now(&self.freezes, name, now)));
        frozen.filter_map(|(at, by)| Some((at, by?))).collect()
    }

    /// The row with a cell for each column.
    pub(super) fn part(&self, columns: &Arc<Columns>, now: Timestamp) -> Arc<PagePart> {
        let frozen = self.frozen(now);
        let mut last = self.last.lock();
        let is_same = |it: &&RenderedRow| it.columns == *columns && it.frozen == frozen;
        if let Some(known) = last.as_ref().filter(is_same) {
            return known.part.clone();
        }
        let part = Arc::new(PagePart::from(self.html(columns, &frozen)));
        *last = Some(RenderedRow {
            columns: columns.clone(),
            frozen,
            part: part.clone(),
        });
        part
    }

    fn html(&self, columns: &Columns, frozen: &[FrozenEnvironment]) -> Html {
        let in_column = |column: &String| {
            let index = self.environments.iter().position(|it| it == column);
            let cell = tag("td").with("data-label", column);
            match index {
                Some(index) => cell.child(self.cell(index, frozen)),
                None => tag("td"),
            }
        };
        let others = columns.has_others.then(|| self.others(columns, frozen));
        let freeze = frozen.iter().find(|(at, _)| Some(*at) == self.waiting);
        let freeze = freeze.map(|(_, by)| tag("small").text(by));
        tag("tr")
            .id(&self.id)
            .child(self.head.clone())
            .children(columns.names.iter().map(in_column))
            .child(others)
            .child(tag("td").child(self.why.clone()).child(freeze))
            .child(self.tail.clone())
            .into()
    }
}

impl PipelineRow {
    /// An environment, and that it is frozen.
    fn cell(&self, index: usize, frozen: &[FrozenEnvironment]) -> Html {
        let by = frozen.iter().find(|(at, _)| *at == index);
        let sign = by.map(|(_, by)| {
            let sign = tag("span").class("frozen").with("title", by);
            let sign = sign.child(icons::gate("freeze")).text("frozen");
            tag("span").class("cell").child(sign)
        });
        Html::all([self.cells[index].clone(), Html::from(sign)])
    }

    /// The environments without a column of their own, the first few of them.
    fn others(&self, columns: &Columns, frozen: &[FrozenEnvironment]) -> Element {
        let others = self.environments.iter().enumerate();
        let others = others.filter(|(_, name)| !columns.names.contains(name));
        let others: Vec<_> = others.collect();
        let more = others.len().saturating_sub(MAX_OTHERS);
        let shown = others.iter().take(MAX_OTHERS).map(|(index, name)| {
            let name = tag("span").class("env").text(name);
            let cell = self.cell(*index, frozen);
            tag("div").class("cell").child(name).child(cell)
        });
        let more = (more > 0).then(|| tag("small").text(format_args!("and {more} more")));
        tag("td").class("others").children(shown).child(more)
    }
}

fn head(key: &ObjectKey, pipeline: &Pipeline) -> Element {
    let kind = pipeline.spec.app_ref.as_ref().map(|app| app.kind.as_str());
    let small = match kind {
        Some(kind) => format!("{} · {kind}", key.namespace),
        None => key.namespace.clone(),
    };
    tag("th")
        .with("scope", "row")
        .child(tag("a").link(&address(key)).text(&key.name))
        .child(tag("small").text(small))
}

/// The place of the environment that a revision waits to enter. A Freeze that is closed there is one more reason,
/// unless it is the one that is shown.
fn waiting_environment(pipeline: &Pipeline, cells: &[Cell<'_>]) -> Option<usize> {
    let model = pipeline.status.as_ref()?;
    let name = planner::pipeline_summary(pipeline, model).environment?;
    let hold = model.environments.get(name)?.hold.as_ref()?;
    let is_freeze = hold.reason == planner::HoldReason::Frozen.word();
    let at = cells.iter().position(|cell| cell.name == name)?;
    (!is_freeze).then_some(at)
}

/// The state of a pipeline, the environment that is in it, and why.
fn why(pipeline: &Pipeline) -> Html {
    let model = pipeline.status.clone().unwrap_or_default();
    let summary = planner::pipeline_summary(pipeline, &model);
    let state = summary.state;
    let text = match summary.environment {
        Some(environment) => format!("{} in {environment}", state.word()),
        None => state.word().to_owned(),
    };
    let environment = summary
        .environment
        .and_then(|it| model.environments.get(it));
    let message = planner::environment_message(environment);
    let message = message.map(|message| {
        if is_address(&message) {
            let link = external_link(&message, &pull_request_label(&message));
            return tag("small").child(link);
        }
        let mut short: String = message.chars().take(MAX_MESSAGE).collect();
        if short.len() < message.len() {
            short.push('…');
        }
        tag("small").text(short)
    });
    let line = tag("p").class(format_args!("why {}", state.id()));
    Html::all([Some(line.text(text)), message])
}

fn cell(cell: &Cell<'_>) -> Element {
    let colour = cell.version.as_deref().map(colour).unwrap_or_default();
    let failed = match cell.state {
        SummaryState::Failed => " failed",
        _ => "",
    };
    let version = tag("code")
        .class(format_args!("version {colour}{failed}"))
        .child(state_icon(cell.state))
        .text(shortened(&cell.revision));
    let incoming = cell.incoming.map(|revision| {
        tag("span")
            .class("incoming")
            .child(tag("span").with("aria-hidden", "true").text("← "))
            .child(screen_reader_text("; promoting: "))
            .child(
                tag("code")
                    .class(self::colour(revision))
                    .text(shortened(revision)),
            )
    });
    let mut element = tag("span").class("cell");
    if let Some(message) = &cell.message {
        element = element.with("title", message);
    }
    element
        .child(version)
        .child(incoming)
        .child(screen_reader_text(&format!(" ({})", cell.state.word())))
}

/// The id of a row: other characters than letters, digits and dashes are encoded.
fn row_id(key: &ObjectKey) -> String {
    let key = format!("{}/{}", key.namespace, key.name);
    let characters = key.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'0'..=b'9' | b'-' => char::from(byte).to_string(),
        other => format!("_{other:02x}"),
    });
    characters.collect::<String>() + "-row"
}
