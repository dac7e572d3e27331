//! Resolves the rules that apply to a user: those of every role that is bound to them.

use std::sync::Arc;

use serde_json::Value;

use super::{GROUP, User, account_name, rules::PolicyRule};
use crate::{Server, metadata, resource::storage_name, store::StoreKey};

/// A rule and the binding that grants it.
pub(crate) struct GrantedRule {
    pub(crate) rule: PolicyRule,
    pub(crate) source: String,
}

/// The rules of a user in a namespace or in the cluster.
#[derive(Default)]
pub(crate) struct GrantedRules {
    pub(crate) rules: Vec<GrantedRule>,
    /// Missing roles that bindings refer to.
    errors: Vec<String>,
}

impl GrantedRules {
    /// Why some rules could not be resolved.
    pub(crate) fn error(&self) -> Option<String> {
        match self.errors.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            many => Some(format!("[{}]", many.join(", "))),
        }
    }

    fn add(&mut self, server: &Server, binding: &Value, user: &User) {
        let namespace = metadata::namespace_of(binding).unwrap_or_default();
        let mut subjects = binding["subjects"].as_array().into_iter().flatten();
        let Some(subject) = subjects.find(|subject| is_subject(subject, namespace, user)) else {
            return;
        };
        let role = &binding["roleRef"];
        match rules_of(server, role, namespace) {
            Err(error) => self.errors.push(error),
            Ok(rules) => {
                let source = describe(binding, namespace, subject);
                self.rules.extend(rules.into_iter().map(|rule| GrantedRule {
                    rule,
                    source: source.clone(),
                }));
            }
        }
    }
}

/// The rules that apply to a user in a namespace; without one, those for the whole cluster.
pub(crate) fn rules_for(server: &Server, user: &User, namespace: &str) -> GrantedRules {
    let mut granted = GrantedRules::default();
    for binding in all(server, "clusterrolebindings", "") {
        granted.add(server, &binding, user);
    }
    if !namespace.is_empty() {
        for binding in all(server, "rolebindings", &format!("{namespace}/")) {
            granted.add(server, &binding, user);
        }
    }
    granted
}

/// The rules of the role that a binding refers to.
pub(super) fn rules_of(
    server: &Server,
    role: &Value,
    namespace: &str,
) -> Result<Vec<PolicyRule>, String> {
    let name = metadata::text(role, "/name");
    let (plural, kind, namespace) = match metadata::text(role, "/kind") {
        "Role" => ("roles", "role", Some(namespace)),
        _ => ("clusterroles", "clusterrole", None),
    };
    let key = StoreKey::new(storage_name(GROUP, plural), namespace, name);
    let found = server.store().object(&key);
    let found = found.ok_or_else(|| format!("{kind}.{GROUP} {name:?} not found"))?;
    let found = found.value_kept_parsed();
    let mut rules = PolicyRule::all_of(&found);
    for selector in selectors(&found) {
        let others = all(server, "clusterroles", "");
        for other in others.filter(|other| is_selected(selector, other)) {
            rules.extend(PolicyRule::all_of(&other));
        }
    }
    Ok(rules)
}

fn all(server: &Server, plural: &str, prefix: &str) -> impl Iterator<Item = Arc<Value>> + use<> {
    let listed = server
        .store()
        .list(&storage_name(GROUP, plural), prefix, None);
    let objects = listed.map(|it| it.objects).unwrap_or_default();
    objects
        .into_iter()
        .map(|(_, object)| object.value_kept_parsed())
}

/// Whether a subject of a binding is this user.
fn is_subject(subject: &Value, binding_namespace: &str, user: &User) -> bool {
    let name = metadata::text(subject, "/name");
    match metadata::text(subject, "/kind") {
        "User" => name == user.name,
        "Group" => user.groups.iter().any(|group| group == name),
        "ServiceAccount" => {
            user.name == account_name(account_namespace(subject, binding_namespace), name)
        }
        _ => false,
    }
}

fn account_namespace<'a>(subject: &'a Value, binding_namespace: &'a str) -> &'a str {
    match metadata::text(subject, "/namespace") {
        "" => binding_namespace,
        namespace => namespace,
    }
}

fn describe(binding: &Value, namespace: &str, subject: &Value) -> String {
    let (kind, name) = (
        metadata::text(subject, "/kind"),
        metadata::text(subject, "/name"),
    );
    let subject = match kind {
        "ServiceAccount" => format!("{name}/{}", account_namespace(subject, namespace)),
        _ => name.to_owned(),
    };
    let bound = metadata::name_of(binding);
    let (binding_kind, bound) = match namespace {
        "" => ("ClusterRoleBinding", bound.to_owned()),
        namespace => ("RoleBinding", format!("{bound}/{namespace}")),
    };
    let role = &binding["roleRef"];
    format!(
        "{binding_kind} {bound:?} of {} {:?} to {kind} {subject:?}",
        metadata::text(role, "/kind"),
        metadata::text(role, "/name"),
    )
}

fn selectors(role: &Value) -> impl Iterator<Item = &Value> {
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array();
    selectors.into_iter().flatten()
}

/// Whether an aggregated role includes another one.
fn is_selected(selector: &Value, role: &Value) -> bool {
    let labels = &role["metadata"]["labels"];
    let mut equals = selector["matchLabels"].as_object().into_iter().flatten();
    let mut expressions = selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten();
    let all_equal = equals.all(|(key, value)| labels[key] == *value);
    all_equal
        && expressions.all(|expression| {
            let value = &labels[metadata::text(expression, "/key")];
            let is_in = || {
                expression["values"]
                    .as_array()
                    .is_some_and(|it| it.contains(value))
            };
            match metadata::text(expression, "/operator") {
                "In" => is_in(),
                "NotIn" => !is_in(),
                "Exists" => !value.is_null(),
                "DoesNotExist" => value.is_null(),
                _ => false,
            }
        })
}
