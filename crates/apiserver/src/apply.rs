//! Field ownership: `managedFields` after every write, and server-side apply.
//!
//! After an update, the field manager owns the fields that it changed. An apply merges a
//! configuration into the object: the field manager owns its fields, and fields that it no longer
//! contains are removed. Everything here is a pure function of objects and types.

mod check;
mod compare;
mod managers;
mod merge;
mod merge_shape;
mod named_fields;
mod remove;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Value, json};

use crate::{field_set::FieldSet, types::Type};
use compare::{compare, compare_without};
pub(crate) use managers::{FieldManager, ManagerOperation};
use managers::{ManagedFields, ManagedFieldsEntry};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What ownership depends on besides the objects.
pub(crate) struct OwnershipContext<'a> {
    pub(crate) kind: &'a Type,
    /// The fields that this endpoint cannot write and so nobody owns through it.
    pub(crate) reset: &'a FieldSet,
}

/// A field that another manager owns and this one wants to change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) manager: String,
    pub(crate) path: String,
}

/// Why a configuration was not applied.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ApplyError {
    /// It does not match the types of the kind.
    TypeMismatch(String),
    Conflicts(Vec<Conflict>),
}

/// The fields that nobody owns: identity, and what only the server sets.
static UNOWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    let mut fields = FieldSet::of(&[&["apiVersion"], &["kind"], &["metadata"]]);
    for name in [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ] {
        fields.add(&FieldSet::of(&[&["metadata", name]]));
    }
    fields
});

/// The current object without its `managedFields`, and these as JSON.
#[derive(Clone, Copy)]
pub(crate) struct LiveObject<'a> {
    pub(crate) object: &'a Value,
    pub(crate) managed_fields: &'a [u8],
}

/// The `managedFields` after an update of the live object (empty for a create), as JSON. Empty if
/// there are none. `given` are those in the request.
pub(crate) fn after_update(
    context: &OwnershipContext<'_>,
    live: LiveObject<'_>,
    new: &Value,
    given: &Value,
    field_manager: &FieldManager,
) -> String {
    let is_subresource = !field_manager.subresource.is_empty();
    let managers = given_managers(live.managed_fields, given, is_subresource);
    let is_create = live.object["metadata"]["uid"].is_null();
    // A client that removed all managedFields has turned tracking off until the first apply.
    if managers.is_empty() && !is_create {
        return String::new();
    }
    let mut managers = updated(context, live.object, new, managers, field_manager);
    managers.merge_oldest_updaters();
    managers.write()
}

/// The `managedFields` to start from: those in the request, else those of the live object.
fn given_managers(live: &[u8], given: &Value, is_subresource: bool) -> ManagedFields {
    let live = || ManagedFields::read(live).unwrap_or_default();
    if is_subresource {
        return live();
    }
    if *given == json!([]) || *given == json!([{}]) {
        return ManagedFields::default();
    }
    match ManagedFields::decode(given) {
        Some(managers) if !managers.is_empty() => managers,
        _ => live(),
    }
}

/// Whether two `managedFields` are equal except for their times.
pub(crate) fn is_same_except_times(one: &[u8], two: &[u8]) -> bool {
    one == two
        || matches!((ManagedFields::read(one), ManagedFields::read(two)), (Some(one), Some(two)) if one.is_same_except_times(&two))
}

fn updated(
    context: &OwnershipContext<'_>,
    live: &Value,
    new: &Value,
    mut managers: ManagedFields,
    field_manager: &FieldManager,
) -> ManagedFields {
    let difference = compare_without(context.kind, Some(live), Some(new), context.reset);
    let mut changed = difference.modified;
    changed.add(&difference.added);
    for entry in managers.iter_mut() {
        entry.subtract(&changed);
        entry.subtract(&difference.removed);
    }
    let mut taken = changed;
    taken.subtract(&UNOWNED);
    if !taken.is_empty() {
        let entry = managers.entry(field_manager);
        entry.fields_mut().add(&taken);
        entry.time = Some(field_manager.time.clone());
    }
    managers.drop_empty();
    managers
}

/// The live object (empty for a create) with a configuration applied, and the JSON of its
/// `managedFields`.
pub(crate) fn applied(
    context: &OwnershipContext<'_>,
    live: LiveObject<'_>,
    config: &Value,
    field_manager: &FieldManager,
    force: bool,
) -> Result<(Value, String), ApplyError> {
    check::check_types(context.kind, config).map_err(ApplyError::TypeMismatch)?;
    let managers = ManagedFields::read(live.managed_fields).ok_or_else(|| {
        ApplyError::TypeMismatch("failed to decode managed fields of the live object".to_owned())
    })?;
    let operation = ApplyAttempt {
        context,
        live: live.object,
        config,
        field_manager,
    };
    let managers = operation.with_first_owner(managers);
    let applied = match operation.attempt(managers.clone(), force) {
        Err(ApplyError::Conflicts(conflicts)) if field_manager.manager == "kubectl" => {
            operation.retry_after_client_side(managers, conflicts)
        }
        other => other,
    };
    let (mut object, managers) = applied?;
    if field_manager.manager == "kubectl" {
        refresh_last_applied(&mut object, config);
    }
    Ok((object, managers.write()))
}

/// An apply of one configuration to one object.
struct ApplyAttempt<'a> {
    context: &'a OwnershipContext<'a>,
    live: &'a Value,
    config: &'a Value,
    field_manager: &'a FieldManager,
}

impl ApplyAttempt<'_> {
    /// Gives the fields of an object without `managedFields` to a manager of their own, so that the
    /// applier does not own them.
    fn with_first_owner(&self, managers: ManagedFields) -> ManagedFields {
        if !managers.is_empty() {
            return managers;
        }
        let before = FieldManager {
            manager: "before-first-apply".to_owned(),
            operation: ManagerOperation::Update,
            ..self.field_manager.clone()
        };
        let empty = json!({"apiVersion": self.live["apiVersion"], "kind": self.live["kind"]});
        updated(self.context, &empty, self.live, managers, &before)
    }

    fn attempt(
        &self,
        mut managers: ManagedFields,
        force: bool,
    ) -> Result<(Value, ManagedFields), ApplyError> {
        let kind = self.context.kind;
        let merged = merge::merged(kind, self.live, self.config);
        let set =
            named_fields::named_fields(kind, self.config).without_subtrees(self.context.reset);
        let entry = managers.entry(self.field_manager);
        let last = std::mem::replace(entry.fields_mut(), set.clone());
        entry
            .api_version
            .clone_from(&self.field_manager.api_version);
        let object = remove::pruned(kind, merged, &last, &managers.all_fields());
        let reset = self.context.reset;
        let difference = compare_without(kind, Some(self.live), Some(&object), reset);
        let changed = difference.modified.union(&difference.added);
        let mut conflicts = Vec::new();
        for entry in managers.iter_mut() {
            if entry.is_of(self.field_manager) {
                *entry.fields_mut() = set.difference(&UNOWNED);
                continue;
            }
            let contested = entry.fields().intersection(&changed);
            conflicts.extend(entry.conflicts(&contested));
            entry.subtract(&contested);
            entry.subtract(&difference.removed);
        }
        if !force && !conflicts.is_empty() {
            return Err(ApplyError::Conflicts(conflicts));
        }
        if object != *self.live {
            managers.entry(self.field_manager).time = Some(self.field_manager.time.clone());
        }
        managers.drop_empty();
        Ok((object, managers))
    }

    /// Lets kubectl take over the fields that it set by client-side apply.
    fn retry_after_client_side(
        &self,
        managers: ManagedFields,
        conflicts: Vec<Conflict>,
    ) -> Result<(Value, ManagedFields), ApplyError> {
        let Some(own) = self.owned_client_side() else {
            return Err(ApplyError::Conflicts(conflicts));
        };
        let own = own.paths();
        let others: Vec<Conflict> = conflicts
            .into_iter()
            .filter(|conflict| !own.contains(&conflict.path))
            .collect();
        if !others.is_empty() {
            return Err(ApplyError::Conflicts(others));
        }
        self.attempt(managers, true)
    }

    /// The fields that client-side apply set and that have not changed since.
    fn owned_client_side(&self) -> Option<FieldSet> {
        let text = self.live["metadata"]["annotations"][LAST_APPLIED].as_str()?;
        let last: Value = serde_json::from_str(text).ok()?;
        if last["apiVersion"] != json!(self.field_manager.api_version) {
            return None;
        }
        let kind = self.context.kind;
        let difference = compare(kind, Some(&last), Some(self.live));
        let set = named_fields::named_fields(kind, &last);
        Some(
            set.difference(&difference.modified)
                .difference(&difference.added)
                .difference(&difference.removed),
        )
    }
}

/// Updates the annotation of client-side apply, if the object has one.
fn refresh_last_applied(object: &mut Value, config: &Value) {
    let text = &mut object["metadata"]["annotations"];
    if text.get(LAST_APPLIED).is_none() {
        if text.is_null()
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("annotations");
        }
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config["metadata"]["annotations"].as_object_mut() {
        annotations.remove(LAST_APPLIED);
    } else if let Some(metadata) = config["metadata"].as_object_mut() {
        metadata.remove("annotations");
    }
    text[LAST_APPLIED] = json!(format!("{config}\n"));
}

impl ManagedFieldsEntry {
    fn conflicts(&self, contested: &FieldSet) -> Vec<Conflict> {
        let conflict = |path| Conflict {
            manager: self.describe(),
            path,
        };
        contested.paths().into_iter().map(conflict).collect()
    }
}

/// The message of kube-apiserver for conflicts.
pub(crate) fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        let (manager, path) = (&only.manager, &only.path);
        return format!("Apply failed with 1 conflict: conflict with {manager}: {path}");
    }
    let mut by_manager: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for conflict in conflicts {
        let paths = by_manager.entry(&conflict.manager).or_default();
        paths.push(&conflict.path);
    }
    let mut lines = Vec::new();
    for (manager, paths) in by_manager {
        lines.push(format!("conflicts with {manager}:"));
        lines.extend(paths.iter().map(|path| format!("- {path}")));
    }
    let (count, lines) = (conflicts.len(), lines.join("\n"));
    format!("Apply failed with {count} conflicts: {lines}")
}
