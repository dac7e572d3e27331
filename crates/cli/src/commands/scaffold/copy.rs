//! Finds missing manifests and creates them from a template, the manifest of the previous environment.

use anyhow::bail;
use api::{
    Pipeline,
    names::PromotionSite,
    pipeline::{AppReference, Scope},
};
use git::paths::PathLimits;
use serde_json::Value;

use super::{
    super::{checkout::ManifestCheckout, cluster::key, plan::comment, yaml},
    revision_text::RevisionText,
};

/// A file to write.
pub(super) struct NewManifest {
    pub(super) environment: String,
    pub(super) path: String,
    pub(super) content: String,
    /// The file it was copied from.
    pub(super) template: String,
    /// What the user still has to do.
    pub(super) remarks: Vec<String>,
}

/// A target and the marker of its promotions.
pub(super) struct ScaffoldTarget {
    pub(super) environment: String,
    pub(super) cluster: Option<String>,
    pub(super) namespace: String,
    marker: String,
}

impl ScaffoldTarget {
    /// All targets of an environment.
    pub(super) fn all(pipeline: &Pipeline, environment: &str) -> Vec<Self> {
        let (home, name) = key(pipeline);
        let settings = pipeline.spec.promotion_into(environment);
        let is_single = settings.and_then(|it| it.scope) == Some(Scope::Target);
        let targets = planner::targets_of(pipeline, environment).into_iter();
        targets
            .map(|(cluster, namespace)| {
                let site = match is_single {
                    true => PromotionSite::target(environment, cluster.as_deref(), &namespace),
                    false => PromotionSite::environment(environment),
                };
                Self {
                    environment: environment.to_owned(),
                    marker: planner::marker(home, name, &site),
                    cluster,
                    namespace,
                }
            })
            .collect()
    }

    /// The names that paths of its manifests may contain.
    fn names(&self) -> [&str; 3] {
        let cluster = self.cluster.as_deref().unwrap_or_default();
        [&self.environment, cluster, &self.namespace]
    }
}

/// The manifest of a target, or `None` if it exists.
pub(super) fn missing(
    pipeline: &Pipeline,
    app: &AppReference,
    templates: &[ScaffoldTarget],
    target: &ScaffoldTarget,
    checkout: &ManifestCheckout,
) -> anyhow::Result<Option<NewManifest>> {
    for template in templates {
        for (path, text) in manifests_of(app, &template.namespace, checkout) {
            let Some(destination) = moved(path, template, target) else {
                continue;
            };
            if checkout.files.contains_key(&destination) {
                return Ok(None);
            }
            // The name of an environment may contain slashes and dots.
            PathLimits::new([destination.as_str()])?;
            let revision = RevisionText::of(pipeline, template, target);
            let copied = Copy {
                template,
                target,
                revision,
            };
            return Ok(Some(copied.manifest(path, &destination, text)));
        }
    }
    let is_there = manifests_of(app, &target.namespace, checkout).count() > 0;
    let is_own = templates.iter().all(|it| it.namespace != target.namespace);
    if is_there && is_own {
        return Ok(None);
    }
    let (_, name) = key(pipeline);
    bail!(
        "cannot determine the path of the manifest of {name} for {}: no file with the {} {} has a \
         path that contains {}",
        target.environment,
        app.kind,
        app.name,
        templates
            .first()
            .map_or("the previous environment", |it| it.environment.as_str())
    )
}

/// The files with the app in a namespace.
fn manifests_of<'a>(
    app: &'a AppReference,
    namespace: &'a str,
    checkout: &'a ManifestCheckout,
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
            // A ResourceSet has the app among its resources.
            let inner = value["spec"]["resources"].as_array();
            let mut objects = inner.into_iter().flatten().chain([value]);
            objects.any(|object| is_app(object, app, namespace))
        })
    })
}

fn is_app(object: &Value, app: &AppReference, namespace: &str) -> bool {
    let metadata = &object["metadata"];
    let own = metadata["namespace"].as_str();
    object["kind"] == app.kind.as_str()
        && metadata["name"] == app.name.as_str()
        && own.is_none_or(|own| own == namespace)
}

/// The path with the names of one target replaced by those of the other; `None` if it contains none.
fn moved(path: &str, from: &ScaffoldTarget, to: &ScaffoldTarget) -> Option<String> {
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

/// The name of a file or folder with one word replaced.
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

/// The copy of a template for a target.
struct Copy<'a> {
    template: &'a ScaffoldTarget,
    target: &'a ScaffoldTarget,
    revision: RevisionText,
}

impl Copy<'_> {
    fn manifest(&self, path: &str, destination: &str, text: &str) -> NewManifest {
        let lines = text.split_inclusive('\n');
        let mut content: String = lines.map(|line| self.line(line)).collect();
        let marker = &self.target.marker;
        let has_marker = |content: &str| {
            let markers = git::edit::markers(content.as_bytes());
            markers.is_ok_and(|markers| markers.contains(marker))
        };
        let needs_marker = matches!(self.revision, RevisionText::Marker) && !has_marker(&content);
        if needs_marker
            && let Some(marked) = with_marker(&content, marker).filter(|it| has_marker(it))
        {
            content = marked;
        }
        let has_marker = has_marker(&content);
        let remark = self.revision.remark(&content, marker, has_marker);
        NewManifest {
            environment: self.target.environment.clone(),
            path: destination.to_owned(),
            content,
            template: path.to_owned(),
            remarks: remark.into_iter().collect(),
        }
    }

    /// The line with namespace, marker and revision replaced.
    fn line(&self, line: &str) -> String {
        let (template, target) = (self.template, self.target);
        let field = line.trim_start().strip_prefix("namespace:");
        let field = field.or_else(|| line.trim_start().strip_prefix("targetNamespace:"));
        let value = field.map(|rest| rest.split('#').next().unwrap_or(rest).trim());
        let value = value.map(|value| value.trim_matches(['"', '\'']));
        let line = match value == Some(template.namespace.as_str()) {
            true => {
                let (name, rest) = line.split_once(':').unwrap_or((line, ""));
                format!(
                    "{name}:{}",
                    rest.replacen(&template.namespace, &target.namespace, 1)
                )
            }
            false => line.to_owned(),
        };
        let (from, to) = (&template.marker, &target.marker);
        let line = line.replace(&format!("\"{from}\""), &format!("\"{to}\""));
        self.revision.line(&line)
    }
}

/// Adds a marker to the version of the chart: the first environment has none.
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
