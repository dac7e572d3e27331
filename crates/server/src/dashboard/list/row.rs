//! The row of a pipeline. Rows do not depend on the viewer, so each is rendered once per change.

use std::{collections::HashMap, sync::Arc};

use api::Pipeline;
use jiff::Timestamp;
use kube::ResourceExt;
use parking_lot::Mutex;
use planner::SummaryState;

use super::key_of;
use crate::{
    dashboard::{
        components::{address, badge, screen_reader_text, state_icon},
        html::{Element, Html, tag},
        page::PagePart,
    },
    view::{self, Cell},
    watched::{ObjectKey, Watched},
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

/// The rendered rows, each with the version of its pipeline.
#[derive(Default)]
pub(crate) struct PipelineRows(Mutex<CachedRows>);

#[derive(Default)]
struct CachedRows {
    /// The change count that the rows were rendered at.
    as_of: Option<u64>,
    rows: HashMap<ObjectKey, (String, Arc<PipelineRow>)>,
}

impl PipelineRows {
    /// The rows of all pipelines.
    pub(super) fn all(&self, watched: &Watched) -> Vec<Arc<PipelineRow>> {
        let mut cached = self.0.lock();
        let as_of = Some(watched.change_count());
        if cached.as_of != as_of {
            cached.rows = updated_rows(&watched.pipelines(), std::mem::take(&mut cached.rows));
            cached.as_of = as_of;
        }
        cached.rows.values().map(|(_, row)| row.clone()).collect()
    }
}

/// The same rows, with those of changed pipelines rendered again.
fn updated_rows(
    pipelines: &[Arc<Pipeline>],
    mut old: HashMap<ObjectKey, (String, Arc<PipelineRow>)>,
) -> HashMap<ObjectKey, (String, Arc<PipelineRow>)> {
    let rows = pipelines.iter().map(|pipeline| {
        let key = key_of(pipeline);
        let version = format!("{:?}{:?}", pipeline.uid(), pipeline.resource_version());
        let row = match old.remove(&key) {
            Some((shown, row)) if shown == version => row,
            _ => Arc::new(PipelineRow::new(pipeline)),
        };
        (key, (version, row))
    });
    rows.collect()
}

impl PipelineRow {
    fn new(pipeline: &Pipeline) -> Self {
        let key = key_of(pipeline);
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
