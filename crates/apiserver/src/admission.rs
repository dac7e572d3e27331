//! The last word on what is written: rules of whoever set the server up.
//!
//! On a real server such rules are ValidatingAdmissionPolicies. Those are refused here, loudly; what
//! they would say can be said by an [`Admission`] instead. It is asked about every create, change and
//! deletion that a client wants, dry runs included, after access control and all other checks; never
//! about what the server does by itself. It cannot change anything.

use serde_json::Value;

use crate::{
    Server, User,
    access::{self, Attributes},
    metadata,
    resource::Resource,
    status::{ApiError, Result},
};

/// Has a say in what is written.
pub trait Admission: Send + Sync + 'static {
    /// Whether there is anything to say about writes of a resource, or of its `status` where that is
    /// the subresource. Saying no spares the server the work of showing whole objects.
    fn looks_at(&self, _group: &str, _resource: &str, _subresource: &str) -> bool {
        true
    }

    /// Refuses with a sentence that the client gets to read.
    fn review(&self, request: &Request<'_>) -> std::result::Result<(), String>;
}

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// An object is made.
    Create,
    /// An object, or its status, changes: by a replace, any patch or an apply.
    Update,
    /// An object goes away, now or when its finalizers are gone.
    Delete,
}

/// A write that passed all other checks.
pub struct Request<'a> {
    server: &'a Server,
    /// Who wants it; in process, a member of `system:masters`.
    pub user: &'a User,
    /// What is wanted.
    pub operation: Operation,
    /// The API group of the kind; empty for the core group.
    pub group: &'a str,
    /// The version the client speaks.
    pub version: &'a str,
    /// The plural of the kind.
    pub resource: &'a str,
    /// `status`, or empty for the object itself.
    pub subresource: &'a str,
    /// The namespace of the object; empty if it is in none.
    pub namespace: &'a str,
    /// The name of the object.
    pub name: &'a str,
    /// The object as it would be, without `managedFields`; `None` for a deletion.
    pub object: Option<&'a Value>,
    /// The object as it is, without `managedFields`; `None` for a create.
    pub old_object: Option<&'a Value>,
}

impl Request<'_> {
    /// Whether whoever wants to write also has a verb, which need not be one the server knows, on
    /// some object of the same group and namespace.
    pub fn may(&self, verb: &str, resource: &str, subresource: &str, name: &str) -> bool {
        self.may_in(self.group, verb, resource, subresource, name)
    }

    /// The same for an object of another group.
    pub fn may_in(
        &self,
        group: &str,
        verb: &str,
        resource: &str,
        subresource: &str,
        name: &str,
    ) -> bool {
        let asked = Attributes {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            name: name.to_owned(),
            namespace: self.namespace.to_owned(),
            path: None,
        };
        access::decide(self.server, self.user, &asked).allowed
    }

    /// Whether it comes from within the process that runs the server.
    pub fn is_in_process(&self) -> bool {
        self.user.name == access::IN_PROCESS
    }
}

fn subresource(is_status: bool) -> &'static str {
    if is_status { "status" } else { "" }
}

/// Whether somebody has a say in writes of this kind.
pub(crate) fn looks_at(server: &Server, resource: &Resource, is_status: bool) -> bool {
    let (group, plural) = (&resource.group, &resource.plural);
    let admission = server.0.admission.as_ref();
    admission.is_some_and(|it| it.looks_at(group, plural, subresource(is_status)))
}

/// Refuses what somebody with a say refuses: a create without an old object, a deletion without a
/// new one.
pub(crate) fn check(
    server: &Server,
    resource: &Resource,
    is_status: bool,
    new: Option<&Value>,
    old: Option<&Value>,
) -> Result<()> {
    if !looks_at(server, resource, is_status) {
        return Ok(());
    }
    let (Some(admission), Some(user)) = (&server.0.admission, access::asking()) else {
        return Ok(());
    };
    let Some(object) = new.or(old) else {
        return Ok(());
    };
    let request = Request {
        server,
        user: &user,
        operation: match (new, old) {
            (Some(_), None) => Operation::Create,
            (Some(_), Some(_)) => Operation::Update,
            (None, _) => Operation::Delete,
        },
        group: &resource.group,
        version: &resource.version,
        resource: &resource.plural,
        subresource: subresource(is_status),
        namespace: metadata::namespace_of(object).unwrap_or_default(),
        name: metadata::name_of(object),
        object: new,
        old_object: old,
    };
    let refuse = |why: String| ApiError::forbidden(resource, request.name, &why, Value::Null);
    admission.review(&request).map_err(refuse)
}
