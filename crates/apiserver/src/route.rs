//! Parses request paths: resource, namespace, name and subresource.

use std::sync::Arc;

use crate::{
    Server, percent,
    resource::Resource,
    status::{ApiError, Result},
    verbs,
};

/// The resource, object or collection that a path names.
#[derive(Clone)]
pub(crate) struct RequestTarget {
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    /// Whether the path ends in `/status`.
    pub(crate) is_status: bool,
    /// Whether the path ends in `/scale`.
    pub(crate) is_scale: bool,
}

impl RequestTarget {
    /// The name of the object; empty for a collection.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

/// A parsed path.
pub(crate) enum Route {
    Version,
    Health,
    OpenApi,
    OpenApiOf(String),
    CoreVersions,
    Groups,
    Group(String),
    Resources { group: String, version: String },
    Object(RequestTarget),
}

/// Parses a path.
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
        ["api", version, ref rest @ ..] => parse_resource_path(server, "", version, rest),
        ["apis", group, version, ref rest @ ..] => {
            parse_resource_path(server, group, version, rest)
        }
        _ => Err(ApiError::page_not_found()),
    }
}

/// The part of a path after the version.
struct ResourcePath<'a> {
    namespace: Option<&'a str>,
    plural: &'a str,
    name: Option<&'a str>,
    subresource: Option<&'a str>,
}

impl<'a> ResourcePath<'a> {
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

fn parse_resource_path(
    server: &Server,
    group: &str,
    version: &str,
    rest: &[&str],
) -> Result<Route> {
    if rest.is_empty() {
        return Ok(Route::Resources {
            group: group.to_owned(),
            version: version.to_owned(),
        });
    }
    let path = ResourcePath::parse(rest).ok_or_else(|| unknown(server, group))?;
    let resource = server.registry().find(group, version, path.plural);
    let resource = resource.ok_or_else(|| unknown(server, group))?;
    // An object of a namespaced kind is only under its namespace, and the other way round.
    let is_all_namespaces = path.name.is_none() && path.namespace.is_none();
    if resource.namespaced != path.namespace.is_some() && !is_all_namespaces {
        return Err(unknown(server, group));
    }
    if let Some(name @ ("." | "..")) = path.name {
        return Err(ApiError::bad_request(format!(
            "Name parameter invalid: {name:?}: may not be '{name}'"
        )));
    }
    let is_status = path.subresource == Some("status") && resource.has_status;
    let is_scale = path.subresource == Some("scale") && verbs::has_scale(&resource);
    if path.subresource.is_some() && !is_status && !is_scale {
        return Err(match resource.schema {
            Some(_) => ApiError::not_found(&resource, path.name.unwrap_or_default()),
            None => ApiError::no_such_path(),
        });
    }
    Ok(Route::Object(RequestTarget {
        resource,
        namespace: path.namespace.map(str::to_owned),
        name: path.name.map(str::to_owned),
        is_status,
        is_scale,
    }))
}

/// The error for an unknown path: a `Status` in groups of built-in kinds, plain text elsewhere.
pub(crate) fn unknown(server: &Server, group: &str) -> ApiError {
    let resources = server.registry().all();
    let is_builtin =
        |resource: &Arc<Resource>| resource.schema.is_none() && resource.group == group;
    match resources.iter().any(is_builtin) {
        true => ApiError::no_such_path(),
        false => ApiError::page_not_found(),
    }
}
