//! Privilege escalation prevention: users cannot grant rights that they do not have.
//!
//! Writing a role needs all that the role allows, or the verb `escalate`; writing a binding needs
//! all that its role allows, or the verb `bind` on that role.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    Attributes, Caller, GROUP, User, decide, resolve,
    rules::{PolicyRule, quoted_list},
    rules_for,
};
use crate::{
    Server, metadata,
    resource::Resource,
    status::{ApiError, Result},
};

/// Checks a role or binding that is about to be written.
pub(crate) fn check(
    server: &Server,
    caller: &Caller,
    resource: &Resource,
    new: &Value,
    old: Option<&Value>,
) -> Result<()> {
    if resource.group != GROUP {
        return Ok(());
    }
    let Some(user) = caller.user() else {
        return Ok(());
    };
    if user.is_master() || old.is_some_and(|old| is_same(new, old)) {
        return Ok(());
    }
    let refuse =
        |why: String| ApiError::forbidden(resource, metadata::name_of(new), &why, Value::Null);
    let namespace = metadata::namespace_of(new).unwrap_or_default();
    if resource.kind.ends_with("Binding") {
        return check_binding(server, user, new, namespace, refuse);
    }
    let name = old.map_or("", metadata::name_of);
    if may(
        server,
        user,
        "escalate",
        (&resource.plural, name, namespace),
    ) {
        return Ok(());
    }
    check_held(server, user, namespace, &PolicyRule::all_of(new)).map_err(refuse)?;
    let aggregates = |role: &Value| !role["aggregationRule"].is_null();
    if aggregates(new) || old.is_some_and(aggregates) {
        let everything = check_held(server, user, namespace, &PolicyRule::everything());
        everything.map_err(|_| {
            refuse("must have cluster-admin privileges to use the aggregationRule".to_owned())
        })?;
    }
    Ok(())
}

/// Whether nothing but metadata changes.
fn is_same(new: &Value, old: &Value) -> bool {
    ["rules", "aggregationRule", "subjects", "roleRef"]
        .iter()
        .all(|field| new[*field] == old[*field])
}

fn check_binding(
    server: &Server,
    user: &User,
    new: &Value,
    namespace: &str,
    refuse: impl Fn(String) -> ApiError,
) -> Result<()> {
    let role = &new["roleRef"];
    let plural = match metadata::text(role, "/kind") {
        "Role" => "roles",
        _ => "clusterroles",
    };
    let name = metadata::text(role, "/name");
    if may(server, user, "bind", (plural, name, namespace)) {
        return Ok(());
    }
    let rules = resolve::rules_of(server, role, namespace).map_err(|_| {
        let roles = server.registry().find(GROUP, "v1", plural);
        ApiError::not_found(&roles.expect("roles are built in"), name)
    })?;
    check_held(server, user, namespace, &rules).map_err(refuse)
}

fn may(server: &Server, user: &User, verb: &str, on: (&str, &str, &str)) -> bool {
    let (resource, name, namespace) = on;
    let attributes = Attributes {
        verb: verb.to_owned(),
        group: GROUP.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        ..Attributes::default()
    };
    decide(server, user, &attributes).allowed
}

/// Fails with the rights that the user does not have.
fn check_held(
    server: &Server,
    user: &User,
    namespace: &str,
    rules: &[PolicyRule],
) -> Result<(), String> {
    let granted = rules_for(server, user, namespace);
    let is_held = |piece: &PolicyRule| granted.rules.iter().any(|grant| grant.rule.covers(piece));
    let missing: Vec<PolicyRule> = rules
        .iter()
        .flat_map(PolicyRule::split)
        .filter(|piece| !is_held(piece))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut why = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        quoted_list(&user.groups),
        listed(missing)
    );
    if let Some(error) = granted.error() {
        why = format!("{why}; resolution errors: [{error}]");
    }
    Err(why)
}

/// The missing rules as kube-apiserver lists them: those that differ only in their verb are one.
fn listed(missing: Vec<PolicyRule>) -> String {
    let mut simple: BTreeMap<_, PolicyRule> = BTreeMap::new();
    let mut lines = BTreeSet::new();
    for rule in missing {
        if !rule.paths.is_empty() {
            lines.insert(rule.describe());
            continue;
        }
        let key = (
            rule.groups.clone(),
            rule.resources.clone(),
            rule.names.clone(),
        );
        match simple.get_mut(&key) {
            Some(known) => known.verbs.extend(rule.verbs),
            None => {
                simple.insert(key, rule);
            }
        }
    }
    lines.extend(simple.values().map(PolicyRule::describe));
    lines.into_iter().collect::<Vec<_>>().join("\n")
}
