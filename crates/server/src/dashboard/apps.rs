//! What runs where: every app of the clusters that somebody may inspect, else what pipelines see.
//! What is asked for is in the address. The clusters are asked when the page is, so it stays as it is.

use std::sync::Arc;

use api::pipeline::{AppStatus, TargetStatus};
use axum::{
    extract::{Query, State as Shared},
    response::{IntoResponse, Response},
};
use serde::Deserialize;

use super::{
    Failure,
    html::{Element, Html, tag},
    layout::{self, Tab},
    sign_in::Viewer,
    words::{address, badge, encoded},
};
use crate::{
    Door,
    fleet::{self, Fleet, Found, Named, Unread},
    leaf::apps::App,
    objects::cluster_of,
    rest::Problem,
    view::version_of,
    watched::ObjectKey,
};
use planner::SummaryState;

/// How many rows a page has.
const PAGE: usize = 250;

/// What is asked for.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Filter {
    q: String,
    cluster: String,
    /// `outside` for apps that no pipeline names, `inside` for the others.
    pipelines: String,
    page: Option<usize>,
}

pub(super) async fn show(
    Shared(door): Shared<Arc<Door>>,
    viewer: Viewer,
    Query(filter): Query<Filter>,
) -> Result<Response, Failure> {
    let only = Some(filter.cluster.trim()).filter(|it| !it.is_empty());
    let fleet = fleet::look(&door, &viewer.caller, only).await?;
    let is_whole = fleet.is_some();
    let mut fleet = match fleet {
        Some(fleet) => fleet,
        None => stored(&viewer).await?,
    };
    fleet.apps.retain(|found| filter.wants(found));
    fleet.apps.sort_by_cached_key(order);
    let content = content(&filter, &fleet, is_whole);
    Ok(layout::plain("Apps", &viewer, Tab::Apps, content).into_response())
}

/// What pipelines see.
async fn stored(viewer: &Viewer) -> Result<Fleet, Problem> {
    let mut fleet = Fleet::default();
    for pipeline in viewer.caller.pipelines().await? {
        let key = ObjectKey::of(&*pipeline);
        let environments = pipeline.status.iter().flat_map(|it| &it.environments);
        for (environment, status) in environments {
            for target in &status.targets {
                let named = Named {
                    pipeline: key.clone(),
                    environment: environment.clone(),
                };
                let apps = target.apps.iter();
                fleet.apps.extend(apps.map(|app| seen(app, target, &named)));
            }
        }
    }
    Ok(fleet)
}

fn seen(app: &AppStatus, target: &TargetStatus, named: &Named) -> Found {
    let own = &named.pipeline.namespace;
    let cluster = cluster_of(target).map(|cluster| {
        let namespace = cluster.namespace.as_deref().unwrap_or(own);
        ObjectKey::new(namespace, &cluster.name)
    });
    Found {
        cluster,
        app: App {
            kind: app.kind.clone(),
            namespace: target.namespace.clone().unwrap_or_default(),
            name: app.name.clone(),
            version: version_of(app, target),
            revision: app.revision.clone(),
            ready: app.ready,
            message: app.message.clone(),
            images: app.images.clone(),
            ..App::default()
        },
        named_by: vec![named.clone()],
    }
}

/// Alike things together, so that what differs is seen.
fn order(found: &Found) -> (String, String, Option<String>, String) {
    let cluster = found.cluster.as_ref().map(|cluster| cluster.name.clone());
    let app = &found.app;
    (
        app.name.clone(),
        app.kind.clone(),
        cluster,
        app.namespace.clone(),
    )
}

impl Filter {
    fn wants(&self, found: &Found) -> bool {
        let cluster = found.cluster.as_ref().map_or("", |it| it.name.as_str());
        let (app, asked) = (&found.app, self.cluster.trim());
        let texts = [
            Some(&app.name),
            Some(&app.kind),
            Some(&app.namespace),
            app.chart.as_ref(),
            app.version.as_ref(),
            app.revision.as_ref(),
        ];
        let texts = texts.into_iter().flatten().chain(&app.images);
        let text = texts.fold(cluster.to_lowercase(), |all, text| {
            all + "\n" + &text.to_lowercase()
        });
        let is_named = !found.named_by.is_empty();
        let mut words = self.q.split_whitespace();
        (asked.is_empty() || asked == cluster)
            && words.all(|word| text.contains(&word.to_lowercase()))
            && match self.pipelines.as_str() {
                "outside" => !is_named,
                "inside" => is_named,
                _ => true,
            }
    }

    fn address(&self, page: usize) -> String {
        format!(
            "/apps?q={}&cluster={}&pipelines={}&page={}",
            encoded(&self.q),
            encoded(&self.cluster),
            encoded(&self.pipelines),
            page + 1
        )
    }

    fn form(&self) -> Element {
        let field = |name: &'static str, label: &str, kind: &str, value: &str| {
            let input = tag("input").id(name).with("name", name);
            let input = input.with("type", kind).with("value", value);
            let label = tag("label").with("for", name).text(label);
            tag("span").class("field").child(label).child(input)
        };
        let choices = [
            ("", "all"),
            ("inside", "named by one"),
            ("outside", "named by none"),
        ];
        let options = choices.map(|(value, name)| {
            let option = tag("option").with("value", value).text(name);
            option.set("selected", self.pipelines == value)
        });
        let select = tag("select").id("pipelines").with("name", "pipelines");
        let label = tag("label").with("for", "pipelines").text("Pipelines");
        let choice = tag("span").class("field").child(label);
        tag("form")
            .class("filter")
            .with("role", "search")
            .with("method", "get")
            .link("/apps")
            .child(field("q", "Search", "search", &self.q))
            .child(field("cluster", "Cluster", "text", &self.cluster))
            .child(choice.child(select.children(options)))
            .child(tag("button").text("Show"))
    }
}

fn content(filter: &Filter, fleet: &Fleet, is_whole: bool) -> Html {
    let count = fleet.apps.len();
    let pages = count.div_ceil(PAGE).max(1);
    let page = filter.page.unwrap_or(1).saturating_sub(1).min(pages - 1);
    let shown = fleet.apps.iter().skip(page * PAGE).take(PAGE);
    let heads = ["App", "Where", "Version", "State", "Images", "Pipelines"];
    let heads = heads.map(|head| tag("th").with("scope", "col").text(head));
    let table = tag("table")
        .child(tag("caption").class("vh").text("Apps"))
        .child(tag("thead").child(tag("tr").children(heads)))
        .child(tag("tbody").children(shown.map(row)));
    let partly =
        "You see what your pipelines see. Who may inspect gitopsclusters sees every app on them.";
    let partly = (!is_whole).then(|| tag("p").class("dim").text(partly));
    Html::all([
        Html::from(tag("h1").text("Apps")),
        filter.form().into(),
        partly.into(),
        lacking(&fleet.unread).into(),
        table.into(),
        pages_of(filter, count, page, pages).into(),
    ])
}

/// What could not be read, the first few by name.
fn lacking(unread: &[Unread]) -> Option<Element> {
    const NAMED: usize = 5;
    let line = |unread: &Unread| {
        let cluster = match unread.cluster.as_str() {
            "" => "this cluster",
            name => name,
        };
        tag("p").text(format_args!("{cluster}: {}", unread.because))
    };
    let more = unread.len().saturating_sub(NAMED);
    let more = (more > 0).then(|| tag("p").text(format_args!("and {more} more")));
    let named = unread.iter().take(NAMED).map(line);
    let block = tag("div").class("told bad").children(named).child(more);
    (!unread.is_empty()).then_some(block)
}

fn row(found: &Found) -> Element {
    let app = &found.app;
    let cluster = found.cluster.as_ref();
    let cluster = cluster.map_or("this cluster", |cluster| &cluster.name);
    let state = if app.ready {
        SummaryState::Ready
    } else {
        SummaryState::NotReady
    };
    let version = app.version.as_ref().or(app.revision.as_ref());
    let message = app.message.as_ref().filter(|_| !app.ready);
    let images = app.images.iter();
    let named = found.named_by.iter().map(|named| {
        let link = tag("a")
            .link(&address(&named.pipeline))
            .text(&named.pipeline.name);
        tag("p")
            .child(link)
            .text(format_args!(" {}", named.environment))
    });
    tag("tr")
        .child(
            tag("th")
                .with("scope", "row")
                .child(tag("span").text(&app.name))
                .child(tag("small").text(&app.kind)),
        )
        .child(tag("td").text(format_args!("{cluster} / {}", app.namespace)))
        .child(
            tag("td")
                .child(version.map(|version| tag("code").text(version)))
                .child(app.chart.as_ref().map(|chart| tag("small").text(chart))),
        )
        .child(
            tag("td")
                .child(badge(state))
                .child(message.map(|message| tag("small").text(message))),
        )
        .child(tag("td").children(images.map(|image| tag("p").child(tag("code").text(image)))))
        .child(tag("td").children(named))
}

fn pages_of(filter: &Filter, count: usize, page: usize, pages: usize) -> Element {
    let said = match count {
        0 => "No app matches.".to_owned(),
        1 => "1 app".to_owned(),
        _ => format!("{count} apps"),
    };
    let nav = tag("nav").class("pages").with("aria-label", "Pages");
    let nav = nav.child(tag("span").text(said));
    let numbers = (0..pages).filter(|_| pages > 1).map(|number| {
        let link = tag("a").link(&filter.address(number)).text(number + 1);
        match number == page {
            true => link.with("aria-current", "page"),
            false => link,
        }
    });
    nav.children(numbers)
}
