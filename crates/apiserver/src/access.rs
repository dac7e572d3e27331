//! Authentication and authorization by the stored Roles and bindings.
//!
//! Every request has a [`User`]: the one that its bearer token authenticates, or the one that the
//! embedding process names. A user may act as another one with the `Impersonate-*` headers if a
//! role allows it.
//!
//! A request goes through [`authorize_request`] → `impersonation` → `attributes` (what is
//! requested) → `resolve` (which rules apply) → `rules` (whether one allows it). `escalation`
//! prevents users from granting rights that they do not have, `roles` validates Roles and bindings,
//! `defaults` are those that every server starts with, `tokens` authenticates bearer tokens.

mod attributes;
mod defaults;
mod escalation;
mod impersonation;
mod resolve;
pub(crate) mod roles;
mod rules;
mod tokens;

use std::collections::BTreeMap;

use http::request::Parts;

pub(crate) use attributes::Attributes;
pub(crate) use defaults::create_defaults;
pub(crate) use escalation::check as check_escalation;
pub(crate) use resolve::rules_for;
pub(crate) use tokens::{TokenRegistry, authenticate_token, request_token};

use crate::{
    Server,
    status::{ApiError, Result},
};

/// The group whose members may do everything.
pub const MASTERS: &str = "system:masters";
/// The API group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";

/// The user that a request is made for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The name by which bindings refer to the user.
    pub name: String,
    /// Distinguishes users of the same name; may be empty.
    pub uid: String,
    /// The groups of the user, with `system:authenticated`.
    pub groups: Vec<String>,
    /// Additional attributes.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// An authenticated user.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().chain([&AUTHENTICATED]);
        Self {
            name: name.to_owned(),
            groups: groups.map(ToString::to_string).collect(),
            ..Self::default()
        }
    }

    /// The process that embeds the server: a member of `system:masters`, which may do everything.
    pub fn in_process() -> Self {
        Self::new(IN_PROCESS, &[MASTERS])
    }

    /// A client without a token.
    pub(crate) fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            uid: uid.to_owned(),
            ..Self::new(
                &account_name(namespace, name),
                &account_groups(namespace).each_ref().map(String::as_str),
            )
        }
    }

    fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}

fn account_name(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

fn account_groups(namespace: &str) -> [String; 2] {
    let all = "system:serviceaccounts";
    [all.to_owned(), format!("{all}:{namespace}")]
}

/// The name of the user that is the embedding process.
pub(crate) const IN_PROCESS: &str = "system:in-process";

/// On whose behalf an object is written.
#[derive(Debug, Clone)]
pub(crate) enum Caller {
    /// A client: escalation checks and admission apply.
    User(User),
    /// The server itself, for garbage collection and default objects: it may write anything.
    Server,
}

impl Caller {
    /// The user whose write has to be checked.
    pub(crate) fn user(&self) -> Option<&User> {
        match self {
            Self::User(user) => Some(user),
            Self::Server => None,
        }
    }
}

/// Refuses a request that its user may not make; returns the user that it acts as.
pub(crate) fn authorize_request(server: &Server, user: User, parts: &Parts) -> Result<User> {
    let user = impersonation::apply(server, user, &parts.headers)?;
    let attributes = Attributes::of(parts);
    authorize(server, &user, &attributes)?;
    Ok(user)
}

/// Refuses what the user may not do.
fn authorize(server: &Server, user: &User, attributes: &Attributes) -> Result<()> {
    match decide(server, user, attributes) {
        Decision { allowed: true, .. } => Ok(()),
        Decision { reason, .. } => Err(forbidden(user, attributes, &reason)),
    }
}

/// The result of an authorization check.
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    /// Which binding allows it, or what could not be looked up.
    pub(crate) reason: String,
}

/// Checks whether a rule allows the user to do this.
pub(crate) fn decide(server: &Server, user: &User, attributes: &Attributes) -> Decision {
    if user.is_master() {
        return Decision {
            allowed: true,
            reason: String::new(),
        };
    }
    let granted = rules_for(server, user, &attributes.namespace);
    let allowing = granted
        .rules
        .iter()
        .find(|grant| grant.rule.allows(attributes));
    match allowing {
        Some(grant) => Decision {
            allowed: true,
            reason: format!("RBAC: allowed by {}", grant.source),
        },
        None => Decision {
            allowed: false,
            reason: granted
                .error()
                .map_or_else(String::new, |error| format!("RBAC: {error}")),
        },
    }
}

fn forbidden(user: &User, attributes: &Attributes, reason: &str) -> ApiError {
    let name = &user.name;
    let verb = &attributes.verb;
    let mut message = match &attributes.path {
        Some(path) => format!("User {name:?} cannot {verb} path {path:?}"),
        None => {
            let what = format!(
                "User {name:?} cannot {verb} resource {:?} in API group {:?}",
                attributes.combined_resource(),
                attributes.group
            );
            match attributes.namespace.as_str() {
                "" => format!("{what} at the cluster scope"),
                namespace => format!("{what} in the namespace {namespace:?}"),
            }
        }
    };
    if !reason.is_empty() {
        message = format!("{message}: {reason}");
    }
    ApiError::denied(
        &attributes.group,
        &attributes.resource,
        &attributes.name,
        &message,
    )
}
