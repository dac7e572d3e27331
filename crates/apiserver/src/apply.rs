//! Who owns which field: `managedFields` after every write, and server-side apply.
//!
//! A write either replaces values (an update: whoever changed a field owns it) or applies a
//! configuration (it is merged into the object, its fields are owned by its manager, and fields
//! that it no longer names go away). Everything here is a function of objects and types; nothing
//! is stored or read.

mod check;
mod compare;
mod managers;
mod merge;
mod owned;
mod remove;
mod shape;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::{fields::Fields, types::Type};
use compare::{compare, compare_without};
use managers::{Entry, Managers};
pub(crate) use managers::{Operation, Writer};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// One kind as writers share it.
pub(crate) struct Ground<'a> {
    pub(crate) kind: &'a Type,
    /// What this endpoint cannot write; nobody comes to own it here.
    pub(crate) reset: &'a Fields,
}

/// Fields of one writer that another one wants to set differently.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) manager: String,
    pub(crate) path: String,
}

/// Why a configuration was not applied.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It does not fit the kind.
    Misfit(String),
    Conflicts(Vec<Conflict>),
}

/// Never owned by anybody: identity, and what only the server sets.
static UNOWNED: LazyLock<Fields> = LazyLock::new(|| {
    let mut fields = Fields::of(&[&["apiVersion"], &["kind"], &["metadata"]]);
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
        fields.add(&Fields::of(&[&["metadata", name]]));
    }
    fields
});

/// An object as it is, and the text of its `managedFields`, which are not in it.
#[derive(Clone, Copy)]
pub(crate) struct Live<'a> {
    pub(crate) object: &'a Value,
    pub(crate) owners: &'a [u8],
}

/// The `managedFields` of an object that an update makes of the live one (an empty object for a
/// create), as text. Empty if nobody is known to own anything. `given` is what the writer says.
pub(crate) fn after_update(
    ground: &Ground<'_>,
    live: Live<'_>,
    new: &Value,
    given: &Value,
    writer: &Writer,
) -> String {
    let is_subresource = !writer.subresource.is_empty();
    let managers = given_managers(live.owners, given, is_subresource);
    let is_create = live.object["metadata"]["uid"].is_null();
    // Who took all owners away does not want them tracked until the first apply.
    if managers.is_empty() && !is_create {
        return String::new();
    }
    let mut managers = updated(ground, live.object, new, managers, writer);
    managers.cap();
    managers.write()
}

/// The owners to start from: those the writer names, else those of the live object.
fn given_managers(live: &[u8], given: &Value, is_subresource: bool) -> Managers {
    let live = || Managers::read(live).unwrap_or_default();
    if is_subresource {
        return live();
    }
    if *given == json!([]) || *given == json!([{}]) {
        return Managers::default();
    }
    match Managers::decode(given) {
        Some(managers) if !managers.is_empty() => managers,
        _ => live(),
    }
}

/// Whether two `managedFields` differ in nothing but times.
pub(crate) fn is_same_but_times(one: &[u8], two: &[u8]) -> bool {
    one == two
        || matches!((Managers::read(one), Managers::read(two)), (Some(one), Some(two)) if one.is_as(&two))
}

fn updated(
    ground: &Ground<'_>,
    live: &Value,
    new: &Value,
    mut managers: Managers,
    writer: &Writer,
) -> Managers {
    let difference = compare_without(ground.kind, Some(live), Some(new), ground.reset);
    let mut changed = difference.modified;
    changed.add(&difference.added);
    for entry in managers.iter_mut() {
        entry.subtract(&changed);
        entry.subtract(&difference.removed);
    }
    let mut taken = changed;
    taken.subtract(&UNOWNED);
    if !taken.is_empty() {
        let entry = managers.entry(writer);
        entry.fields_mut().add(&taken);
        entry.time = Some(writer.time.clone());
    }
    managers.drop_empty();
    managers
}

/// The object that the live one becomes when a configuration is applied, and the text of its
/// `managedFields`. The live object is empty where there is none yet.
pub(crate) fn applied(
    ground: &Ground<'_>,
    live: Live<'_>,
    config: &Value,
    writer: &Writer,
    force: bool,
) -> Result<(Value, String), Refusal> {
    check::fits(ground.kind, config).map_err(Refusal::Misfit)?;
    let managers = Managers::read(live.owners).ok_or_else(|| {
        Refusal::Misfit("failed to decode managed fields of the live object".to_owned())
    })?;
    let application = Application {
        ground,
        live: live.object,
        config,
        writer,
    };
    let managers = application.with_first_owner(managers);
    let attempt = application.attempt(managers.clone(), force);
    let attempt = match attempt {
        Err(Refusal::Conflicts(conflicts)) if writer.manager == "kubectl" => {
            application.retry_after_client_side(managers, conflicts)
        }
        other => other,
    };
    let (mut object, managers) = attempt?;
    if writer.manager == "kubectl" {
        refresh_last_applied(&mut object, config);
    }
    Ok((object, managers.write()))
}

/// One configuration on its way into an object.
struct Application<'a> {
    ground: &'a Ground<'a>,
    live: &'a Value,
    config: &'a Value,
    writer: &'a Writer,
}

impl Application<'_> {
    /// Fields of an object without owners belong to nobody in particular, but not to the applier.
    fn with_first_owner(&self, managers: Managers) -> Managers {
        if !managers.is_empty() {
            return managers;
        }
        let before = Writer {
            manager: "before-first-apply".to_owned(),
            operation: Operation::Update,
            ..self.writer.clone()
        };
        let empty = json!({"apiVersion": self.live["apiVersion"], "kind": self.live["kind"]});
        updated(self.ground, &empty, self.live, managers, &before)
    }

    fn attempt(&self, mut managers: Managers, force: bool) -> Result<(Value, Managers), Refusal> {
        let kind = self.ground.kind;
        let merged = merge::merged(kind, self.live, self.config);
        let set = owned::owned(kind, self.config).without_trees(self.ground.reset);
        let entry = managers.entry(self.writer);
        let last = std::mem::replace(entry.fields_mut(), set.clone());
        entry.api_version.clone_from(&self.writer.api_version);
        let object = remove::pruned(kind, merged, &last, &managers.all_fields());
        let reset = self.ground.reset;
        let difference = compare_without(kind, Some(self.live), Some(&object), reset);
        let changed = difference.modified.union(&difference.added);
        let mut conflicts = Vec::new();
        for entry in managers.iter_mut() {
            if entry.is_of(self.writer) {
                *entry.fields_mut() = set.difference(&UNOWNED);
                continue;
            }
            let contested = entry.fields().intersection(&changed);
            conflicts.extend(entry.conflicts(&contested));
            entry.subtract(&contested);
            entry.subtract(&difference.removed);
        }
        if !force && !conflicts.is_empty() {
            return Err(Refusal::Conflicts(conflicts));
        }
        if object != *self.live {
            managers.entry(self.writer).time = Some(self.writer.time.clone());
        }
        managers.drop_empty();
        Ok((object, managers))
    }

    /// What client-side apply wrote before belongs to the same person: kubectl takes it over.
    fn retry_after_client_side(
        &self,
        managers: Managers,
        conflicts: Vec<Conflict>,
    ) -> Result<(Value, Managers), Refusal> {
        let Some(own) = self.owned_client_side() else {
            return Err(Refusal::Conflicts(conflicts));
        };
        let own = own.paths();
        let others: Vec<Conflict> = conflicts
            .into_iter()
            .filter(|conflict| !own.contains(&conflict.path))
            .collect();
        if !others.is_empty() {
            return Err(Refusal::Conflicts(others));
        }
        self.attempt(managers, true)
    }

    /// The fields that client-side apply set and nobody has changed since.
    fn owned_client_side(&self) -> Option<Fields> {
        let text = self.live["metadata"]["annotations"][LAST_APPLIED].as_str()?;
        let last: Value = serde_json::from_str(text).ok()?;
        if last["apiVersion"] != json!(self.writer.api_version) {
            return None;
        }
        let kind = self.ground.kind;
        let difference = compare(kind, Some(&last), Some(self.live));
        let set = owned::owned(kind, &last);
        Some(
            set.difference(&difference.modified)
                .difference(&difference.added)
                .difference(&difference.removed),
        )
    }
}

/// Keeps client-side apply informed, where it was used on this object.
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

impl Entry {
    fn conflicts(&self, contested: &Fields) -> Vec<Conflict> {
        let conflict = |path| Conflict {
            manager: self.told(),
            path,
        };
        contested.paths().into_iter().map(conflict).collect()
    }
}
