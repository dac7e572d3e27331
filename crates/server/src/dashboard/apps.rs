//! The apps page: all apps on the clusters that the viewer may inspect, else the apps of pipelines.
//!
//! The filter is in the address. Clusters are read when the page is requested; it is not kept up to
//! date.

use std::sync::Arc;

use api::pipeline::{AppStatus, TargetStatus};
use axum::{
    extract::{Query, State},
    response::{IntoResponse, Response},
};
use planner::SummaryState;
use runtime::ObjectKey;
use serde::Deserialize;

use super::{
    ErrorPage,
    components::{address, badge, counted, empty_state, page_links, percent_encoded, table},
    html::{Element, Html, tag},
    layout::{self, Tab},
    sign_in::Viewer,
    version::chip,
};
use crate::{
    AppState,
    fleet::{self, EnvironmentReference, Fleet, FleetApp, UnreadCluster},
    leaf::apps::DeployedApp,
    problem::Problem,
    target_objects::cluster_key_of,
    view::version_of,
};

/// How many rows a page has.
const PAGE_SIZE: usize = 250;

/// The filter and the page of results.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct AppsQuery {
    q: String,
    cluster: String,
    /// `outside` for apps that belong to no pipeline, `inside` for the others.
    pipelines: String,
    page: Option<usize>,
}

pub(super) async fn show(
    State(app_state): State<Arc<AppState>>,
    viewer: Viewer,
    Query(query): Query<AppsQuery>,
) -> Result<Response, ErrorPage> {
    let only = Some(query.cluster.trim()).filter(|it| !it.is_empty());
    let fleet = fleet::read_fleet(&app_state, &viewer.caller, only).await?;
    let is_whole = fleet.is_some();
    let mut fleet = match fleet {
        Some(fleet) => fleet,
        None => apps_of_pipelines(&viewer).await?,
    };
    fleet.apps.retain(|app| query.matches(app));
    fleet.apps.sort_by_cached_key(sort_key);
    let content = content(&query, &fleet, is_whole);
    let title = ("Apps", Some(Tab::Apps));
    let page = layout::plain(&app_state, &viewer, title, content).await?;
    Ok(page.into_response())
}

/// The apps in the status of pipelines.
async fn apps_of_pipelines(viewer: &Viewer) -> Result<Fleet, Problem> {
    let mut fleet = Fleet::default();
    for pipeline in viewer.caller.pipelines().await? {
        let key = ObjectKey::of(&pipeline.metadata);
        let environments = pipeline.status.iter().flat_map(|it| &it.environments);
        for (environment, status) in environments {
            for target in &status.targets {
                let reference = EnvironmentReference {
                    pipeline: key.clone(),
                    environment: environment.clone(),
                };
                let apps = target.apps.iter();
                let apps = apps.map(|app| observed_app(app, target, &reference));
                fleet.apps.extend(apps);
            }
        }
    }
    Ok(fleet)
}

fn observed_app(
    app: &AppStatus,
    target: &TargetStatus,
    reference: &EnvironmentReference,
) -> FleetApp {
    FleetApp {
        cluster: cluster_key_of(target, &reference.pipeline.namespace),
        app: DeployedApp {
            kind: app.kind.clone(),
            namespace: target.namespace.clone().unwrap_or_default(),
            name: app.name.clone(),
            version: version_of(app, target),
            revision: app.revision.clone(),
            ready: app.ready,
            message: app.message.clone(),
            images: app.images.clone(),
            ..DeployedApp::default()
        },
        environments: vec![reference.clone()],
    }
}

/// Sorts apps of the same name next to each other, so that differences stand out.
fn sort_key(found: &FleetApp) -> (String, String, Option<String>, String) {
    let cluster = found.cluster.as_ref().map(|cluster| cluster.name.clone());
    let app = &found.app;
    (
        app.name.clone(),
        app.kind.clone(),
        cluster,
        app.namespace.clone(),
    )
}

impl AppsQuery {
    fn matches(&self, found: &FleetApp) -> bool {
        let cluster = found.cluster.as_ref().map_or("", |it| it.name.as_str());
        let (app, wanted_cluster) = (&found.app, self.cluster.trim());
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
        let is_in_pipeline = !found.environments.is_empty();
        let mut words = self.q.split_whitespace();
        (wanted_cluster.is_empty() || wanted_cluster == cluster)
            && words.all(|word| text.contains(&word.to_lowercase()))
            && match self.pipelines.as_str() {
                "outside" => !is_in_pipeline,
                "inside" => is_in_pipeline,
                _ => true,
            }
    }

    fn address(&self, page: usize) -> String {
        format!(
            "/apps?q={}&cluster={}&pipelines={}&page={}",
            percent_encoded(&self.q),
            percent_encoded(&self.cluster),
            percent_encoded(&self.pipelines),
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
            ("inside", "in a pipeline"),
            ("outside", "in no pipeline"),
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

fn content(query: &AppsQuery, fleet: &Fleet, is_whole: bool) -> Html {
    let count = fleet.apps.len();
    let pages = count.div_ceil(PAGE_SIZE).max(1);
    let page = query.page.unwrap_or(1).saturating_sub(1).min(pages - 1);
    let shown = fleet.apps.iter().skip(page * PAGE_SIZE).take(PAGE_SIZE);
    let heads = ["App", "Target", "Version", "State", "Images", "Pipelines"];
    let table = table("Apps", &heads, Html::all(shown.map(row)));
    let restricted = "These are the apps of pipelines. To see all apps on a cluster you need the verb \
         inspect on gitopsclusters.";
    let restricted = (!is_whole).then(|| tag("p").class("dim").text(restricted));
    Html::all([
        Html::from(tag("h1").text("Apps")),
        query.form().into(),
        restricted.into(),
        unread_notice(&fleet.unread).into(),
        table.into(),
        match count {
            0 => no_apps(query).into(),
            count => pages_of(query, count, page, pages).into(),
        },
    ])
}

fn no_apps(query: &AppsQuery) -> Element {
    let is_filtered = [&query.q, &query.cluster, &query.pipelines];
    match is_filtered.iter().any(|it| !it.trim().is_empty()) {
        true => empty_state(
            "No app matches.",
            "Change the search, or choose another cluster.",
        ),
        false => empty_state(
            "No apps",
            "HelmReleases, Kustomizations and workloads of the clusters appear here, whether or not a \
             pipeline promotes them.",
        ),
    }
}

/// The clusters that could not be read, the first few by name.
fn unread_notice(unread: &[UnreadCluster]) -> Option<Element> {
    const MAX_LISTED: usize = 5;
    let line = |unread: &UnreadCluster| {
        let cluster = match unread.cluster.as_str() {
            "" => "this cluster",
            name => name,
        };
        tag("p").text(format_args!("{cluster}: {}", unread.because))
    };
    let more = unread.len().saturating_sub(MAX_LISTED);
    let more = (more > 0).then(|| tag("p").text(format_args!("and {more} more")));
    let listed = unread.iter().take(MAX_LISTED).map(line);
    let title = match unread.len() {
        1 => "1 cluster could not be read:".to_owned(),
        count => format!("{count} clusters could not be read:"),
    };
    let block = tag("div")
        .class("notice warn")
        .child(tag("p").child(tag("strong").text(title)))
        .children(listed)
        .child(more);
    (!unread.is_empty()).then_some(block)
}

fn row(found: &FleetApp) -> Element {
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
    let environments = found.environments.iter().map(|it| {
        let link = tag("a")
            .link(&address(&it.pipeline))
            .text(&it.pipeline.name);
        tag("p")
            .child(link)
            .text(format_args!(" {}", it.environment))
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
                .child(version.map(|version| chip(version)))
                .child(app.chart.as_ref().map(|chart| tag("small").text(chart))),
        )
        .child(
            tag("td")
                .child(badge(state))
                .child(message.map(|message| tag("small").text(message))),
        )
        .child(tag("td").children(images.map(|image| tag("p").child(tag("code").text(image)))))
        .child(tag("td").children(environments))
}

fn pages_of(query: &AppsQuery, count: usize, page: usize, pages: usize) -> Element {
    let text = counted(count, "app");
    page_links(&text, (page, pages), |page| query.address(page))
}
