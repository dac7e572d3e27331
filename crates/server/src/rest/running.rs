//! What runs where: every version and every image tag. What pipelines see is stored; with
//! `scope=clusters` the clusters themselves are asked, also for apps that no pipeline names.

use std::sync::Arc;

use api::{
    Pipeline,
    image::Image,
    pipeline::{AppStatus, TargetStatus},
};
use axum::{
    Json,
    extract::{Query, State},
};
use http::StatusCode;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use super::{
    Problem,
    access::Caller,
    show::{Listed, Page},
};
use crate::{
    Door,
    fleet::{self, Found, Unread},
    leaf::apps::App,
    view::version_of,
};

/// What is asked for; what is not said does not matter.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Filter {
    scope: Scope,
    namespace: Option<String>,
    pipeline: Option<String>,
    environment: Option<String>,
    /// Empty for the hub.
    cluster: Option<String>,
    cluster_namespace: Option<String>,
    target_namespace: Option<String>,
    kind: Option<String>,
    app: Option<String>,
    /// Whether no pipeline names it.
    outside: Option<bool>,
    chart: Option<String>,
    version: Option<String>,
    image: Option<String>,
    tag: Option<String>,
}

/// Where to look.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
enum Scope {
    /// At what pipelines see.
    #[default]
    Pipelines,
    /// Into every cluster that the caller may inspect.
    Clusters,
}

/// An app on a cluster, and the environment of a pipeline that it is in.
#[derive(Serialize, Clone, PartialEq)]
#[serde(rename_all = "camelCase")]
struct Place {
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

/// A version that runs somewhere.
#[derive(Serialize, PartialEq)]
pub(super) struct Version {
    #[serde(flatten)]
    place: Place,
    #[serde(skip_serializing_if = "Option::is_none")]
    chart: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
    ready: bool,
    /// The revision whose release failed; what runs is the last good one.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
    /// What an app that is not ready says about itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// An image that runs somewhere.
#[derive(Serialize, PartialEq)]
pub(super) struct Running {
    #[serde(flatten)]
    place: Place,
    image: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

pub(super) async fn versions(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Query(filter): Query<Filter>,
    Query(page): Query<Page>,
) -> Result<Json<Listed<Version>>, Problem> {
    let (mut found, unread) = match filter.scope {
        Scope::Clusters => everywhere(&door, &caller, &filter, versions_of).await?,
        Scope::Pipelines => (stored_versions(&caller).await?, Vec::new()),
    };
    found.retain(|it| {
        let said = it.version.as_deref().or(it.revision.as_deref());
        filter.wants_place(&it.place)
            && fits(filter.chart.as_ref(), it.chart.as_deref())
            && fits(filter.version.as_ref(), said)
    });
    found.sort_by(|one, other| one.place.order().cmp(&other.place.order()));
    // An environment may reach a target twice, such as by name and by selector.
    found.dedup();
    Ok(Json(page.of(found)?.lacking(unread)))
}

pub(super) async fn images(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Query(filter): Query<Filter>,
    Query(page): Query<Page>,
) -> Result<Json<Listed<Running>>, Problem> {
    let (mut found, unread) = match filter.scope {
        Scope::Clusters => everywhere(&door, &caller, &filter, images_of).await?,
        Scope::Pipelines => (stored_images(&caller).await?, Vec::new()),
    };
    found.retain(|it| {
        let is_image = fits(filter.image.as_ref(), Some(&it.image));
        filter.wants_place(&it.place) && is_image && fits(filter.tag.as_ref(), it.tag.as_deref())
    });
    found.sort_by(|one, other| {
        (&one.image, &one.tag, one.place.order(), &one.digest).cmp(&(
            &other.image,
            &other.tag,
            other.place.order(),
            &other.digest,
        ))
    });
    found.dedup();
    Ok(Json(page.of(found)?.lacking(unread)))
}

/// What the clusters say, of each app in each place.
async fn everywhere<T>(
    door: &Arc<Door>,
    caller: &Caller,
    filter: &Filter,
    of: fn(&App, Place) -> Vec<T>,
) -> Result<(Vec<T>, Vec<Unread>), Problem> {
    let fleet = fleet::look(door, caller, filter.cluster.as_deref()).await?;
    let fleet = fleet.ok_or_else(|| {
        let detail = format!(
            "{} may look into no cluster: a role with the verb inspect on gitopsclusters is needed",
            caller.name()
        );
        Problem::new(StatusCode::FORBIDDEN, detail)
    })?;
    let each = fleet.apps.iter().flat_map(|found| {
        let places = Place::all(found).into_iter();
        places.flat_map(|place| of(&found.app, place))
    });
    Ok((each.collect(), fleet.unread))
}

fn versions_of(app: &App, place: Place) -> Vec<Version> {
    let version = Version {
        place,
        chart: app.chart.clone(),
        version: app.version.clone(),
        revision: app.revision.clone(),
        ready: app.ready,
        failed: app.failed.clone(),
        message: app.message.clone().filter(|_| !app.ready),
    };
    version.if_known().into_iter().collect()
}

fn images_of(app: &App, place: Place) -> Vec<Running> {
    running(&app.images, &place).collect()
}

fn running(images: &[String], place: &Place) -> impl Iterator<Item = Running> {
    let images = images.iter().filter_map(|text| Image::parse(text));
    images.map(|image| Running {
        place: place.clone(),
        image: image.name().to_owned(),
        tag: image.tag().map(str::to_owned),
        digest: image.digest().map(str::to_owned),
    })
}

async fn stored_versions(caller: &Caller) -> Result<Vec<Version>, Problem> {
    let mut found = Vec::new();
    for pipeline in caller.pipelines().await? {
        each_target(&pipeline, |environment, target| {
            found.extend(stored_in(&pipeline, environment, target));
        });
    }
    Ok(found)
}

async fn stored_images(caller: &Caller) -> Result<Vec<Running>, Problem> {
    let mut found = Vec::new();
    for pipeline in caller.pipelines().await? {
        each_target(&pipeline, |environment, target| {
            for app in &target.apps {
                let place = Place::new(&pipeline, environment, target, Some(app));
                found.extend(running(&app.images, &place));
            }
        });
    }
    Ok(found)
}

fn each_target(pipeline: &Pipeline, mut look: impl FnMut(&str, &TargetStatus)) {
    let environments = pipeline.status.iter().flat_map(|it| &it.environments);
    for (name, environment) in environments {
        environment
            .targets
            .iter()
            .for_each(|target| look(name, target));
    }
}

/// One row for each app of a target. A target that is known by reports has no list of apps: its one
/// row names the pipeline's own app.
fn stored_in(pipeline: &Pipeline, environment: &str, target: &TargetStatus) -> Vec<Version> {
    if target.apps.is_empty() {
        let version = Version {
            place: Place::new(pipeline, environment, target, None),
            chart: None,
            version: target.version.clone(),
            revision: target.revision.clone(),
            ready: target.ready,
            failed: planner::failed_revision(target).map(str::to_owned),
            message: planner::failure_message(target).map(str::to_owned),
        };
        return version.if_known().into_iter().collect();
    }
    let is_alone = target.apps.len() == 1;
    let of_app = |app: &AppStatus| {
        let revision = app.revision.as_ref().or(target.revision.as_ref());
        let failed = planner::failed_revision(target).filter(|_| is_alone);
        let version = Version {
            place: Place::new(pipeline, environment, target, Some(app)),
            chart: None,
            version: version_of(app, target),
            revision: revision.cloned(),
            ready: app.ready,
            failed: failed.map(str::to_owned),
            message: app.message.clone().filter(|_| !app.ready),
        };
        version.if_known()
    };
    target.apps.iter().filter_map(of_app).collect()
}

impl Version {
    /// The row, unless nothing is known about what runs.
    fn if_known(self) -> Option<Self> {
        (self.revision.is_some() || self.failed.is_some()).then_some(self)
    }
}

impl Place {
    fn new(
        pipeline: &Pipeline,
        environment: &str,
        target: &TargetStatus,
        app: Option<&AppStatus>,
    ) -> Self {
        let named = target.cluster_app_ref.as_ref();
        let cluster = named.and_then(|named| named.cluster_ref.as_ref());
        let (kind, name) = match (app, named) {
            (Some(app), _) => (app.kind.clone(), app.name.clone()),
            (None, Some(named)) => (named.kind.clone(), named.name.clone()),
            (None, None) => Default::default(),
        };
        let own = pipeline.namespace();
        let cluster_namespace = cluster.and_then(|cluster| {
            let named = cluster.namespace.clone().filter(|it| !it.is_empty());
            named.or_else(|| own.clone())
        });
        Self {
            namespace: own,
            pipeline: Some(pipeline.name_any()),
            environment: Some(environment.to_owned()),
            cluster: cluster.map(|cluster| cluster.name.clone()),
            cluster_namespace,
            target_namespace: target.namespace.clone().unwrap_or_default(),
            kind,
            app: name,
        }
    }

    /// Once for each pipeline that names it, else once.
    fn all(found: &Found) -> Vec<Self> {
        let alone = Self {
            namespace: None,
            pipeline: None,
            environment: None,
            cluster: found.cluster.as_ref().map(|cluster| cluster.name.clone()),
            cluster_namespace: found.cluster.as_ref().map(|it| it.namespace.clone()),
            target_namespace: found.app.namespace.clone(),
            kind: found.app.kind.clone(),
            app: found.app.name.clone(),
        };
        if found.named_by.is_empty() {
            return vec![alone];
        }
        let named = found.named_by.iter().map(|named| Self {
            namespace: Some(named.pipeline.namespace.clone()),
            pipeline: Some(named.pipeline.name.clone()),
            environment: Some(named.environment.clone()),
            ..alone.clone()
        });
        named.collect()
    }

    fn order(&self) -> impl Ord {
        let named = [&self.namespace, &self.pipeline, &self.environment];
        // What pipelines name comes first.
        let is_outside = self.pipeline.is_none();
        let cluster = self.cluster.as_ref();
        let cluster = cluster.unwrap_or(&self.target_namespace);
        (
            is_outside,
            named,
            (cluster, &self.cluster_namespace),
            [&self.target_namespace, &self.kind, &self.app],
        )
    }
}

impl Filter {
    fn wants_place(&self, place: &Place) -> bool {
        let cluster = place.cluster.as_deref().unwrap_or_default();
        let is_outside = place.pipeline.is_none();
        fits(self.namespace.as_ref(), place.namespace.as_deref())
            && fits(self.pipeline.as_ref(), place.pipeline.as_deref())
            && fits(self.environment.as_ref(), place.environment.as_deref())
            && fits(self.cluster.as_ref(), Some(cluster))
            && fits(
                self.cluster_namespace.as_ref(),
                place.cluster_namespace.as_deref(),
            )
            && fits(
                self.target_namespace.as_ref(),
                Some(&place.target_namespace),
            )
            && fits(self.kind.as_ref(), Some(&place.kind))
            && fits(self.app.as_ref(), Some(&place.app))
            && self.outside.is_none_or(|outside| outside == is_outside)
    }
}

fn fits(wanted: Option<&String>, found: Option<&str>) -> bool {
    wanted.is_none_or(|wanted| found == Some(wanted))
}
