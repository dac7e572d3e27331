//! The options of a write, and the `managedFields` that result from it.

use serde_json::Value;

use super::{ObjectRequest, proposal::ManagedFieldsUpdate, update::is_same};
use crate::{
    Server,
    access::Caller,
    apply::{self, FieldManager, LiveObject, ManagerOperation, OwnershipContext},
    json,
    query::WriteParameters,
    resource::Resource,
    route::RequestTarget,
    schema::FieldError,
    status::{ApiError, Result},
};

/// The field manager of garbage collection.
const INTERNAL_MANAGER: &str = "kube-controller-manager";

/// How an object is to be written.
pub(crate) struct WriteOptions {
    pub(super) dry_run: bool,
    pub(super) field_validation: String,
    pub(super) caller: Caller,
    /// The field manager that owns what is changed.
    pub(super) manager: String,
    pub(super) operation: ManagerOperation,
    /// Keys that occur more than once in the body.
    pub(super) duplicate_keys: Vec<String>,
    /// Whether the object is the result of a patch, which has other error messages.
    pub(super) is_patch: bool,
    /// Whether the write neither reads nor changes the spec of a custom object.
    pub(super) is_status_only: bool,
}

impl WriteOptions {
    /// The options of a request; `kind` is their name in error messages.
    pub(super) fn of(request: &ObjectRequest<'_>, kind: &str) -> Result<Self> {
        let WriteParameters {
            dry_run,
            field_validation,
        } = request.query.write_parameters(kind)?;
        Ok(Self {
            dry_run,
            field_validation,
            caller: request.caller(),
            manager: request.manager(),
            operation: ManagerOperation::Update,
            duplicate_keys: Vec::new(),
            is_patch: false,
            is_status_only: false,
        })
    }

    /// A write by the garbage collector.
    pub(crate) fn internal() -> Self {
        Self::internal_as(INTERNAL_MANAGER)
    }

    /// A write by the server itself.
    pub(super) fn internal_as(manager: &str) -> Self {
        Self {
            dry_run: false,
            field_validation: "Ignore".to_owned(),
            caller: Caller::Server,
            manager: manager.to_owned(),
            operation: ManagerOperation::Update,
            duplicate_keys: Vec::new(),
            is_patch: false,
            is_status_only: false,
        }
    }

    /// Finds the keys that occur more than once in a JSON body, unless fields are not validated.
    /// `parsed` is the parsed body.
    pub(super) fn find_duplicate_keys(&mut self, bytes: &[u8], parsed: &Value) {
        if self.field_validation != "Ignore" {
            self.duplicate_keys = json::duplicates(bytes, parsed);
        }
    }

    /// The error of an object that does not pass strict validation.
    pub(super) fn undecodable(&self, resource: &Resource, object: &Value, why: &str) -> ApiError {
        if self.is_patch {
            let error = FieldError::invalid("patch", &Value::String(object.to_string()), why);
            return ApiError::invalid_kind("", "", "", &[error]);
        }
        ApiError::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {why}",
            kind = resource.kind,
            version = resource.version,
        ))
    }

    /// The field manager of this write as it is recorded in `managedFields`.
    pub(super) fn field_manager(
        &self,
        server: &Server,
        resource: &Resource,
        is_status: bool,
    ) -> FieldManager {
        FieldManager {
            manager: self.manager.clone(),
            operation: self.operation,
            api_version: resource.api_version(),
            subresource: if is_status { "status" } else { "" }.to_owned(),
            time: server.now(),
        }
    }

    /// The JSON of the `managedFields` of `new`, which replaces the live object.
    pub(super) fn managed_fields(
        &self,
        server: &Server,
        target: &RequestTarget,
        managed_fields: ManagedFieldsUpdate,
        live: LiveObject<'_>,
        new: &Value,
    ) -> String {
        let managed_fields = match managed_fields {
            ManagedFieldsUpdate::Computed(managed_fields) => managed_fields,
            ManagedFieldsUpdate::Tracked(given) => {
                let (resource, is_status) = (&*target.resource, target.is_status);
                let context = OwnershipContext {
                    kind: &resource.object_type,
                    reset: resource.reset_fields(is_status),
                };
                let field_manager = self.field_manager(server, resource, is_status);
                apply::after_update(&context, live, new, &given, &field_manager)
            }
        };
        // A write that changes nothing else does not change the times.
        let is_idle = is_same(new, live.object)
            && apply::is_same_except_times(managed_fields.as_bytes(), live.managed_fields);
        match is_idle {
            true => String::from_utf8_lossy(live.managed_fields).into_owned(),
            false => managed_fields,
        }
    }
}
