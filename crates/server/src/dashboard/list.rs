//! The list of pipelines: a matrix with a row for each pipeline and a column for each environment name.
//! The filter is in the address.

mod columns;
mod filter;
mod row;

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use planner::SummaryState;

use super::{
    components::{counted, empty_state, page_links, state_icon},
    create,
    html::{Element, Html, tag},
    icons,
    page::{PagePart, PageParts},
    sign_in::Viewer,
};
use crate::{
    AppState,
    access::{AccessRequest, PIPELINES},
    problem::Problem,
};

use columns::Columns;
pub(super) use filter::PipelineFilter;
use row::PipelineRow;
pub(crate) use row::PipelineRows;

/// How many rows a page has.
const PAGE_SIZE: usize = 200;
/// The states that have a tile even if no pipeline is in them.
const USUAL: [SummaryState; 5] = [
    SummaryState::Failed,
    SummaryState::AwaitingApproval,
    SummaryState::Promoting,
    SummaryState::Held,
    SummaryState::Ready,
];

/// The rows of the pipelines that the viewer may see.
pub(super) async fn visible(
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
    let may_propose = create::may_propose(app_state, viewer).await?;
    let mut parts = PageParts::default();
    parts.push("create", create_links(may_propose));
    let now = app_state.clock.now();
    parts.push("counts", counts(&visible, filter, now));
    parts.push("namespaces", namespaces(&visible));
    let matching = visible.iter().filter(|row| filter.matches(row, now));
    let mut found: Vec<_> = matching.collect();
    filter.sort(&mut found);
    let pages = found.len().div_ceil(PAGE_SIZE).max(1);
    let page = filter.page().min(pages - 1);
    let count = counted(found.len(), "pipeline");
    let links = page_links(&count, (page, pages), |page| filter.address(page));
    parts.push("pages", links);
    let none = match visible.is_empty() {
        true => Some(no_pipelines(app_state, viewer, may_propose).await?),
        false => found.is_empty().then(no_match),
    };
    // Without any pipeline there is nothing to count or to search.
    let class = if visible.is_empty() { "nothing" } else { "" };
    parts.push("none", tag("div").id("none").class(class).child(none));
    let shown: Vec<_> = found.into_iter().skip(page * PAGE_SIZE).collect();
    let shown = &shown[..shown.len().min(PAGE_SIZE)];
    let columns = Arc::new(Columns::of(shown.iter().map(|row| &***row)));
    parts.push("columns", columns.head());
    parts.rows = rows(shown, &columns, filter, now);
    Ok(parts)
}

/// The rows of a page, with the name of the namespace before the first of each if there are several.
fn rows(
    shown: &[&Arc<PipelineRow>],
    columns: &Arc<Columns>,
    filter: &PipelineFilter,
    now: Timestamp,
) -> Vec<(Arc<str>, Arc<PagePart>)> {
    let namespaces: BTreeSet<_> = shown.iter().map(|row| &row.key.namespace).collect();
    let is_grouped = filter.is_by_namespace() && namespaces.len() > 1;
    let mut rows = Vec::new();
    let mut before = None;
    for row in shown {
        let namespace = &row.key.namespace;
        if is_grouped && before != Some(namespace) {
            before = Some(namespace);
            let id = format!("namespace-{namespace}");
            let name = tag("th")
                .with("scope", "rowgroup")
                .with("colspan", columns.count())
                .text(namespace);
            let html = tag("tr").id(&id).class("group-row").child(name);
            rows.push((id.into(), Arc::new(PagePart::from(Html::from(html)))));
        }
        rows.push((row.id.clone(), row.part(columns, now)));
    }
    rows
}

/// The links to the create form and the proposals.
fn create_links(is_shown: bool) -> Element {
    let element = tag("p").id("create").class("links");
    if !is_shown {
        return element;
    }
    let create = tag("a").class("button main").link("/create");
    let proposals = tag("a").class("button").link("/changes");
    element
        .child(proposals.text("Proposals"))
        .child(create.text("Create a pipeline"))
}

/// The namespaces that the filter suggests.
fn namespaces(visible: &[Arc<PipelineRow>]) -> Element {
    let names: BTreeSet<_> = visible.iter().map(|row| &row.key.namespace).collect();
    let options = names
        .into_iter()
        .map(|name| tag("option").with("value", name));
    tag("datalist").id("namespaces").children(options)
}

/// What the page says to a viewer who sees no pipeline at all.
async fn no_pipelines(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    may_propose: bool,
) -> Result<Element, Problem> {
    let everywhere = AccessRequest::list(PIPELINES, app_state.settings.namespace.as_deref());
    if !viewer.caller.may_see(&everywhere).await? {
        let text = format!(
            "{} needs a role with the verb list on pipelines of the group pipelines.weave.works, in one \
             namespace or in all.",
            viewer.caller.name()
        );
        return Ok(empty_state("You may not list pipelines", &text));
    }
    let text = match may_propose {
        true => {
            "A pipeline names an app and the environments that it goes through. Create one here, or \
                 apply a manifest with kubectl or Flux."
        }
        false => {
            "A pipeline names an app and the environments that it goes through. Apply a manifest \
                  with kubectl or Flux, and it appears here."
        }
    };
    Ok(empty_state("No pipelines yet", text))
}

fn no_match() -> Element {
    empty_state(
        "No pipeline matches.",
        "Change the search, or choose another state or namespace.",
    )
}

/// How many pipelines have an environment in each state, and a frozen one; each a link that filters by it.
fn counts(visible: &[Arc<PipelineRow>], filter: &PipelineFilter, now: Timestamp) -> Element {
    let of = |state: &SummaryState| {
        let has = |row: &&Arc<PipelineRow>| row.states.contains(state);
        visible.iter().filter(has).count()
    };
    let states = SummaryState::ALL.into_iter().map(|it| (it, of(&it)));
    let is_shown = |(state, count): &(SummaryState, usize)| {
        *count > 0 || USUAL.contains(state) || filter.state() == Some(*state)
    };
    let states = states.filter(is_shown).map(|(state, count)| {
        let word = tag("span").child(state_icon(state)).text(state.word());
        let address = filter.with_state(Some(state)).address(0);
        let is_current = filter.state() == Some(state);
        tile((state.id(), count), word, &address, is_current)
    });
    let frozen = visible.iter().filter(|row| !row.frozen(now).is_empty());
    let frozen = frozen.count();
    let frozen = (frozen > 0 || filter.is_frozen()).then(|| {
        let word = tag("span").child(icons::gate("freeze")).text("frozen");
        let address = filter.with_frozen().address(0);
        tile(("frozen", frozen), word, &address, filter.is_frozen())
    });
    let all = filter.with_state(None).address(0);
    let is_all = filter.state().is_none() && !filter.is_frozen();
    let word = tag("span").text("all");
    tag("ul")
        .id("counts")
        .class("tiles")
        .with("aria-label", "By state")
        .child(tile(("all", visible.len()), word, &all, is_all))
        .children(states)
        .child(frozen)
}

fn tile((class, count): (&str, usize), word: Element, address: &str, is_current: bool) -> Element {
    let zero = if count == 0 { " zero" } else { "" };
    let mut link = tag("a")
        .link(address)
        .class(format_args!("{class}{zero}"))
        .child(tag("b").text(count))
        .child(word);
    if is_current {
        link = link.with("aria-current", "true");
    }
    tag("li").child(link)
}

/// The page around the rows.
pub(super) fn frame(filter: &PipelineFilter, parts: &PageParts) -> Html {
    let table = tag("table")
        .class("pipelines")
        .child(tag("caption").class("vh").text("Pipelines"))
        .child(parts.html("columns"))
        .child(tag("tbody").id("rows").child(parts.all_rows()));
    let title = tag("div")
        .class("title")
        .child(tag("h1").text("Pipelines"))
        .child(tag("span").class("head"))
        .child(parts.html("create"));
    let table = tag("div")
        .class("table")
        .with("role", "region")
        .with("aria-label", "Pipelines")
        .with("tabindex", 0)
        .child(table);
    Html::all([
        Html::from(title),
        parts.html("counts"),
        filter.form().into(),
        parts.html("namespaces"),
        table.into(),
        parts.html("none"),
        parts.html("pages"),
    ])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A pipeline whose dev failed and whose prod awaits approval.
    fn row(namespace: &str, name: &str) -> Arc<PipelineRow> {
        let target =
            json!({"namespace": "x", "ready": false, "revision": "1.0.0", "failed": "2.0.0"});
        let promotion = json!({"name": "p", "revision": "1.5.0", "phase": "AwaitingApproval"});
        let pipeline = json!({
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"environments": [
                {"name": "dev", "targets": [{"namespace": "x"}]},
                {"name": "prod", "targets": [{"namespace": "x"}]},
            ]},
            "status": {"environments": {
                "dev": {"targets": [target]},
                "prod": {"targets": [{"namespace": "x", "ready": true, "revision": "1.0.0"}], "promotion": promotion},
            }},
        });
        Arc::new(PipelineRow::new(&serde_json::from_value(pipeline).unwrap()))
    }

    fn ids(sort: &str, rows: &[Arc<PipelineRow>]) -> String {
        let uri = format!("/pipelines?sort={sort}").parse().unwrap();
        let filter = axum::extract::Query::<PipelineFilter>::try_from_uri(&uri).unwrap();
        let mut shown: Vec<_> = rows.iter().collect();
        filter.sort(&mut shown);
        let columns = Arc::new(Columns::of(shown.iter().map(|row| &***row)));
        let all = super::rows(&shown, &columns, &filter, Timestamp::UNIX_EPOCH);
        let ids: Vec<_> = all.iter().map(|(id, _)| &**id).collect();
        ids.join(" ")
    }

    #[test]
    fn rows_are_grouped_by_namespace_if_there_are_several() {
        let rows = [row("shop", "cart"), row("infra", "dns"), row("shop", "api")];
        assert_eq!(
            ids("", &rows),
            "namespace-infra infra_2fdns-row namespace-shop shop_2fapi-row shop_2fcart-row"
        );
        assert_eq!(
            ids("name", &rows),
            "shop_2fapi-row shop_2fcart-row infra_2fdns-row"
        );
        assert_eq!(
            ids("", &rows[..1]),
            "shop_2fcart-row",
            "one namespace is no group"
        );
    }

    #[test]
    fn a_pipeline_counts_in_every_state_that_it_has() {
        let row = row("shop", "cart");
        let states: Vec<_> = row.states.iter().map(|it| it.id()).collect();
        assert_eq!(states, ["failed", "approval"]);
        assert_eq!(row.state, SummaryState::Failed);
    }

    #[test]
    fn a_row_says_that_an_environment_is_frozen_while_it_is() {
        let window = json!({"cron": "0 16 * * FRI", "window": "64h", "timeZone": "Etc/UTC"});
        let pipeline = json!({
            "metadata": {"name": "cart", "namespace": "shop"},
            "spec": {"environments": [{"name": "prod", "targets": [{"namespace": "x"}]}]},
            "status": {"freezes": [
                {"name": "weekend", "environments": ["prod"], "times": {"closed": [window]}},
            ]},
        });
        let row = PipelineRow::new(&serde_json::from_value(pipeline).unwrap());
        let columns = Arc::new(Columns::of([&row].into_iter()));
        for (now, is_frozen) in [
            ("2026-11-18T12:00:00Z", false),
            ("2026-11-21T12:00:00Z", true),
            ("2026-11-24T12:00:00Z", false),
        ] {
            let part = row.part(&columns, now.parse().unwrap());
            let html = part.html.as_str();
            assert_eq!(html.contains("frozen by weekend"), is_frozen, "{html}");
        }
    }

    #[test]
    fn a_row_is_put_together_once_for_the_same_columns() {
        let row = row("shop", "cart");
        let columns = |names: &[&str]| {
            Arc::new(Columns {
                names: names.iter().map(|it| (*it).to_owned()).collect(),
                has_others: true,
            })
        };
        let now = Timestamp::UNIX_EPOCH;
        let first = row.part(&columns(&["dev"]), now);
        assert!(Arc::ptr_eq(&first, &row.part(&columns(&["dev"]), now)));
        let other = row.part(&columns(&["prod"]), now);
        assert_ne!(first.version, other.version);
        for part in [first, other] {
            let html = part.html.as_str();
            assert!(
                html.contains("1.5.0") && html.contains("2.0.0 failed"),
                "{html}"
            );
        }
    }
}
