//! The attributes of a request that RBAC rules refer to: verb, group, resource, name, namespace.
//!
//! They are read from the path alone, before any lookup, so that an unauthorized client does not
//! learn what exists.

use http::{Method, request::Parts};
use serde_json::Value;

use crate::{metadata, percent};

/// What a request wants to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) name: String,
    pub(crate) namespace: String,
    /// The path of a non-resource request.
    pub(crate) path: Option<String>,
}

impl Attributes {
    /// The attributes of an HTTP request.
    pub(crate) fn of(parts: &Parts) -> Self {
        let path = parts.uri.path();
        let decoded = percent::decode(path).unwrap_or_else(|| path.to_owned());
        let segments: Vec<&str> = decoded.trim_matches('/').split('/').collect();
        let below = match segments[..] {
            ["api", _, ref rest @ ..] => Some(("", rest)),
            ["apis", group, _, ref rest @ ..] => Some((group, rest)),
            _ => None,
        };
        match below {
            Some((group, rest)) if !rest.is_empty() => Self::of_resource(parts, group, rest),
            _ => Self {
                verb: parts.method.as_str().to_lowercase(),
                path: Some(decoded),
                ..Self::default()
            },
        }
    }

    fn of_resource(parts: &Parts, group: &str, mut rest: &[&str]) -> Self {
        let mut namespace = "";
        if let ["namespaces", name, below @ ..] = rest {
            namespace = name;
            if !matches!(below.first(), None | Some(&("status" | "finalize"))) {
                rest = below;
            }
        }
        let part = |at: usize| rest.get(at).copied().unwrap_or_default().to_owned();
        let mut attributes = Self {
            verb: String::new(),
            group: group.to_owned(),
            resource: part(0),
            name: part(1),
            subresource: part(2),
            namespace: namespace.to_owned(),
            path: None,
        };
        attributes.verb = attributes.verb_of(parts).to_owned();
        attributes
    }

    fn verb_of(&mut self, parts: &Parts) -> &'static str {
        let is_collection = self.name.is_empty();
        match parts.method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if is_collection => "deletecollection",
            Method::DELETE => "delete",
            Method::GET | Method::HEAD if !is_collection => "get",
            Method::GET | Method::HEAD => {
                let pairs = percent::pairs(parts.uri.query().unwrap_or_default());
                let value = |wanted: &str| {
                    let found = pairs.iter().find(|(name, _)| name == wanted);
                    found.map(|(_, value)| value.as_str())
                };
                // A list that selects one name is authorized for that name.
                let selector = value("fieldSelector").unwrap_or_default();
                if let Some(name) = selector.strip_prefix("metadata.name=") {
                    name.trim_start_matches('=').clone_into(&mut self.name);
                }
                let watches = value("watch").is_some_and(|it| !matches!(it, "false" | "0"));
                if watches { "watch" } else { "list" }
            }
            _ => "",
        }
    }

    /// The attributes in the `spec` of an access review.
    pub(crate) fn of_review(spec: &Value) -> Self {
        let other = &spec["nonResourceAttributes"];
        if !other.is_null() {
            return Self {
                verb: metadata::text(other, "/verb").to_owned(),
                path: Some(metadata::text(other, "/path").to_owned()),
                ..Self::default()
            };
        }
        let text = |field: &str| {
            spec["resourceAttributes"][field]
                .as_str()
                .unwrap_or_default()
        };
        Self {
            verb: text("verb").to_owned(),
            group: text("group").to_owned(),
            resource: text("resource").to_owned(),
            subresource: text("subresource").to_owned(),
            name: text("name").to_owned(),
            namespace: text("namespace").to_owned(),
            path: None,
        }
    }

    /// `resource/subresource`, or just the resource.
    pub(crate) fn combined_resource(&self) -> String {
        match self.subresource.as_str() {
            "" => self.resource.clone(),
            subresource => format!("{}/{subresource}", self.resource),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: Method, uri: &str, expected: &str) {
        let request = http::Request::builder().method(method).uri(uri).body(());
        let attributes = Attributes::of(&request.expect("well formed").into_parts().0);
        let shown = match &attributes.path {
            Some(path) => format!("{} path {path}", attributes.verb),
            None => format!(
                "{} {}.{} {:?} in {:?}",
                attributes.verb,
                attributes.combined_resource(),
                attributes.group,
                attributes.name,
                attributes.namespace
            ),
        };
        assert_eq!(shown, expected, "{uri}");
    }

    #[test]
    fn paths_are_parsed_as_by_kube_apiserver() {
        check(Method::GET, "/api/v1/pods", "list pods. \"\" in \"\"");
        check(
            Method::GET,
            "/api/v1/pods?watch=1",
            "watch pods. \"\" in \"\"",
        );
        check(
            Method::GET,
            "/api/v1/pods?watch=false",
            "list pods. \"\" in \"\"",
        );
        check(
            Method::GET,
            "/api/v1/namespaces/n/pods/p",
            "get pods. \"p\" in \"n\"",
        );
        check(
            Method::PUT,
            "/api/v1/namespaces/n/pods/p/status",
            "update pods/status. \"p\" in \"n\"",
        );
        check(
            Method::GET,
            "/api/v1/namespaces/n",
            "get namespaces. \"n\" in \"n\"",
        );
        check(
            Method::PUT,
            "/api/v1/namespaces/n/finalize",
            "update namespaces/finalize. \"n\" in \"n\"",
        );
        check(
            Method::DELETE,
            "/apis/apps/v1/namespaces/n/deployments",
            "deletecollection deployments.apps \"\" in \"n\"",
        );
        check(
            Method::DELETE,
            "/apis/apps/v1/namespaces/n/deployments/d",
            "delete deployments.apps \"d\" in \"n\"",
        );
        check(
            Method::GET,
            "/api/v1/namespaces/n/pods?fieldSelector=metadata.name%3Dp",
            "list pods. \"p\" in \"n\"",
        );
        check(Method::GET, "/api/v1", "get path /api/v1");
        check(Method::GET, "/apis/apps/v1", "get path /apis/apps/v1");
        check(Method::POST, "/healthz", "post path /healthz");
    }
}
