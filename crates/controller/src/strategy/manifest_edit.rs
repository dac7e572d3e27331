//! Which manifests a promotion edits: those with its marker or, without a marker, the app's own, found
//! by identity.
//!
//! The app's manifest is searched in the folder that Flux applied the app from, if that is in the
//! strategy's repository, else in the folders of the strategy's `paths`. The folders of all other
//! targets are listed too, or that they are unknown, so that no manifest they use is edited.

mod target_folders;

use std::collections::BTreeSet;

use api::{
    app::AppType,
    image::Image,
    names::short_hash,
    pipeline::{AppReference, TargetStatus},
    revision::SourceRevision,
};
use git::{
    manifest::{ManifestIdentity, PinnedVersion, VersionField, WantedField},
    propose::RequestedEdit,
};
use planner::Failure;

use super::{
    PromotionTask, promotion_description::PromotionDescription,
    promotion_proposal::RepositoryStrategy,
};
use target_folders::{TargetFolder, target_locations};

/// The edit: of marked fields, or of the app's manifest.
pub(super) fn alteration(
    description: &PromotionDescription<'_>,
    to: &RepositoryStrategy<'_>,
) -> Result<RequestedEdit, Failure> {
    let marker = description.marker();
    let value = marked_value(description);
    let wanted = wanted(description, to)?;
    // Without a folder to search, the error must be that the marker is missing.
    let has_no_folder = wanted.iter().all(|wanted| wanted.directories.is_empty());
    Ok(match has_no_folder {
        true => RequestedEdit::MarkedFields { marker, value },
        false => RequestedEdit::MarkedOrFoundFields {
            marker,
            value,
            wanted,
        },
    })
}

/// A hash of what is known about the folders of all targets. The cache may have the promotion before
/// the status it was planned from.
pub(super) fn known_locations(task: PromotionTask<'_>) -> String {
    let mut known = Vec::new();
    for (environment, target) in PromotionDescription::of(task).all_targets() {
        let origins = target.apps.iter().filter_map(|app| app.origin.as_ref());
        known.extend([environment, target.namespace.as_deref().unwrap_or_default()]);
        known.extend(origins.flat_map(|origin| {
            let branch = origin.branch.as_deref().unwrap_or_default();
            [origin.url.as_str(), &origin.path, branch]
        }));
    }
    short_hash(&known)
}

/// What to search for, once for each target of the promotion that has folders of its own.
fn wanted(
    description: &PromotionDescription<'_>,
    to: &RepositoryStrategy<'_>,
) -> Result<Vec<WantedField>, Failure> {
    let Some(app) = &description.task.pipeline.spec.app_ref else {
        return Ok(Vec::new());
    };
    let (own, others): (Vec<TargetFolder<'_>>, Vec<TargetFolder<'_>>) =
        target_locations(description, to)?
            .into_iter()
            .partition(|location| location.is_own);
    let mut wanted: Vec<WantedField> = Vec::new();
    for (location, target) in own
        .iter()
        .filter_map(|location| Some((location, location.target?)))
    {
        let Some(field) = field(description, app, target) else {
            return Ok(Vec::new());
        };
        // Targets with the same namespace and folders are listed once.
        let mut listed = BTreeSet::new();
        let protected = others
            .iter()
            .filter_map(|other| other.protected_from(location));
        let protected = protected
            .filter(|other| listed.insert((other.namespace.clone(), other.directories.clone())));
        let one = WantedField {
            identity: identity(app, target),
            pin: pin(description, &field),
            field,
            directories: location.directories(),
            others: protected.collect(),
        };
        if !wanted.contains(&one) {
            wanted.push(one);
        }
    }
    Ok(wanted)
}

fn identity(app: &AppReference, target: &TargetStatus) -> ManifestIdentity {
    let group = app
        .api_version
        .split_once('/')
        .map_or("", |(group, _)| group);
    ManifestIdentity {
        group: group.to_owned(),
        kind: app.kind.clone(),
        namespace: target.namespace.clone().unwrap_or_default(),
        name: app.name.clone(),
    }
}

/// The field that holds the version; `None` for kinds whose fields are not known.
fn field(
    description: &PromotionDescription<'_>,
    app: &AppReference,
    target: &TargetStatus,
) -> Option<VersionField> {
    if let Some(track) = &description.task.pipeline.spec.track {
        let name = track.image.clone();
        return Some(VersionField::Image { name });
    }
    match AppType::of(&app.api_version, &app.kind) {
        AppType::HelmRelease => Some(VersionField::Chart),
        AppType::Kustomization => Some(VersionField::Source),
        AppType::Workload(_) => running_image(target),
        AppType::ResourceSet | AppType::Other => None,
    }
}

/// The image whose tag is the revision that a workload runs.
fn running_image(target: &TargetStatus) -> Option<VersionField> {
    let images = target.apps.iter().flat_map(|app| &app.images);
    let images = images.filter_map(|image| Image::parse(image));
    let is_running = |image: &Image| {
        let revision = target.revision.as_deref();
        Some(image.revision()) == revision
            || Some(image.version()) == revision
            || image.digest().is_none() && Some(image.version()) == target.version.as_deref()
    };
    let running = images.filter(is_running);
    let running: BTreeSet<String> = running.map(|image| image.name().to_owned()).collect();
    let mut images: Vec<String> = running.into_iter().collect();
    match images.len() {
        0 | 1 => images.pop().map(|name| VersionField::Image { name }),
        _ => Some(VersionField::OneOf { images }),
    }
}

/// The value that replaces a marked field.
fn marked_value(description: &PromotionDescription<'_>) -> PinnedVersion {
    match &description.task.pipeline.spec.track {
        Some(track) => pin(
            description,
            &VersionField::Image {
                name: track.image.clone(),
            },
        ),
        None => pin(description, &VersionField::Source),
    }
}

/// The version, with its digest (that of the revision, else of an image that runs somewhere already)
/// or the commit of a git revision.
fn pin(description: &PromotionDescription<'_>, field: &VersionField) -> PinnedVersion {
    let spec = &description.task.promotion.spec;
    let version = spec.version.clone();
    let source = SourceRevision::parse(&spec.revision);
    let digest = source.content_digest();
    let (digest, commit) = match field {
        VersionField::Image { name } => (
            digest.or_else(|| digest_of(description, name, &version)),
            None,
        ),
        VersionField::OneOf { .. } => (digest, None),
        VersionField::Chart | VersionField::Source => {
            let commit = source.commit().filter(|_| digest.is_none());
            let commit = commit.map(str::to_owned);
            (digest, commit)
        }
    };
    PinnedVersion {
        version,
        digest,
        commit,
    }
}

/// The digest of a running image; `None` where there are several.
fn digest_of(description: &PromotionDescription<'_>, name: &str, version: &str) -> Option<String> {
    let apps = description
        .all_targets()
        .flat_map(|(_, target)| &target.apps);
    let images = apps.flat_map(|app| &app.images);
    let images = images.filter_map(|image| Image::parse(image));
    let images = images.filter(|image| image.is(name) && image.version() == version);
    let digests = images.filter_map(|image| image.digest().map(str::to_owned));
    let mut digests: BTreeSet<String> = digests.collect();
    digests.pop_first().filter(|_| digests.is_empty())
}

#[cfg(test)]
mod tests;
