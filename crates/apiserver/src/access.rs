//! Who may do what: every request is judged by the Roles and bindings that are stored.
//!
//! A request that came over a socket carries the [`User`] its token stands for; one made in process
//! carries none and is trusted as a member of `system:masters`, which may do everything. Both may
//! speak for somebody else with the `Impersonate-*` headers, if they are allowed to.
//!
//! The road: [`admit`] → `impersonation` → `attributes` (what is asked) → `resolve` (which rules
//! apply) → `rules` (whether one allows it). `grants` keeps people from giving rights that they do
//! not have, `roles` is what a Role or binding must look like, `defaults` are those that every
//! server starts with, `tokens` says whose a bearer token is.

mod attributes;
mod defaults;
mod grants;
mod impersonation;
mod resolve;
pub(crate) mod roles;
mod rules;
mod tokens;

use std::collections::BTreeMap;

use http::request::Parts;

pub(crate) use attributes::Attributes;
pub(crate) use defaults::create_defaults;
pub(crate) use grants::check as check_grant;
pub(crate) use resolve::rules_for;
pub(crate) use tokens::{Tokens, recognise, request_token};

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

/// Somebody who asks for something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// How bindings name them.
    pub name: String,
    /// Tells apart users of one name; may be empty.
    pub uid: String,
    /// The groups they are in; `system:authenticated` is among them.
    pub groups: Vec<String>,
    /// Whatever else is known.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Somebody known by name and groups.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().chain([&AUTHENTICATED]);
        Self {
            name: name.to_owned(),
            groups: groups.map(ToString::to_string).collect(),
            ..Self::default()
        }
    }

    /// Somebody who showed no token.
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

/// Who asks without a socket.
pub(crate) const IN_PROCESS: &str = "system:in-process";

tokio::task_local! {
    /// Who the running request is for. Not set where the server acts by itself.
    static CALLER: User;
}

/// Runs the work of a request in the name of its caller.
pub(crate) async fn on_behalf_of<F: Future>(user: User, work: F) -> F::Output {
    CALLER.scope(user, work).await
}

/// Who the running request is for; the server itself has every right.
pub(crate) fn caller() -> User {
    asking().unwrap_or_else(trusted)
}

/// Who the running request is for; nobody where the server acts by itself.
pub(crate) fn asking() -> Option<User> {
    CALLER.try_with(Clone::clone).ok()
}

fn trusted() -> User {
    User::new(IN_PROCESS, &[MASTERS])
}

/// Lets a request in or refuses it, and says in whose name it goes on.
pub(crate) fn admit(server: &Server, parts: &Parts) -> Result<User> {
    let user = match parts.extensions.get::<User>() {
        Some(user) => user.clone(),
        None => trusted(),
    };
    let user = impersonation::apply(server, user, &parts.headers)?;
    let asked = Attributes::of(parts);
    authorize(server, &user, &asked)?;
    Ok(user)
}

/// Refuses what the user may not do.
fn authorize(server: &Server, user: &User, asked: &Attributes) -> Result<()> {
    match decide(server, user, asked) {
        Decision { allowed: true, .. } => Ok(()),
        Decision { reason, .. } => Err(refusal(user, asked, &reason)),
    }
}

/// What became of a question.
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    /// Which binding allows it, or what could not be looked up.
    pub(crate) reason: String,
}

/// Whether the user may do it.
pub(crate) fn decide(server: &Server, user: &User, asked: &Attributes) -> Decision {
    if user.is_master() {
        return Decision {
            allowed: true,
            reason: String::new(),
        };
    }
    let granted = rules_for(server, user, &asked.namespace);
    let allowing = granted.rules.iter().find(|grant| grant.rule.allows(asked));
    match allowing {
        Some(grant) => Decision {
            allowed: true,
            reason: format!("RBAC: allowed by {}", grant.source),
        },
        None => Decision {
            allowed: false,
            reason: granted
                .problem()
                .map_or_else(String::new, |problem| format!("RBAC: {problem}")),
        },
    }
}

fn refusal(user: &User, asked: &Attributes, reason: &str) -> ApiError {
    let name = &user.name;
    let verb = &asked.verb;
    let mut message = match &asked.path {
        Some(path) => format!("User {name:?} cannot {verb} path {path:?}"),
        None => {
            let what = format!(
                "User {name:?} cannot {verb} resource {:?} in API group {:?}",
                asked.combined_resource(),
                asked.group
            );
            match asked.namespace.as_str() {
                "" => format!("{what} at the cluster scope"),
                namespace => format!("{what} in the namespace {namespace:?}"),
            }
        }
    };
    if !reason.is_empty() {
        message = format!("{message}: {reason}");
    }
    ApiError::denied(&asked.group, &asked.resource, &asked.name, &message)
}
