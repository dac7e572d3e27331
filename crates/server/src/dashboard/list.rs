//! All pipelines: one row each with a cell per environment. What is asked for is in the address.

mod filter;
mod row;

use std::sync::Arc;

use kube::ResourceExt;

use super::{
    create,
    html::{Element, Html, tag},
    page::Parts,
    sign_in::Viewer,
    words::shape,
};
use crate::{
    Door,
    rest::{Problem, access::PIPELINES},
    watched::ObjectKey,
};
use planner::SummaryState;

pub(super) use filter::Filter;
use row::Row;
pub(crate) use row::Rows;

/// How many rows a page has.
const PAGE: usize = 1000;

/// The pipelines that somebody may see.
async fn visible(door: &Arc<Door>, viewer: &Viewer) -> Result<Vec<Arc<Row>>, Problem> {
    let rows = door.rows.all(&door.watched);
    let namespace_of = |row: &Arc<Row>| row.key.namespace.clone();
    let visible = viewer.caller.visible(PIPELINES, rows, namespace_of);
    Ok(visible.await?)
}

pub(super) async fn parts(
    door: &Arc<Door>,
    viewer: &Viewer,
    filter: &Filter,
) -> Result<Parts, Problem> {
    let visible = visible(door, viewer).await?;
    let mut parts = Parts::default();
    parts.push("create", create(create::is_for(door, viewer).await?));
    parts.push("counts", counts(&visible, filter));
    let mut found: Vec<_> = visible.iter().filter(|row| filter.wants(row)).collect();
    filter.sort(&mut found);
    let pages = found.len().div_ceil(PAGE).max(1);
    let page = filter.page().min(pages - 1);
    parts.push("pages", pages_of(found.len(), page, pages, filter));
    let shown = found.into_iter().skip(page * PAGE).take(PAGE);
    parts.rows = shown
        .map(|row| (row.id.clone(), row.part.clone()))
        .collect();
    Ok(parts)
}

/// The way to a new pipeline, for who may.
fn create(is_shown: bool) -> Element {
    let ways = [("/create", "Create a pipeline"), ("/changes", "Proposals")];
    let ways = ways.map(|(address, text)| tag("a").link(address).text(text));
    let element = tag("p").id("create").class("ways");
    match is_shown {
        true => element.children(ways),
        false => element,
    }
}

/// How many there are of each state, each a way to see only those.
fn counts(visible: &[Arc<Row>], filter: &Filter) -> Element {
    let of = |state: SummaryState| visible.iter().filter(|row| row.state == state).count();
    let entry = |state: Option<SummaryState>, count: usize| {
        let name = state.map_or("all", SummaryState::word);
        let mut link = tag("a")
            .link(&filter.with_state(state).address(0))
            .child(state.map(shape))
            .text(name)
            .child(tag("b").text(format_args!(" {count}")));
        if filter.state() == state {
            link = link.with("aria-current", "true");
        }
        tag("li").child(link)
    };
    let states = SummaryState::ALL
        .into_iter()
        .map(|state| (Some(state), of(state)));
    let states = states.filter(|(state, count)| *count > 0 || *state == filter.state());
    tag("ul")
        .id("counts")
        .class("chips")
        .with("aria-label", "By state")
        .child(entry(None, visible.len()))
        .children(states.map(|(state, count)| entry(state, count)))
}

fn pages_of(found: usize, page: usize, pages: usize, filter: &Filter) -> Element {
    let said = match found {
        0 => "No pipeline matches.".to_owned(),
        1 => "1 pipeline".to_owned(),
        _ => format!("{found} pipelines"),
    };
    let mut nav = tag("nav").id("pages").class("pages");
    nav = nav
        .with("aria-label", "Pages")
        .child(tag("span").text(said));
    if pages > 1 {
        let numbers = (0..pages).map(|number| {
            let link = tag("a").link(&filter.address(number)).text(number + 1);
            match number == page {
                true => link.with("aria-current", "page"),
                false => link,
            }
        });
        nav = nav.children(numbers);
    }
    nav
}

/// The page around the rows.
pub(super) fn frame(filter: &Filter, parts: &Parts) -> Html {
    let heads = ["Pipeline", "State", "Environments"];
    let heads = heads.map(|head| tag("th").with("scope", "col").text(head));
    let table = tag("table")
        .class("pipelines")
        .child(tag("caption").class("vh").text("Pipelines"))
        .child(tag("thead").child(tag("tr").children(heads)))
        .child(tag("tbody").id("rows").child(parts.all_rows()));
    Html::all([
        Html::from(tag("h1").text("Pipelines")),
        parts.html("create"),
        filter.form().into(),
        parts.html("counts"),
        table.into(),
        parts.html("pages"),
    ])
}

/// The key of a pipeline.
fn key_of(pipeline: &api::Pipeline) -> ObjectKey {
    ObjectKey::new(
        &pipeline.namespace().unwrap_or_default(),
        &pipeline.name_any(),
    )
}
