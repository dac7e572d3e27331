//! Impersonation: requests on behalf of another user by the `Impersonate-*` headers, each of which
//! needs the verb `impersonate`.

use http::HeaderMap;

use super::{
    ANONYMOUS, AUTHENTICATED, Attributes, UNAUTHENTICATED, User, account_groups, authorize,
};
use crate::{
    Server, percent,
    status::{ApiError, Result},
};

const EXTRA: &str = "impersonate-extra-";

/// The user that the headers name, if the caller may impersonate it; otherwise the caller.
pub(super) fn apply(server: &Server, caller: User, headers: &HeaderMap) -> Result<User> {
    let values = |name: &str| -> Vec<String> {
        let values = headers.get_all(name).iter();
        values
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect()
    };
    let first = |name: &str| values(name).into_iter().next().unwrap_or_default();
    let mut user = User {
        name: first("impersonate-user"),
        uid: first("impersonate-uid"),
        groups: values("impersonate-group"),
        ..User::default()
    };
    for header in headers.keys() {
        if let Some(key) = header.as_str().strip_prefix(EXTRA) {
            let key = percent::decode(key).unwrap_or_else(|| key.to_owned());
            user.extra.insert(key, values(header.as_str()));
        }
    }
    if user == User::default() {
        return Ok(caller);
    }
    if user.name.is_empty() {
        return Err(ApiError::bad_request(
            "requested groups, extra or a uid without impersonating a user",
        ));
    }
    for needed in needed_rights(&user) {
        authorize(server, &caller, &needed)?;
    }
    complete_groups(&mut user);
    Ok(user)
}

fn needed_rights(user: &User) -> Vec<Attributes> {
    let right = |group: &str, resource: &str, name: &str| Attributes {
        verb: "impersonate".to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..Attributes::default()
    };
    let mut needed = vec![match account_of(&user.name) {
        Some((namespace, name)) => Attributes {
            namespace: namespace.to_owned(),
            ..right("", "serviceaccounts", name)
        },
        None => right("", "users", &user.name),
    }];
    needed.extend(user.groups.iter().map(|group| right("", "groups", group)));
    for (key, values) in &user.extra {
        needed.extend(values.iter().map(|value| Attributes {
            subresource: key.clone(),
            ..right("authentication.k8s.io", "userextras", value)
        }));
    }
    if !user.uid.is_empty() {
        needed.push(right("authentication.k8s.io", "uids", &user.uid));
    }
    needed
}

/// Namespace and name, if this is a service account.
fn account_of(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix("system:serviceaccount:")?.split_once(':')
}

fn complete_groups(user: &mut User) {
    if let (Some((namespace, _)), true) = (account_of(&user.name), user.groups.is_empty()) {
        user.groups = account_groups(namespace).into();
    }
    let has = |group: &str| user.groups.iter().any(|it| it == group);
    if user.name == ANONYMOUS {
        if !has(UNAUTHENTICATED) {
            user.groups.push(UNAUTHENTICATED.to_owned());
        }
    } else if !has(AUTHENTICATED) && !has(UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
}
