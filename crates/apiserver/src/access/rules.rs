//! A rule of a role: what it allows, and whether it covers another rule.

use serde_json::Value;

use super::Attributes;

/// Allows verbs on resources of API groups, or on non-resource paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PolicyRule {
    pub(crate) groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) names: Vec<String>,
    pub(crate) paths: Vec<String>,
    pub(crate) verbs: Vec<String>,
}

impl PolicyRule {
    /// The rules of a Role or ClusterRole.
    pub(crate) fn all_of(role: &Value) -> Vec<Self> {
        let rules = role["rules"].as_array();
        rules.into_iter().flatten().map(Self::read).collect()
    }

    fn read(rule: &Value) -> Self {
        let strings = |field: &str| -> Vec<String> {
            let list = rule[field].as_array().into_iter().flatten();
            list.filter_map(|one| one.as_str().map(str::to_owned))
                .collect()
        };
        Self {
            groups: strings("apiGroups"),
            resources: strings("resources"),
            names: strings("resourceNames"),
            paths: strings("nonResourceURLs"),
            verbs: strings("verbs"),
        }
    }

    /// The rules of cluster-admin: everything on resources, and on paths.
    pub(crate) fn everything() -> [Self; 2] {
        let all = || vec!["*".to_owned()];
        [
            Self {
                groups: all(),
                resources: all(),
                verbs: all(),
                ..Self::default()
            },
            Self {
                paths: all(),
                verbs: all(),
                ..Self::default()
            },
        ]
    }

    /// Whether this rule allows a request.
    pub(crate) fn allows(&self, attributes: &Attributes) -> bool {
        if !has_or_all(&self.verbs, &attributes.verb) {
            return false;
        }
        if let Some(path) = &attributes.path {
            return self.paths.iter().any(|pattern| path_covers(pattern, path));
        }
        has_or_all(&self.groups, &attributes.group)
            && resource_covers(&self.resources, &attributes.combined_resource())
            && (self.names.is_empty() || self.names.contains(&attributes.name))
    }

    /// The same as rules with one verb, group, resource and name each.
    pub(super) fn split(&self) -> Vec<Self> {
        let one = |text: &String| vec![text.clone()];
        let mut pieces = Vec::new();
        for group in &self.groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let piece = Self {
                        groups: one(group),
                        resources: one(resource),
                        verbs: one(verb),
                        ..Self::default()
                    };
                    let named = self.names.iter().map(|name| Self {
                        names: one(name),
                        ..piece.clone()
                    });
                    pieces.extend(named);
                    if self.names.is_empty() {
                        pieces.push(piece);
                    }
                }
            }
        }
        let on_paths = self.paths.iter().flat_map(|path| {
            self.verbs.iter().map(move |verb| Self {
                paths: one(path),
                verbs: one(verb),
                ..Self::default()
            })
        });
        pieces.extend(on_paths);
        pieces
    }

    /// Whether this rule grants all that a split rule grants.
    pub(super) fn covers(&self, piece: &Self) -> bool {
        let names = match piece.names.as_slice() {
            [] => self.names.is_empty(),
            names => self.names.is_empty() || names.iter().all(|name| self.names.contains(name)),
        };
        let all = |mine: &[String], theirs: &[String]| theirs.iter().all(|it| has_or_all(mine, it));
        let mut resources = piece.resources.iter();
        let mut paths = piece.paths.iter();
        names
            && all(&self.verbs, &piece.verbs)
            && all(&self.groups, &piece.groups)
            && resources.all(|it| resource_covers(&self.resources, it))
            && paths.all(|path| self.paths.iter().any(|mine| path_covers(mine, path)))
    }

    /// The rule as in error messages.
    pub(super) fn describe(&self) -> String {
        let lists = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        let parts: Vec<String> = lists
            .iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| format!("{name}:{}", quoted_list(list)))
            .collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// `["a" "b"]`, as Go prints a list of strings.
pub(super) fn quoted_list(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|one| format!("{one:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

fn has_or_all(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == "*" || one == wanted)
}

/// `*` is everything, `*/status` that subresource of everything.
fn resource_covers(list: &[String], combined: &str) -> bool {
    let any_parent = combined.split_once('/').map(|(_, sub)| format!("*/{sub}"));
    has_or_all(list, combined) || any_parent.is_some_and(|pattern| list.contains(&pattern))
}

/// A pattern may end in `*`.
fn path_covers(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix.trim_end_matches('*')),
        None => pattern == path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rule(rule: Value) -> PolicyRule {
        PolicyRule::read(&rule)
    }

    fn asks(verb: &str, resource: &str, name: &str) -> Attributes {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Attributes {
            verb: verb.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            name: name.into(),
            ..Attributes::default()
        }
    }

    #[test]
    fn a_rule_allows_what_it_names_and_nothing_else() {
        let pods = rule(
            json!({"apiGroups": [""], "resources": ["pods", "*/scale"], "verbs": ["get"], "resourceNames": ["a"]}),
        );
        assert!(pods.allows(&asks("get", "pods", "a")));
        assert!(pods.allows(&asks("get", "things/scale", "a")));
        assert!(!pods.allows(&asks("get", "pods", "b")));
        assert!(!pods.allows(&asks("get", "pods/status", "a")));
        assert!(!pods.allows(&asks("list", "pods", "a")));
        let [all, _] = PolicyRule::everything();
        assert!(all.allows(&asks("delete", "pods/status", "x")));
    }

    #[test]
    fn a_path_may_end_in_a_star() {
        let paths = rule(json!({"nonResourceURLs": ["/healthz/*", "/version"], "verbs": ["get"]}));
        let asks = |path: &str| Attributes {
            verb: "get".into(),
            path: Some(path.into()),
            ..Attributes::default()
        };
        assert!(paths.allows(&asks("/healthz/ping")));
        assert!(paths.allows(&asks("/version")));
        assert!(!paths.allows(&asks("/versions")));
    }

    #[test]
    fn more_is_covered_by_more_only() {
        let few = rule(
            json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"]}),
        );
        let many = rule(json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}));
        assert!(few.split().iter().all(|piece| many.covers(piece)));
        assert_eq!(many.split().len(), 2);
        assert!(!many.split().iter().any(|piece| few.covers(piece)));
        assert_eq!(
            few.describe(),
            r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get"]}"#
        );
    }
}
