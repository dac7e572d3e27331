//! How a change is to be made, and what of it goes down in `managedFields`.

use serde_json::Value;

use super::{Call, proposal::Owners, update::is_same};
use crate::{
    Server,
    access::Caller,
    apply::{self, Ground, Live, Operation, Writer},
    json,
    query::WriteOptions,
    resource::Resource,
    route::Target,
    schema::FieldError,
    status::{ApiError, Result},
};

/// The name under which the server's own housekeeping changes objects.
const INTERNAL_MANAGER: &str = "kube-controller-manager";

/// How a change is to be made.
pub(crate) struct Manner {
    pub(super) options: WriteOptions,
    pub(super) caller: Caller,
    /// Who comes to own what is changed.
    pub(super) manager: String,
    pub(super) operation: Operation,
    /// Keys that the body has twice.
    pub(super) repeated: Vec<String>,
    /// Whether the object is the result of a patch, which words refusals differently.
    pub(super) is_patch: bool,
    /// Whether the change reads and writes nothing of a custom object's middle.
    pub(super) spares_middle: bool,
}

impl Manner {
    /// As a request asks; `kind` is the name of its options in error texts.
    pub(super) fn of(call: &Call<'_>, kind: &str) -> Result<Self> {
        Ok(Self {
            options: call.query.write_options(kind)?,
            caller: call.caller(),
            manager: call.manager(),
            operation: Operation::Update,
            repeated: Vec::new(),
            is_patch: false,
            spares_middle: false,
        })
    }

    /// A change by the server itself.
    pub(crate) fn internal() -> Self {
        Self::internal_as(INTERNAL_MANAGER)
    }

    /// A change by a part of the server.
    pub(super) fn internal_as(manager: &str) -> Self {
        Self {
            options: WriteOptions {
                dry_run: false,
                field_validation: "Ignore".to_owned(),
            },
            caller: Caller::Server,
            manager: manager.to_owned(),
            operation: Operation::Update,
            repeated: Vec::new(),
            is_patch: false,
            spares_middle: false,
        }
    }

    /// Remembers the keys that a JSON body has twice, unless nobody wants to know. `parsed` is what
    /// was read of it.
    pub(super) fn look_for_repetition(&mut self, bytes: &[u8], parsed: &Value) {
        if self.options.field_validation != "Ignore" {
            self.repeated = json::duplicates(bytes, parsed);
        }
    }

    /// The refusal of an object that strict validation found fault with.
    pub(super) fn undecodable(&self, resource: &Resource, object: &Value, why: &str) -> ApiError {
        if self.is_patch {
            let fault = FieldError::invalid("patch", &Value::String(object.to_string()), why);
            return ApiError::invalid_thing("", "", "", &[fault]);
        }
        ApiError::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {why}",
            kind = resource.kind,
            version = resource.version,
        ))
    }

    /// Who writes to an object of this kind, as it goes down in its `managedFields`.
    pub(super) fn writer(&self, server: &Server, resource: &Resource, is_status: bool) -> Writer {
        Writer {
            manager: self.manager.clone(),
            operation: self.operation,
            api_version: resource.api_version(),
            subresource: if is_status { "status" } else { "" }.to_owned(),
            time: server.now(),
        }
    }

    /// The text of the `managedFields` of `new`, which replaces what is live.
    pub(super) fn owners(
        &self,
        server: &Server,
        target: &Target,
        owners: Owners,
        live: Live<'_>,
        new: &Value,
    ) -> String {
        let owners = match owners {
            Owners::Settled(owners) => owners,
            Owners::Tracked(given) => {
                let (resource, is_status) = (&*target.resource, target.is_status);
                let ground = Ground {
                    kind: &resource.shape,
                    reset: resource.reset(is_status),
                };
                let writer = self.writer(server, resource, is_status);
                apply::after_update(&ground, live, new, &given, &writer)
            }
        };
        // A write that changes nothing else leaves the times as well.
        let is_idle =
            is_same(new, live.object) && apply::is_same_but_times(owners.as_bytes(), live.owners);
        match is_idle {
            true => String::from_utf8_lossy(live.owners).into_owned(),
            false => owners,
        }
    }
}
