//! Which manifest is missing, where it belongs, and how it differs from its model.

use anyhow::bail;
use api::{
    Pipeline,
    names::PromotionSite,
    pipeline::{AppReference, Scope},
};
use git::paths::PathLimits;

use super::super::{checkout::Checkout, cluster::key, plan::comment, yaml};

/// A file to be written.
pub(super) struct Manifest {
    pub(super) environment: String,
    pub(super) path: String,
    pub(super) content: String,
    /// The file it was copied from.
    pub(super) model: String,
    /// What a person still has to do.
    pub(super) remarks: Vec<String>,
}

/// Where an app runs, and what its promotions look for.
pub(super) struct Target {
    environment: String,
    cluster: Option<String>,
    namespace: String,
    marker: String,
}

impl Target {
    /// Every target of an environment.
    pub(super) fn all(pipeline: &Pipeline, environment: &str) -> Vec<Self> {
        let (home, name) = key(pipeline);
        let settings = pipeline.spec.promotion_into(environment);
        let is_single = settings.and_then(|it| it.scope) == Some(Scope::Target);
        let targets = planner::targets_of(pipeline, environment).into_iter();
        targets
            .map(|(cluster, namespace)| {
                let place = match is_single {
                    true => PromotionSite::target(environment, cluster.as_deref(), &namespace),
                    false => PromotionSite::environment(environment),
                };
                Self {
                    environment: environment.to_owned(),
                    marker: planner::marker(home, name, &place),
                    cluster,
                    namespace,
                }
            })
            .collect()
    }

    /// The names that may be part of a path to its manifests.
    fn names(&self) -> [&str; 3] {
        let cluster = self.cluster.as_deref().unwrap_or_default();
        [&self.environment, cluster, &self.namespace]
    }
}

/// The manifest of a target, unless it is there.
pub(super) fn missing(
    pipeline: &Pipeline,
    app: &AppReference,
    models: &[Target],
    target: &Target,
    checkout: &Checkout,
) -> anyhow::Result<Option<Manifest>> {
    for model in models {
        for (path, text) in manifests_of(app, &model.namespace, checkout) {
            let Some(destination) = moved(path, model, target) else {
                continue;
            };
            if checkout.files.contains_key(&destination) {
                return Ok(None);
            }
            // Environments may be called anything.
            PathLimits::new([destination.as_str()])?;
            return Ok(Some(copy(path, &destination, text, model, target)));
        }
    }
    let is_there = manifests_of(app, &target.namespace, checkout).count() > 0;
    let is_own = models.iter().all(|it| it.namespace != target.namespace);
    if is_there && is_own {
        return Ok(None);
    }
    let (_, name) = key(pipeline);
    bail!(
        "cannot tell where the manifest of {name} for {} belongs: no file with the {} {} has a \
         path that names {}",
        target.environment,
        app.kind,
        app.name,
        models
            .first()
            .map_or("the environment before", |it| it.environment.as_str())
    )
}

/// The files that hold the app for a namespace.
fn manifests_of<'a>(
    app: &'a AppReference,
    namespace: &'a str,
    checkout: &'a Checkout,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let texts = checkout.files.iter().filter_map(|(path, content)| {
        let text = std::str::from_utf8(content).ok()?;
        text.contains(&app.name).then_some((path.as_str(), text))
    });
    texts.filter(move |(_, text)| {
        let documents = yaml::documents(text);
        documents.iter().any(|document| {
            let Ok(value) = &document.value else {
                return false;
            };
            let metadata = &value["metadata"];
            let place = metadata["namespace"].as_str();
            value["kind"] == app.kind.as_str()
                && metadata["name"] == app.name.as_str()
                && place.is_none_or(|place| place == namespace)
        })
    })
}

/// The path with the names of one target for those of the other; nothing if it names none of them.
fn moved(path: &str, from: &Target, to: &Target) -> Option<String> {
    let names = from.names().into_iter().zip(to.names());
    let names: Vec<_> = names
        .filter(|(from, to)| !from.is_empty() && from != to && !to.is_empty())
        .collect();
    let part = |part: &str| {
        let renamed = names.iter().find_map(|(from, to)| renamed(part, from, to));
        renamed.unwrap_or_else(|| part.to_owned())
    };
    let moved: Vec<String> = path.split('/').map(part).collect();
    let moved = moved.join("/");
    (moved != path).then_some(moved)
}

/// A file's or folder's name in which one word is another.
fn renamed(part: &str, from: &str, to: &str) -> Option<String> {
    let start = part
        .match_indices(from)
        .map(|(start, _)| start)
        .find(|start| {
            let is_edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
            is_edge(part[..*start].chars().next_back())
                && is_edge(part[start + from.len()..].chars().next())
        })?;
    Some(format!(
        "{}{to}{}",
        &part[..start],
        &part[start + from.len()..]
    ))
}

fn copy(path: &str, destination: &str, text: &str, model: &Target, target: &Target) -> Manifest {
    let mut content = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        content.push_str(&copy_line(line, model, target));
    }
    let mut remarks = Vec::new();
    let has_marker = |content: &str| {
        let markers = git::edit::markers(content.as_bytes());
        markers.is_ok_and(|markers| markers.contains(&target.marker))
    };
    if !has_marker(&content)
        && let Some(marked) = with_marker(&content, &target.marker).filter(|it| has_marker(it))
    {
        content = marked;
    }
    if !has_marker(&content) {
        remarks.push(format!(
            "put {} behind the version",
            comment(&target.marker)
        ));
    }
    Manifest {
        environment: target.environment.clone(),
        path: destination.to_owned(),
        content,
        model: path.to_owned(),
        remarks,
    }
}

/// The line with the other namespace and the other marker.
fn copy_line(line: &str, model: &Target, target: &Target) -> String {
    let field = line.trim_start().strip_prefix("namespace:");
    let field = field.or_else(|| line.trim_start().strip_prefix("targetNamespace:"));
    let value = field.map(|rest| rest.split('#').next().unwrap_or(rest).trim());
    let value = value.map(|value| value.trim_matches(['"', '\'']));
    let line = match value == Some(model.namespace.as_str()) {
        true => {
            let (name, rest) = line.split_once(':').unwrap_or((line, ""));
            format!(
                "{name}:{}",
                rest.replacen(&model.namespace, &target.namespace, 1)
            )
        }
        false => line.to_owned(),
    };
    let (from, to) = (&model.marker, &target.marker);
    line.replace(&format!("\"{from}\""), &format!("\"{to}\""))
}

/// The first environment has no markers: the version of its chart gets one.
fn with_marker(content: &str, marker: &str) -> Option<String> {
    let is_version = |line: &&str| {
        let field = line.trim_start().strip_prefix("version:");
        field.is_some_and(|value| !value.trim().is_empty() && !value.contains('#'))
    };
    let mut versions = content.lines().filter(is_version);
    let (line, None) = (versions.next()?, versions.next()) else {
        return None;
    };
    let marked = format!("{} {}", line.trim_end(), comment(marker));
    Some(content.replacen(line, &marked, 1))
}
