//! `metadata.managedFields`: the field managers of an object and the fields that each owns.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, value::RawValue};

use crate::field_set::FieldSet;

/// The maximum number of update entries; the oldest are merged into one.
const UPDATERS_LIMIT: usize = 10;
const ANCIENT_CHANGES: &str = "ancient-changes";

/// How a field manager writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum ManagerOperation {
    Apply,
    Update,
}

/// A field manager, as one write identifies it.
#[derive(Debug, Clone)]
pub(crate) struct FieldManager {
    pub(crate) manager: String,
    pub(crate) operation: ManagerOperation,
    pub(crate) api_version: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    pub(crate) time: String,
}

/// One entry of `managedFields`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ManagedFieldsEntry {
    #[serde(default, deserialize_with = "or_empty")]
    manager: String,
    operation: ManagerOperation,
    pub(super) api_version: String,
    #[serde(
        default,
        deserialize_with = "or_empty",
        skip_serializing_if = "String::is_empty"
    )]
    subresource: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) time: Option<String>,
    fields_type: FieldsType,
    #[serde(default, rename = "fieldsV1")]
    owned: OwnedFields,
}

/// The fields of an entry, parsed only when they are needed.
#[derive(Debug, Clone, Default)]
struct OwnedFields {
    unparsed: Option<Box<RawValue>>,
    set: FieldSet,
}

impl OwnedFields {
    fn set(&self) -> Cow<'_, FieldSet> {
        match &self.unparsed {
            Some(text) => Cow::Owned(read(text).unwrap_or_default()),
            None => Cow::Borrowed(&self.set),
        }
    }
}

fn read(text: &RawValue) -> Option<FieldSet> {
    serde_json::from_str(text.get()).ok()
}

impl PartialEq for OwnedFields {
    fn eq(&self, other: &Self) -> bool {
        self.set() == other.set()
    }
}

impl Serialize for OwnedFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.unparsed {
            Some(text) => text.serialize(serializer),
            None => self.set.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for OwnedFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self {
            unparsed: Some(Box::deserialize(deserializer)?),
            set: FieldSet::default(),
        })
    }
}

/// The only supported format of the fields.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum FieldsType {
    FieldsV1,
}

fn or_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl ManagedFieldsEntry {
    /// Whether this is the entry of a field manager. Apply entries are shared by all versions.
    pub(super) fn is_of(&self, field_manager: &FieldManager) -> bool {
        self.manager == field_manager.manager
            && self.operation == field_manager.operation
            && self.subresource == field_manager.subresource
            && (self.operation == ManagerOperation::Apply
                || self.api_version == field_manager.api_version)
    }

    /// The manager as in conflict messages.
    pub(super) fn describe(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text = format!("{text} with subresource {:?}", self.subresource);
        }
        match self.operation {
            ManagerOperation::Update => format!("{text} using {}", self.api_version),
            ManagerOperation::Apply => text,
        }
    }

    /// The owned fields.
    pub(super) fn fields(&self) -> Cow<'_, FieldSet> {
        self.owned.set()
    }

    /// The owned fields, to be changed.
    pub(super) fn fields_mut(&mut self) -> &mut FieldSet {
        if let Some(text) = self.owned.unparsed.take() {
            // Stored entries were written by this server and can be parsed.
            self.owned.set = read(&text).unwrap_or_default();
        }
        &mut self.owned.set
    }

    /// Removes fields from the entry.
    pub(super) fn subtract(&mut self, fields: &FieldSet) {
        let unparsed = self.owned.unparsed.as_ref();
        if unparsed.is_none_or(|text| fields.may_intersect(text.get())) {
            self.fields_mut().subtract(fields);
        }
    }

    fn is_empty(&self) -> bool {
        match &self.owned.unparsed {
            Some(text) => text.get() == "{}",
            None => self.owned.set.is_empty(),
        }
    }

    /// The position of the entry among the others.
    fn sort_key(&self) -> impl Ord + '_ {
        let names = [&self.manager, &self.api_version, &self.subresource];
        (self.operation, self.seconds(), names)
    }

    fn seconds(&self) -> i64 {
        let time = self
            .time
            .as_deref()
            .and_then(|it| it.parse::<Timestamp>().ok());
        time.map_or(0, Timestamp::as_second)
    }
}

/// All entries of an object.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ManagedFields(Vec<ManagedFieldsEntry>);

impl ManagedFields {
    /// Parses `managedFields`; `None` if they are malformed. Null is an empty list.
    pub(super) fn decode(managed: &Value) -> Option<Self> {
        if managed.is_null() {
            return Some(Self::default());
        }
        let mut managers = Self::read(managed.to_string().as_bytes())?;
        for entry in managers.iter_mut() {
            if let Some(text) = entry.owned.unparsed.take() {
                entry.owned.set = read(&text)?;
            }
        }
        Some(managers)
    }

    /// Parses stored `managedFields`. The fields of each entry are parsed when they are needed.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        match text {
            [] => Some(Self::default()),
            text => Self::checked(serde_json::from_slice(text).ok()?),
        }
    }

    fn checked(entries: Vec<ManagedFieldsEntry>) -> Option<Self> {
        let has_version = |entry: &ManagedFieldsEntry| !entry.api_version.is_empty();
        entries.iter().all(has_version).then_some(Self(entries))
    }

    /// The JSON of `managedFields`; empty if there are no entries.
    pub(super) fn write(mut self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        self.0
            .sort_by(|one, two| one.sort_key().cmp(&two.sort_key()));
        serde_json::to_string(&self.0).expect("fields have only texts as keys")
    }

    /// Whether these are equal except for their times.
    pub(super) fn is_same_except_times(&self, other: &Self) -> bool {
        let timeless = |entry: &ManagedFieldsEntry| ManagedFieldsEntry {
            time: None,
            ..entry.clone()
        };
        let timeless = |managers: &Self| managers.0.iter().map(timeless).collect::<Vec<_>>();
        timeless(self) == timeless(other)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut ManagedFieldsEntry> {
        self.0.iter_mut()
    }

    pub(super) fn drop_empty(&mut self) {
        self.0.retain(|entry| !entry.is_empty());
    }

    /// The fields of all entries.
    pub(super) fn all_fields(&self) -> FieldSet {
        let mut all = FieldSet::default();
        for entry in &self.0 {
            all.add(&entry.fields());
        }
        all
    }

    /// The entry of a field manager, created if there is none.
    pub(super) fn entry(&mut self, field_manager: &FieldManager) -> &mut ManagedFieldsEntry {
        let found = self.0.iter().position(|entry| entry.is_of(field_manager));
        let index = found.unwrap_or_else(|| {
            self.0.push(ManagedFieldsEntry {
                manager: field_manager.manager.clone(),
                operation: field_manager.operation,
                api_version: field_manager.api_version.clone(),
                subresource: field_manager.subresource.clone(),
                time: None,
                fields_type: FieldsType::FieldsV1,
                owned: OwnedFields::default(),
            });
            self.0.len() - 1
        });
        &mut self.0[index]
    }

    /// Merges the oldest update entries when there are too many.
    pub(super) fn merge_oldest_updaters(&mut self) {
        let is_updater = |entry: &ManagedFieldsEntry| entry.operation == ManagerOperation::Update;
        loop {
            let mut updaters: Vec<usize> = (0..self.0.len())
                .filter(|index| is_updater(&self.0[*index]))
                .collect();
            if updaters.len() <= UPDATERS_LIMIT {
                return;
            }
            updaters.sort_by_key(|index| {
                let entry = &self.0[*index];
                (entry.seconds(), entry.manager.clone())
            });
            let Some(pair) = self.oldest_pair(&updaters) else {
                return;
            };
            self.merge_entries(pair);
        }
    }

    /// The two oldest update entries of the same version.
    fn oldest_pair(&self, updaters: &[usize]) -> Option<(usize, usize)> {
        updaters.iter().enumerate().find_map(|(position, later)| {
            let earlier = updaters[..position]
                .iter()
                .find(|earlier| self.0[**earlier].api_version == self.0[*later].api_version)?;
            Some((*earlier, *later))
        })
    }

    fn merge_entries(&mut self, (earlier, later): (usize, usize)) {
        let mut merged = self.0[later].clone();
        merged.fields_mut().add(&self.0[earlier].fields());
        merged.manager = ANCIENT_CHANGES.to_owned();
        merged.subresource = String::new();
        self.0[later] = merged;
        self.0.remove(earlier);
    }
}
