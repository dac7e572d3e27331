//! Deployments, StatefulSets and DaemonSets.

use super::AppReading;
use crate::{
    Revision,
    image::{Image, common_revision},
    workload::{Workload, WorkloadKind},
};

pub(super) fn reading(
    kind: WorkloadKind,
    app: &Workload,
    generation: i64,
    name: Option<&str>,
) -> AppReading {
    let lagging = app.status.observed_generation.unwrap_or_default() < generation;
    let failure = app.failure().filter(|_| !lagging);
    let waits_for = app.waits_for(kind);
    let image = tracked_image(app, name);
    let revision = image
        .as_ref()
        .ok()
        .and_then(|image| Revision::new(image.revision()));
    AppReading {
        ready: !lagging && failure.is_none() && waits_for.is_none() && revision.is_some(),
        version: image
            .as_ref()
            .ok()
            .filter(|_| revision.is_some())
            .map(|image| image.version().to_owned()),
        digest: image
            .as_ref()
            .ok()
            .and_then(|image| image.digest().map(str::to_owned)),
        source_commit: None,
        attempted: revision.clone(),
        revision,
        lagging,
        failed: failure.is_some(),
        suspended: app.spec.paused,
        message: failure
            .and_then(|failure| failure.message.clone())
            .or(waits_for),
        error: image.err(),
    }
}

/// The image whose tag is the revision, or why there is no such image.
fn tracked_image(app: &Workload, name: Option<&str>) -> Result<Image, String> {
    let mut images = app.images();
    let Some(name) = name else {
        return images
            .into_iter()
            .next()
            .ok_or_else(|| "it has no container image".to_owned());
    };
    images.retain(|image| image.is(name));
    match common_revision(&images) {
        Ok(Some(image)) => Ok(image.clone()),
        Ok(None) => Err(format!("no container runs the image {name}")),
        Err([one, other]) => Err(format!(
            "containers run the image {name} at {} and at {}",
            one.shown_revision(),
            other.shown_revision()
        )),
    }
}
