//! Validating admission by the process that embeds the server.
//!
//! This server refuses ValidatingAdmissionPolicies and webhooks; an [`Admission`] takes their place.
//! It reviews every create, update and delete of a client, dry runs included, after authorization
//! and validation, but not what the server writes itself. It cannot mutate objects.

use serde_json::Value;

use crate::{
    Server, User,
    access::{self, Attributes, Caller},
    metadata,
    resource::Resource,
    status::{ApiError, Result},
};

/// Reviews writes.
pub trait Admission: Send + Sync + 'static {
    /// Whether writes of a resource, or of a subresource of it, have to be reviewed. Where they do
    /// not, the server need not parse whole objects.
    fn applies_to(&self, _group: &str, _resource: &str, _subresource: &str) -> bool {
        true
    }

    /// Refuses with a message for the client.
    fn review(&self, request: &AdmissionRequest<'_>) -> std::result::Result<(), String>;
}

/// The kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// An object is created.
    Create,
    /// An object or its status is replaced, patched or applied.
    Update,
    /// An object is deleted, now or when its finalizers are gone.
    Delete,
}

/// A write that passed all other checks.
pub struct AdmissionRequest<'a> {
    server: &'a Server,
    /// The user of the request.
    pub user: &'a User,
    /// The kind of the write.
    pub operation: Operation,
    /// The API group of the kind; empty for the core group.
    pub group: &'a str,
    /// The API version of the request.
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

impl AdmissionRequest<'_> {
    /// Whether the user also has a verb, which may be a custom one, on an object of the same group
    /// and namespace.
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
        let attributes = Attributes {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            name: name.to_owned(),
            namespace: self.namespace.to_owned(),
            path: None,
        };
        access::decide(self.server, self.user, &attributes).allowed
    }

    /// Whether the request comes from the process that embeds the server.
    pub fn is_in_process(&self) -> bool {
        self.user.name == access::IN_PROCESS
    }
}

fn subresource(is_status: bool) -> &'static str {
    if is_status { "status" } else { "" }
}

/// Whether writes of this kind have to be reviewed.
pub(crate) fn applies_to(server: &Server, resource: &Resource, is_status: bool) -> bool {
    let (group, plural) = (&resource.group, &resource.plural);
    let admission = server.0.admission.as_ref();
    admission.is_some_and(|it| it.applies_to(group, plural, subresource(is_status)))
}

/// Refuses what the [`Admission`] refuses. A create has no old object, a delete no new one.
pub(crate) fn check(
    server: &Server,
    caller: &Caller,
    (resource, is_status): (&Resource, bool),
    new: Option<&Value>,
    old: Option<&Value>,
) -> Result<()> {
    if !applies_to(server, resource, is_status) {
        return Ok(());
    }
    let (Some(admission), Some(user)) = (&server.0.admission, caller.user()) else {
        return Ok(());
    };
    let Some(object) = new.or(old) else {
        return Ok(());
    };
    let request = AdmissionRequest {
        server,
        user,
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
