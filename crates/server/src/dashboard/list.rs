//! The list of pipelines: one row each, with a cell per environment. The filter is in the address.

mod filter;
mod row;

use std::sync::Arc;

use planner::SummaryState;

use super::{
    components::state_icon,
    create,
    html::{Element, Html, tag},
    page::PageParts,
    sign_in::Viewer,
};
use crate::{AppState, access::PIPELINES, problem::Problem};

pub(super) use filter::PipelineFilter;
use row::PipelineRow;
pub(crate) use row::PipelineRows;

/// How many rows a page has.
const PAGE_SIZE: usize = 1000;

/// The rows of the pipelines that the viewer may see.
async fn visible(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
) -> Result<Vec<Arc<PipelineRow>>, Problem> {
    let rows = app_state.pipeline_rows.all(app_state.objects.pipelines());
    let namespace_of = |row: &Arc<PipelineRow>| row.key.namespace.clone();
    viewer.caller.visible(PIPELINES, rows, namespace_of).await
}

pub(super) async fn parts(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    filter: &PipelineFilter,
) -> Result<PageParts, Problem> {
    let visible = visible(app_state, viewer).await?;
    let mut parts = PageParts::default();
    parts.push(
        "create",
        create_links(create::may_propose(app_state, viewer).await?),
    );
    parts.push("counts", counts(&visible, filter));
    let mut found: Vec<_> = visible.iter().filter(|row| filter.matches(row)).collect();
    filter.sort(&mut found);
    let pages = found.len().div_ceil(PAGE_SIZE).max(1);
    let page = filter.page().min(pages - 1);
    parts.push("pages", pages_of(found.len(), page, pages, filter));
    let shown = found.into_iter().skip(page * PAGE_SIZE).take(PAGE_SIZE);
    parts.rows = shown
        .map(|row| (row.id.clone(), row.part.clone()))
        .collect();
    Ok(parts)
}

/// The links to the create form and the proposals.
fn create_links(is_shown: bool) -> Element {
    let links = [("/create", "Create a pipeline"), ("/changes", "Proposals")];
    let links = links.map(|(address, text)| tag("a").link(address).text(text));
    let element = tag("p").id("create").class("links");
    match is_shown {
        true => element.children(links),
        false => element,
    }
}

/// How many pipelines are in each state, each a link that filters by it.
fn counts(visible: &[Arc<PipelineRow>], filter: &PipelineFilter) -> Element {
    let of = |state: SummaryState| visible.iter().filter(|row| row.state == state).count();
    let entry = |state: Option<SummaryState>, count: usize| {
        let name = state.map_or("all", SummaryState::word);
        let mut link = tag("a")
            .link(&filter.with_state(state).address(0))
            .child(state.map(state_icon))
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

fn pages_of(found: usize, page: usize, pages: usize, filter: &PipelineFilter) -> Element {
    let count = match found {
        0 => "No pipeline matches.".to_owned(),
        1 => "1 pipeline".to_owned(),
        _ => format!("{found} pipelines"),
    };
    let mut nav = tag("nav").id("pages").class("pages");
    nav = nav
        .with("aria-label", "Pages")
        .child(tag("span").text(count));
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
pub(super) fn frame(filter: &PipelineFilter, parts: &PageParts) -> Html {
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
