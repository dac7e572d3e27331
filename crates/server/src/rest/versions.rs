//! `/api/v1/versions` and `/api/v1/images`: the versions and images of all apps.
//!
//! By default from the status of pipelines. With `scope=clusters`, read from the clusters, including
//! apps that belong to no pipeline.

use std::sync::Arc;

use api::{
    Pipeline,
    image::Image,
    pipeline::{AppStatus, TargetStatus},
};
use axum::{Json, extract::State};
use http::StatusCode;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use super::{
    path::UrlQuery,
    show::{ListQuery, ListResponse},
};
use crate::{
    AppState,
    access::Caller,
    fleet::{self, FleetApp, UnreadCluster},
    leaf::apps::DeployedApp,
    problem::Problem,
    target_objects::cluster_key_of,
    view::version_of,
};

/// Which apps to return; absent fields match everything.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AppFilter {
    scope: SearchScope,
    namespace: Option<String>,
    pipeline: Option<String>,
    environment: Option<String>,
    /// Empty for the hub.
    cluster: Option<String>,
    cluster_namespace: Option<String>,
    target_namespace: Option<String>,
    kind: Option<String>,
    app: Option<String>,
    /// Whether it belongs to no pipeline.
    outside: Option<bool>,
    chart: Option<String>,
    version: Option<String>,
    image: Option<String>,
    tag: Option<String>,
}

/// Where apps are read from.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
enum SearchScope {
    /// The status of pipelines.
    #[default]
    Pipelines,
    /// Every cluster that the caller may inspect.
    Clusters,
}

/// An app on a cluster, and the environment that it belongs to.
#[derive(Serialize, Clone, PartialEq)]
#[serde(rename_all = "camelCase")]
struct AppLocation {
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pipeline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    /// The GitopsCluster's namespace: clusters of several namespaces may have the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_namespace: Option<String>,
    target_namespace: String,
    kind: String,
    app: String,
}

/// The version of an app.
#[derive(Serialize, PartialEq)]
pub(super) struct VersionRow {
    #[serde(flatten)]
    location: AppLocation,
    #[serde(skip_serializing_if = "Option::is_none")]
    chart: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
    ready: bool,
    /// The revision whose release failed; the version is the last that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
    /// The message of an app that is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// An image of an app.
#[derive(Serialize, PartialEq)]
pub(super) struct ImageRow {
    #[serde(flatten)]
    location: AppLocation,
    image: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

pub(super) async fn versions(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    UrlQuery(filter): UrlQuery<AppFilter>,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> Result<Json<ListResponse<VersionRow>>, Problem> {
    let (mut found, unread) = match filter.scope {
        SearchScope::Clusters => from_clusters(&app_state, &caller, &filter, versions_of).await?,
        SearchScope::Pipelines => (stored_versions(&caller).await?, Vec::new()),
    };
    found.retain(|it| {
        let version = it.version.as_deref().or(it.revision.as_deref());
        filter.matches_location(&it.location)
            && matches(filter.chart.as_ref(), it.chart.as_deref())
            && matches(filter.version.as_ref(), version)
    });
    found.sort_by(|one, other| one.location.order().cmp(&other.location.order()));
    // An environment may contain a target twice, such as by name and by selector.
    found.dedup();
    Ok(Json(query.page_of(found)?.with_unread(unread)))
}

pub(super) async fn images(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    UrlQuery(filter): UrlQuery<AppFilter>,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> Result<Json<ListResponse<ImageRow>>, Problem> {
    let (mut found, unread) = match filter.scope {
        SearchScope::Clusters => from_clusters(&app_state, &caller, &filter, images_of).await?,
        SearchScope::Pipelines => (stored_images(&caller).await?, Vec::new()),
    };
    found.retain(|it| {
        let is_image = matches(filter.image.as_ref(), Some(&it.image));
        filter.matches_location(&it.location)
            && is_image
            && matches(filter.tag.as_ref(), it.tag.as_deref())
    });
    found.sort_by(|one, other| {
        (&one.image, &one.tag, one.location.order(), &one.digest).cmp(&(
            &other.image,
            &other.tag,
            other.location.order(),
            &other.digest,
        ))
    });
    found.dedup();
    Ok(Json(query.page_of(found)?.with_unread(unread)))
}

/// The rows of each app on the clusters.
async fn from_clusters<T>(
    app_state: &Arc<AppState>,
    caller: &Caller,
    filter: &AppFilter,
    rows_of: fn(&DeployedApp, AppLocation) -> Vec<T>,
) -> Result<(Vec<T>, Vec<UnreadCluster>), Problem> {
    let fleet = fleet::read_fleet(app_state, caller, filter.cluster.as_deref()).await?;
    let fleet = fleet.ok_or_else(|| {
        let detail = format!(
            "{} may inspect no cluster: a role with the verb inspect on gitopsclusters is needed",
            caller.name()
        );
        Problem::new(StatusCode::FORBIDDEN, detail)
    })?;
    let rows = fleet.apps.iter().flat_map(|app| {
        let locations = AppLocation::of_fleet_app(app).into_iter();
        locations.flat_map(|location| rows_of(&app.app, location))
    });
    Ok((rows.collect(), fleet.unread))
}

fn versions_of(app: &DeployedApp, location: AppLocation) -> Vec<VersionRow> {
    let version = VersionRow {
        location,
        chart: app.chart.clone(),
        version: app.version.clone(),
        revision: app.revision.clone(),
        ready: app.ready,
        failed: app.failed.clone(),
        message: app.message.clone().filter(|_| !app.ready),
    };
    version.unless_unknown().into_iter().collect()
}

fn images_of(app: &DeployedApp, location: AppLocation) -> Vec<ImageRow> {
    image_rows(&app.images, &location).collect()
}

fn image_rows(images: &[String], location: &AppLocation) -> impl Iterator<Item = ImageRow> {
    let images = images.iter().filter_map(|text| Image::parse(text));
    images.map(|image| ImageRow {
        location: location.clone(),
        image: image.name().to_owned(),
        tag: image.tag().map(str::to_owned),
        digest: image.digest().map(str::to_owned),
    })
}

async fn stored_versions(caller: &Caller) -> Result<Vec<VersionRow>, Problem> {
    let mut found = Vec::new();
    for pipeline in caller.pipelines().await? {
        for_each_target(&pipeline, |environment, target| {
            found.extend(stored_in_target(&pipeline, environment, target));
        });
    }
    Ok(found)
}

async fn stored_images(caller: &Caller) -> Result<Vec<ImageRow>, Problem> {
    let mut found = Vec::new();
    for pipeline in caller.pipelines().await? {
        for_each_target(&pipeline, |environment, target| {
            for app in &target.apps {
                let location = AppLocation::new(&pipeline, environment, target, Some(app));
                found.extend(image_rows(&app.images, &location));
            }
        });
    }
    Ok(found)
}

fn for_each_target(pipeline: &Pipeline, mut visit: impl FnMut(&str, &TargetStatus)) {
    let environments = pipeline.status.iter().flat_map(|it| &it.environments);
    for (name, environment) in environments {
        environment
            .targets
            .iter()
            .for_each(|target| visit(name, target));
    }
}

/// One row for each app of a target. A target that is known from reports has no list of apps: its one
/// row is about the pipeline's `appRef`.
fn stored_in_target(
    pipeline: &Pipeline,
    environment: &str,
    target: &TargetStatus,
) -> Vec<VersionRow> {
    if target.apps.is_empty() {
        let version = VersionRow {
            location: AppLocation::new(pipeline, environment, target, None),
            chart: None,
            version: target.version.clone(),
            revision: target.revision.clone(),
            ready: target.ready,
            failed: planner::failed_revision(target).map(str::to_owned),
            message: planner::failure_message(target).map(str::to_owned),
        };
        return version.unless_unknown().into_iter().collect();
    }
    let is_alone = target.apps.len() == 1;
    let of_app = |app: &AppStatus| {
        let revision = app.revision.as_ref().or(target.revision.as_ref());
        let failed = planner::failed_revision(target).filter(|_| is_alone);
        let version = VersionRow {
            location: AppLocation::new(pipeline, environment, target, Some(app)),
            chart: None,
            version: version_of(app, target),
            revision: revision.cloned(),
            ready: app.ready,
            failed: failed.map(str::to_owned),
            message: app.message.clone().filter(|_| !app.ready),
        };
        version.unless_unknown()
    };
    target.apps.iter().filter_map(of_app).collect()
}

impl VersionRow {
    /// The row, unless neither a revision nor a failure is known.
    fn unless_unknown(self) -> Option<Self> {
        (self.revision.is_some() || self.failed.is_some()).then_some(self)
    }
}

impl AppLocation {
    fn new(
        pipeline: &Pipeline,
        environment: &str,
        target: &TargetStatus,
        app: Option<&AppStatus>,
    ) -> Self {
        let reference = target.cluster_app_ref.as_ref();
        let (kind, name) = match (app, reference) {
            (Some(app), _) => (app.kind.clone(), app.name.clone()),
            (None, Some(reference)) => (reference.kind.clone(), reference.name.clone()),
            (None, None) => Default::default(),
        };
        let namespace = pipeline.namespace();
        let cluster = cluster_key_of(target, namespace.as_deref().unwrap_or_default());
        Self {
            namespace,
            pipeline: Some(pipeline.name_any()),
            environment: Some(environment.to_owned()),
            cluster: cluster.as_ref().map(|cluster| cluster.name.clone()),
            cluster_namespace: cluster.map(|cluster| cluster.namespace),
            target_namespace: target.namespace.clone().unwrap_or_default(),
            kind,
            app: name,
        }
    }

    /// One location for each environment that the app belongs to; one without if there is none.
    fn of_fleet_app(fleet_app: &FleetApp) -> Vec<Self> {
        let outside = Self {
            namespace: None,
            pipeline: None,
            environment: None,
            cluster: fleet_app
                .cluster
                .as_ref()
                .map(|cluster| cluster.name.clone()),
            cluster_namespace: fleet_app.cluster.as_ref().map(|it| it.namespace.clone()),
            target_namespace: fleet_app.app.namespace.clone(),
            kind: fleet_app.app.kind.clone(),
            app: fleet_app.app.name.clone(),
        };
        if fleet_app.environments.is_empty() {
            return vec![outside];
        }
        let environments = fleet_app.environments.iter();
        let locations = environments.map(|it| Self {
            namespace: Some(it.pipeline.namespace.clone()),
            pipeline: Some(it.pipeline.name.clone()),
            environment: Some(it.environment.clone()),
            ..outside.clone()
        });
        locations.collect()
    }

    fn order(&self) -> impl Ord {
        let environment = [&self.namespace, &self.pipeline, &self.environment];
        // Apps of pipelines come first.
        let is_outside = self.pipeline.is_none();
        let cluster = self.cluster.as_ref();
        let cluster = cluster.unwrap_or(&self.target_namespace);
        (
            is_outside,
            environment,
            (cluster, &self.cluster_namespace),
            [&self.target_namespace, &self.kind, &self.app],
        )
    }
}

impl AppFilter {
    fn matches_location(&self, location: &AppLocation) -> bool {
        let cluster = location.cluster.as_deref().unwrap_or_default();
        let is_outside = location.pipeline.is_none();
        matches(self.namespace.as_ref(), location.namespace.as_deref())
            && matches(self.pipeline.as_ref(), location.pipeline.as_deref())
            && matches(self.environment.as_ref(), location.environment.as_deref())
            && matches(self.cluster.as_ref(), Some(cluster))
            && matches(
                self.cluster_namespace.as_ref(),
                location.cluster_namespace.as_deref(),
            )
            && matches(
                self.target_namespace.as_ref(),
                Some(&location.target_namespace),
            )
            && matches(self.kind.as_ref(), Some(&location.kind))
            && matches(self.app.as_ref(), Some(&location.app))
            && self.outside.is_none_or(|outside| outside == is_outside)
    }
}

fn matches(wanted: Option<&String>, found: Option<&str>) -> bool {
    wanted.is_none_or(|wanted| found == Some(wanted))
}
