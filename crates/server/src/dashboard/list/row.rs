//! The row of a pipeline. Rows do not depend on the viewer, so each is rendered once per change.

use std::sync::{Arc, OnceLock};

use api::Pipeline;
use jiff::Timestamp;
use planner::SummaryState;
use runtime::{ObjectCache, ObjectKey, cache::CacheIndex};

use crate::{
    dashboard::{
        components::{address, badge, screen_reader_text, state_icon},
        html::{Element, Html, tag},
        page::PagePart,
    },
    view::{self, Cell},
};

/// A pipeline in the list.
pub(crate) struct PipelineRow {
    pub(in crate::dashboard) key: ObjectKey,
    pub(super) id: Arc<str>,
    pub(super) state: SummaryState,
    pub(super) changed: Option<Timestamp>,
    /// The text that is searched.
    pub(super) text: String,
    pub(super) part: Arc<PagePart>,
}

/// The rows of all pipelines, rendered when a pipeline changes. Nothing is rendered before the list is
/// first asked for.
#[derive(Default)]
pub(crate) struct PipelineRows(OnceLock<CacheIndex<Arc<PipelineRow>>>);

impl PipelineRows {
    pub(super) fn all(&self, pipelines: &Arc<ObjectCache<Pipeline>>) -> Vec<Arc<PipelineRow>> {
        let render = |pipeline: &Pipeline| Some(Arc::new(PipelineRow::new(pipeline)));
        let index = self.0.get_or_init(|| CacheIndex::new(pipelines, render));
        let mut rows = Vec::new();
        index.for_each(|_, row| rows.push(row.clone()));
        rows
    }
}

impl PipelineRow {
    fn new(pipeline: &Pipeline) -> Self {
        let key = ObjectKey::of(&pipeline.metadata);
        let cells = view::cells(pipeline);
        let state = view::pipeline_state(pipeline);
        let mut text = format!("{} {}", key.namespace, key.name);
        for cell in &cells {
            text += &format!(" {} {}", cell.name, cell.revision);
        }
        let id = row_id(&key);
        let html = tag("tr")
            .id(&id)
            .child(
                tag("th")
                    .with("scope", "row")
                    .child(tag("a").link(&address(&key)).text(&key.name))
                    .child(tag("small").text(&key.namespace)),
            )
            .child(tag("td").child(badge(state)))
            .child(tag("td").child(tag("ol").class("strip").children(cells.iter().map(cell))));
        Self {
            id: id.into(),
            state,
            changed: view::last_change(pipeline).map(|time| time.0),
            text: text.to_lowercase(),
            part: Arc::new(PagePart::from(Html::from(html))),
            key,
        }
    }
}

fn cell(cell: &Cell<'_>) -> Element {
    let mut item = tag("li").class(cell.state.id());
    if let Some(message) = &cell.message {
        item = item.with("title", message);
    }
    let incoming = cell.incoming.map(|revision| {
        tag("span")
            .class("incoming")
            .child(screen_reader_text("; promoting: "))
            .child(tag("code").text(revision))
    });
    item.child(tag("b").text(cell.name))
        .child(state_icon(cell.state))
        .child(tag("code").text(&cell.revision))
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
