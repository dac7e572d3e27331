//! What runs where: every version and every image tag that pipelines see, from what is stored.

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
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use super::{
    Problem,
    access::{Caller, PIPELINES},
    show::{Listed, Page},
};
use crate::Door;

/// What is asked for; what is not said does not matter.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Filter {
    namespace: Option<String>,
    pipeline: Option<String>,
    environment: Option<String>,
    cluster: Option<String>,
    app: Option<String>,
    version: Option<String>,
    image: Option<String>,
    tag: Option<String>,
}

/// An app in a target of an environment.
#[derive(Serialize, Clone)]
#[serde(rename_all = "camelCase")]
struct Place {
    namespace: String,
    pipeline: String,
    environment: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    target_namespace: String,
    kind: String,
    app: String,
}

/// A version that runs somewhere.
#[derive(Serialize)]
pub(super) struct Version {
    #[serde(flatten)]
    place: Place,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    revision: String,
    ready: bool,
}

/// An image that runs somewhere.
#[derive(Serialize)]
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
    let mut found = Vec::new();
    for pipeline in pipelines(&door, &caller).await? {
        each_target(&pipeline, |environment, target| {
            if let Some(version) = version(&pipeline, environment, target) {
                found.push(version);
            }
        });
    }
    let is_wanted = |it: &Version| {
        let said = it.version.as_deref().unwrap_or(&it.revision);
        filter.wants_place(&it.place) && fits(filter.version.as_ref(), Some(said))
    };
    found.retain(is_wanted);
    found.sort_by(|one, other| one.place.order().cmp(&other.place.order()));
    Ok(Json(page.of(found)?))
}

pub(super) async fn images(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Query(filter): Query<Filter>,
    Query(page): Query<Page>,
) -> Result<Json<Listed<Running>>, Problem> {
    let mut found = Vec::new();
    for pipeline in pipelines(&door, &caller).await? {
        each_target(&pipeline, |environment, target| {
            for app in &target.apps {
                let place = Place::new(&pipeline, environment, target, Some(app));
                let images = app.images.iter().filter_map(|text| Image::parse(text));
                found.extend(images.map(|image| Running {
                    place: place.clone(),
                    image: image.name().to_owned(),
                    tag: image.tag().map(str::to_owned),
                    digest: image.digest().map(str::to_owned),
                }));
            }
        });
    }
    found.retain(|it| {
        let is_image = fits(filter.image.as_ref(), Some(&it.image));
        filter.wants_place(&it.place) && is_image && fits(filter.tag.as_ref(), it.tag.as_deref())
    });
    found.sort_by(|one, other| {
        (&one.image, &one.tag, one.place.order()).cmp(&(
            &other.image,
            &other.tag,
            other.place.order(),
        ))
    });
    Ok(Json(page.of(found)?))
}

/// The pipelines that somebody may list.
async fn pipelines(door: &Arc<Door>, caller: &Caller) -> Result<Vec<Arc<Pipeline>>, Problem> {
    let all = door.watched.pipelines();
    let namespace_of = |it: &Arc<Pipeline>| it.namespace().unwrap_or_default();
    Ok(caller.visible(PIPELINES, all, namespace_of).await?)
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

fn version(pipeline: &Pipeline, environment: &str, target: &TargetStatus) -> Option<Version> {
    Some(Version {
        place: Place::new(pipeline, environment, target, None),
        version: target.version.clone(),
        revision: target.revision.clone()?,
        ready: target.ready,
    })
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
        Self {
            namespace: pipeline.namespace().unwrap_or_default(),
            pipeline: pipeline.name_any(),
            environment: environment.to_owned(),
            cluster: cluster.map(|cluster| cluster.name.clone()),
            target_namespace: target.namespace.clone().unwrap_or_default(),
            kind,
            app: name,
        }
    }

    fn order(&self) -> impl Ord {
        [
            &self.namespace,
            &self.pipeline,
            &self.environment,
            self.cluster.as_ref().unwrap_or(&self.target_namespace),
            &self.target_namespace,
            &self.app,
        ]
    }
}

impl Filter {
    fn wants_place(&self, place: &Place) -> bool {
        fits(self.namespace.as_ref(), Some(&place.namespace))
            && fits(self.pipeline.as_ref(), Some(&place.pipeline))
            && fits(self.environment.as_ref(), Some(&place.environment))
            && fits(self.cluster.as_ref(), place.cluster.as_deref())
            && fits(self.app.as_ref(), Some(&place.app))
    }
}

fn fits(wanted: Option<&String>, found: Option<&str>) -> bool {
    wanted.is_none_or(|wanted| found == Some(wanted))
}
