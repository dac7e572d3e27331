//! Paths: which resource, namespace, object and subresource a request is about.

use std::sync::Arc;

use crate::{
    Server, percent,
    resource::Resource,
    status::{ApiError, Result},
    verbs,
};

/// What a path below `/api/v1` or `/apis/{group}/{version}` names.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    /// Whether the path ends in `/status`.
    pub(crate) is_status: bool,
    /// Whether the path ends in `/scale`.
    pub(crate) is_scale: bool,
}

impl Target {
    /// The one object a path names, where it names one.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

/// A path, split.
pub(crate) enum Route {
    Version,
    Health,
    OpenApi,
    OpenApiOf(String),
    CoreVersions,
    Groups,
    Group(String),
    Resources { group: String, version: String },
    Object(Target),
}

/// Finds out what a path is about.
pub(crate) fn parse(server: &Server, path: &str) -> Result<Route> {
    let path = percent::decode(path)
        .ok_or_else(|| ApiError::bad_request(format!("invalid URL escape in {path:?}")))?;
    let mut segments: Vec<&str> = path.split('/').skip(1).collect();
    if segments.last() == Some(&"") {
        segments.pop();
    }
    match segments[..] {
        ["version"] => Ok(Route::Version),
        ["healthz" | "livez" | "readyz", ..] => Ok(Route::Health),
        ["openapi", "v3"] => Ok(Route::OpenApi),
        ["openapi", "v3", ref rest @ ..] => Ok(Route::OpenApiOf(rest.join("/"))),
        ["api"] => Ok(Route::CoreVersions),
        ["apis"] => Ok(Route::Groups),
        ["apis", group] => Ok(Route::Group(group.to_owned())),
        ["api", version, ref rest @ ..] => below(server, "", version, rest),
        ["apis", group, version, ref rest @ ..] => below(server, group, version, rest),
        _ => Err(ApiError::page_not_found()),
    }
}

/// The parts of a path below a version.
struct Place<'a> {
    namespace: Option<&'a str>,
    plural: &'a str,
    name: Option<&'a str>,
    subresource: Option<&'a str>,
}

impl<'a> Place<'a> {
    fn parse(rest: &[&'a str]) -> Option<Self> {
        let (namespace, plural, name, subresource) = match *rest {
            [plural] => (None, plural, None, None),
            [plural, name] => (None, plural, Some(name), None),
            ["namespaces", name, subresource @ ("status" | "finalize")] => {
                (None, "namespaces", Some(name), Some(subresource))
            }
            ["namespaces", namespace, plural] => (Some(namespace), plural, None, None),
            ["namespaces", namespace, plural, name] => (Some(namespace), plural, Some(name), None),
            ["namespaces", namespace, plural, name, subresource] => {
                (Some(namespace), plural, Some(name), Some(subresource))
            }
            [plural, name, subresource] => (None, plural, Some(name), Some(subresource)),
            _ => return None,
        };
        Some(Self {
            namespace,
            plural,
            name,
            subresource,
        })
    }
}

fn below(server: &Server, group: &str, version: &str, rest: &[&str]) -> Result<Route> {
    if rest.is_empty() {
        return Ok(Route::Resources {
            group: group.to_owned(),
            version: version.to_owned(),
        });
    }
    let place = Place::parse(rest).ok_or_else(|| unknown(server, group))?;
    let resource = server.registry().find(group, version, place.plural);
    let resource = resource.ok_or_else(|| unknown(server, group))?;
    // An object of a namespaced kind is only below its namespace, and the other way round.
    let is_everywhere = place.name.is_none() && place.namespace.is_none();
    if resource.namespaced != place.namespace.is_some() && !is_everywhere {
        return Err(unknown(server, group));
    }
    if let Some(name @ ("." | "..")) = place.name {
        return Err(ApiError::bad_request(format!(
            "Name parameter invalid: {name:?}: may not be '{name}'"
        )));
    }
    let is_status = place.subresource == Some("status") && resource.has_status;
    let is_scale = place.subresource == Some("scale") && verbs::has_scale(&resource);
    if place.subresource.is_some() && !is_status && !is_scale {
        return Err(match resource.schema {
            Some(_) => ApiError::not_found(&resource, place.name.unwrap_or_default()),
            None => ApiError::no_such_path(),
        });
    }
    Ok(Route::Object(Target {
        resource,
        namespace: place.namespace.map(str::to_owned),
        name: place.name.map(str::to_owned),
        is_status,
        is_scale,
    }))
}

/// Groups of built-in kinds answer with a `Status`; where nothing is served there is only a page.
pub(crate) fn unknown(server: &Server, group: &str) -> ApiError {
    let resources = server.registry().all();
    let is_builtin =
        |resource: &Arc<Resource>| resource.schema.is_none() && resource.group == group;
    match resources.iter().any(is_builtin) {
        true => ApiError::no_such_path(),
        false => ApiError::page_not_found(),
    }
}
