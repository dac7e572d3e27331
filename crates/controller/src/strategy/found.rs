//! What is looked for in a repository where nothing carries the promotion's marker.
//!
//! Where to look is what Flux applied the app from on its cluster, if that is the strategy's
//! repository; else what the strategy's `paths` say. All other places are named too, with their
//! folders or the word that these are not known, so that nothing they are built of is touched.

mod whereabouts;

use std::collections::BTreeSet;

use api::{
    app::Kind,
    image::Image,
    names::short_hash,
    pipeline::{AppReference, TargetStatus},
    revision::SourceRevision,
};
use git::{
    manifest::{Field, Identity, Pin, Wanted},
    propose::Alteration,
};
use planner::Failure;

use super::{Task, subject::Subject, words::Change};
use whereabouts::{Site, sites};

/// What should be different: what is marked, or what is found.
pub(super) fn alteration(subject: &Subject<'_>, to: &Change<'_>) -> Result<Alteration, Failure> {
    let marker = subject.marker();
    let value = marked(subject);
    let wanted = wanted(subject, to)?;
    // Without a folder to look in, the marker is what is missing.
    let is_lost = wanted.iter().all(|wanted| wanted.directories.is_empty());
    Ok(match is_lost {
        true => Alteration::Marked { marker, value },
        false => Alteration::Found {
            marker,
            value,
            wanted,
        },
    })
}

/// All that is known about where targets are built, as one word. The promotion may be seen a moment
/// before the status it was planned from.
pub(super) fn knowledge(task: Task<'_>) -> String {
    let mut known = Vec::new();
    for (environment, target) in Subject::of(task).all_targets() {
        let origins = target.apps.iter().filter_map(|app| app.origin.as_ref());
        known.extend([environment, target.namespace.as_deref().unwrap_or_default()]);
        known.extend(origins.flat_map(|origin| {
            let branch = origin.branch.as_deref().unwrap_or_default();
            [origin.url.as_str(), &origin.path, branch]
        }));
    }
    short_hash(&known)
}

/// One for each target of the place that is built on its own.
fn wanted(subject: &Subject<'_>, to: &Change<'_>) -> Result<Vec<Wanted>, Failure> {
    let Some(app) = &subject.task.pipeline.spec.app_ref else {
        return Ok(Vec::new());
    };
    let (own, others): (Vec<Site<'_>>, Vec<Site<'_>>) = sites(subject, to)?
        .into_iter()
        .partition(|site| site.is_own);
    let mut wanted: Vec<Wanted> = Vec::new();
    for (site, target) in own.iter().filter_map(|site| Some((site, site.target?))) {
        let Some(field) = field(subject, app, target) else {
            return Ok(Vec::new());
        };
        // Those that are built alike are spared alike.
        let mut known = BTreeSet::new();
        let beside = others.iter().filter_map(|other| other.beside(site));
        let beside = beside
            .filter(|other| known.insert((other.namespace.clone(), other.directories.clone())));
        let one = Wanted {
            identity: identity(app, target),
            pin: pin(subject, &field),
            field,
            directories: site.directories(),
            others: beside.collect(),
        };
        if !wanted.contains(&one) {
            wanted.push(one);
        }
    }
    Ok(wanted)
}

fn identity(app: &AppReference, target: &TargetStatus) -> Identity {
    let group = app
        .api_version
        .split_once('/')
        .map_or("", |(group, _)| group);
    Identity {
        group: group.to_owned(),
        kind: app.kind.clone(),
        namespace: target.namespace.clone().unwrap_or_default(),
        name: app.name.clone(),
    }
}

/// Nothing for kinds that nobody knows the inside of.
fn field(subject: &Subject<'_>, app: &AppReference, target: &TargetStatus) -> Option<Field> {
    if let Some(track) = &subject.task.pipeline.spec.track {
        let name = track.image.clone();
        return Some(Field::Image { name });
    }
    match Kind::of(&app.api_version, &app.kind) {
        Kind::HelmRelease => Some(Field::Chart),
        Kind::Kustomization => Some(Field::Source),
        Kind::Workload(_) => running_image(target),
        Kind::Other => None,
    }
}

/// The image whose tag is the revision that a workload runs.
fn running_image(target: &TargetStatus) -> Option<Field> {
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
        0 | 1 => images.pop().map(|name| Field::Image { name }),
        _ => Some(Field::OneOf { images }),
    }
}

/// What is written where a marker stands.
fn marked(subject: &Subject<'_>) -> Pin {
    match &subject.task.pipeline.spec.track {
        Some(track) => pin(
            subject,
            &Field::Image {
                name: track.image.clone(),
            },
        ),
        None => pin(subject, &Field::Source),
    }
}

/// The version, and what else it is known by: the digest that the revision is, else the one that an
/// image has where it runs already; the commit of a git revision.
fn pin(subject: &Subject<'_>, field: &Field) -> Pin {
    let spec = &subject.task.promotion.spec;
    let version = spec.version.clone();
    let source = SourceRevision::parse(&spec.revision);
    let digest = source.content_digest();
    let (digest, commit) = match field {
        Field::Image { name } => (digest.or_else(|| digest_of(subject, name, &version)), None),
        Field::OneOf { .. } => (digest, None),
        Field::Chart | Field::Source => {
            let commit = source.commit().filter(|_| digest.is_none());
            let commit = commit.map(str::to_owned);
            (digest, commit)
        }
    };
    Pin {
        version,
        digest,
        commit,
    }
}

/// Nothing where images of that name differ.
fn digest_of(subject: &Subject<'_>, name: &str, version: &str) -> Option<String> {
    let apps = subject.all_targets().flat_map(|(_, target)| &target.apps);
    let images = apps.flat_map(|app| &app.images);
    let images = images.filter_map(|image| Image::parse(image));
    let images = images.filter(|image| image.is(name) && image.version() == version);
    let digests = images.filter_map(|image| image.digest().map(str::to_owned));
    let mut digests: BTreeSet<String> = digests.collect();
    digests.pop_first().filter(|_| digests.is_empty())
}

#[cfg(test)]
mod tests;
