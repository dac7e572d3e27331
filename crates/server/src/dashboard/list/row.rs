//! One pipeline as a row. Rows say nothing about who looks, so each is rendered once per change.

use std::{collections::HashMap, sync::Arc};

use api::Pipeline;
use jiff::Timestamp;
use kube::ResourceExt;
use parking_lot::Mutex;

use super::key_of;
use crate::{
    dashboard::{
        html::{Element, Html, tag},
        page::Part,
        words::{address, aside, badge, shape},
    },
    view::{self, Cell},
    watched::{ObjectKey, Watched},
};
use planner::SummaryState;

/// A pipeline in the list.
pub(crate) struct Row {
    pub(in crate::dashboard) key: ObjectKey,
    pub(super) id: Arc<str>,
    pub(super) state: SummaryState,
    pub(super) changed: Option<Timestamp>,
    /// What is searched.
    pub(super) text: String,
    pub(super) part: Arc<Part>,
}

/// Rows by pipeline, with the version that each shows.
#[derive(Default)]
pub(crate) struct Rows(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// How many changes there had been.
    as_of: Option<u64>,
    rows: HashMap<ObjectKey, (String, Arc<Row>)>,
}

impl Rows {
    /// All pipelines that are known.
    pub(super) fn all(&self, watched: &Watched) -> Vec<Arc<Row>> {
        let mut known = self.0.lock();
        let as_of = Some(watched.change_count());
        if known.as_of != as_of {
            known.rows = fresh(&watched.pipelines(), std::mem::take(&mut known.rows));
            known.as_of = as_of;
        }
        known.rows.values().map(|(_, row)| row.clone()).collect()
    }
}

/// The same rows, with those anew whose pipelines have changed.
fn fresh(
    pipelines: &[Arc<Pipeline>],
    mut known: HashMap<ObjectKey, (String, Arc<Row>)>,
) -> HashMap<ObjectKey, (String, Arc<Row>)> {
    let rows = pipelines.iter().map(|pipeline| {
        let key = key_of(pipeline);
        let version = format!("{:?}{:?}", pipeline.uid(), pipeline.resource_version());
        let row = match known.remove(&key) {
            Some((shown, row)) if shown == version => row,
            _ => Arc::new(Row::new(pipeline)),
        };
        (key, (version, row))
    });
    rows.collect()
}

impl Row {
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
            part: Arc::new(Part::from(Html::from(html))),
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
            .child(aside("; on its way: "))
            .child(tag("code").text(revision))
    });
    item.child(tag("b").text(cell.name))
        .child(shape(cell.state))
        .child(tag("code").text(&cell.revision))
        .child(incoming)
        .child(aside(&format!(" ({})", cell.state.word())))
}

/// An id that any name fits into.
fn row_id(key: &ObjectKey) -> String {
    let letters = format!("{}/{}", key.namespace, key.name);
    let letters = letters.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'0'..=b'9' | b'-' => char::from(byte).to_string(),
        other => format!("_{other:02x}"),
    });
    letters.collect::<String>() + "-row"
}
