//! What is looked for in a repository where nothing carries the promotion's marker.
//!
//! Where to look is what Flux applied the app from on its cluster, if that is the strategy's
//! repository; else what the strategy's `paths` say. The folders of all other places are named too,
//! so that nothing they are built of is touched.

use api::{
    app::Kind,
    image::Image,
    names::short_hash,
    pipeline::{AppReference, TargetStatus},
};
use git::{
    manifest::{Field, Identity, Pin, Wanted, is_same_repository},
    propose::Alteration,
};
use planner::Failure;

use super::{
    Task,
    subject::{Subject, fill_path},
    words::Change,
};

/// What should be different: what is marked, or what is found.
pub(super) fn alteration(subject: &Subject<'_>, to: &Change<'_>) -> Result<Alteration, Failure> {
    let marker = subject.marker();
    let value = subject.task.promotion.spec.version.clone();
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
        known.extend(origins.flat_map(|origin| [origin.url.as_str(), &origin.path]));
    }
    short_hash(&known)
}

/// One for each target of the place that is built on its own.
fn wanted(subject: &Subject<'_>, to: &Change<'_>) -> Result<Vec<Wanted>, Failure> {
    let Some(app) = &subject.task.pipeline.spec.app_ref else {
        return Ok(Vec::new());
    };
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for (environment, target) in subject.all_targets() {
        let directories = directories(subject, to, environment, target)?;
        match subject.covers(environment, target) {
            true => own.push((target, directories)),
            false => others.extend(directories),
        }
    }
    others.sort();
    others.dedup();
    // Where places are told apart by nothing but their names, they are not told apart by folders.
    others.retain(|other| !own.iter().any(|(_, own)| own.contains(other)));
    let mut wanted: Vec<Wanted> = Vec::new();
    for (target, directories) in own {
        let Some(field) = field(subject, app, target) else {
            return Ok(Vec::new());
        };
        let one = Wanted {
            identity: identity(app, target),
            pin: pin(subject, &field),
            field,
            directories,
            others: others.clone(),
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
        Kind::Workload(_) => Some(Field::Image {
            name: running_image(target)?,
        }),
        Kind::Other => None,
    }
}

/// The image whose tag is the revision that a workload runs, if there is just one.
fn running_image(target: &TargetStatus) -> Option<String> {
    let images = target.apps.iter().flat_map(|app| &app.images);
    let images = images.filter_map(|image| Image::parse(image));
    let mut running = images.filter(|image| Some(image.version()) == target.revision.as_deref());
    let image = running.next()?;
    running.next().is_none().then(|| image.name().to_owned())
}

/// The version, and for an image the digest it has where it runs already.
fn pin(subject: &Subject<'_>, field: &Field) -> Pin {
    let version = subject.task.promotion.spec.version.clone();
    let digest = match field {
        Field::Image { name } => digest_of(subject, name, &version),
        Field::Chart | Field::Source => None,
    };
    Pin { version, digest }
}

fn digest_of(subject: &Subject<'_>, name: &str, version: &str) -> Option<String> {
    let apps = subject.all_targets().flat_map(|(_, target)| &target.apps);
    let images = apps.flat_map(|app| &app.images);
    let mut images = images.filter_map(|image| Image::parse(image));
    images.find_map(|image| {
        let is_meant = image.is(name) && image.version() == version;
        image.digest().filter(|_| is_meant).map(str::to_owned)
    })
}

/// The folders that a target is built of in the strategy's repository.
fn directories(
    subject: &Subject<'_>,
    to: &Change<'_>,
    environment: &str,
    target: &TargetStatus,
) -> Result<Vec<String>, Failure> {
    let origins = target.apps.iter().filter_map(|app| app.origin.as_ref());
    let here = origins.filter(|origin| is_same_repository(&origin.url, to.url));
    let mut directories: Vec<_> = here.map(|origin| origin.path.clone()).collect();
    let settings = subject.task.pipeline.spec.promotion_into(environment);
    let change = settings.and_then(|settings| Change::of(&settings.strategy));
    let change = change.filter(|change| is_same_repository(change.url, to.url));
    if let Some(change) = change.filter(|_| directories.is_empty()) {
        let named = subject.target(target);
        for pattern in change.paths {
            directories.push(folder(&fill_path(pattern, environment, &named)?));
        }
    }
    directories.sort();
    directories.dedup();
    Ok(directories)
}

/// The folder that everything a pattern stands for is in.
fn folder(pattern: &str) -> String {
    let is_plain = |name: &&str| !name.contains(['*', '?']);
    let mut names: Vec<_> = pattern.split('/').take_while(is_plain).collect();
    let is_file = |name: &&str| name.ends_with(".yaml") || name.ends_with(".yml");
    names.pop_if(|name| is_file(&&**name));
    match names.join("/") {
        folder if folder.is_empty() => ".".to_owned(),
        folder => folder,
    }
}

#[cfg(test)]
mod tests;
