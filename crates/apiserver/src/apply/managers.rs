//! `metadata.managedFields`: the writers of an object and what each owns.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, value::RawValue};

use crate::fields::Fields;

/// As many updating writers are told apart; older ones are lumped together.
const UPDATERS_LIMIT: usize = 10;
const LUMPED: &str = "ancient-changes";

/// How a writer writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Operation {
    Apply,
    Update,
}

/// Who writes, and how.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    pub(crate) manager: String,
    pub(crate) operation: Operation,
    pub(crate) api_version: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    pub(crate) time: String,
}

/// One writer's entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    #[serde(default, deserialize_with = "or_empty")]
    manager: String,
    operation: Operation,
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
    owned: Owned,
}

/// What an entry owns: text until somebody has to look.
#[derive(Debug, Clone, Default)]
struct Owned {
    unread: Option<Box<RawValue>>,
    set: Fields,
}

impl Owned {
    fn set(&self) -> Cow<'_, Fields> {
        match &self.unread {
            Some(text) => Cow::Owned(read(text).unwrap_or_default()),
            None => Cow::Borrowed(&self.set),
        }
    }
}

fn read(text: &RawValue) -> Option<Fields> {
    serde_json::from_str(text.get()).ok()
}

impl PartialEq for Owned {
    fn eq(&self, other: &Self) -> bool {
        self.set() == other.set()
    }
}

impl Serialize for Owned {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.unread {
            Some(text) => text.serialize(serializer),
            None => self.set.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Owned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self {
            unread: Some(Box::deserialize(deserializer)?),
            set: Fields::default(),
        })
    }
}

/// The one form in which fields are told.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum FieldsType {
    FieldsV1,
}

fn or_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl Entry {
    /// Whether this is the entry of that writer. Appliers are the same in every version.
    pub(super) fn is_of(&self, writer: &Writer) -> bool {
        self.manager == writer.manager
            && self.operation == writer.operation
            && self.subresource == writer.subresource
            && (self.operation == Operation::Apply || self.api_version == writer.api_version)
    }

    /// The writer as conflicts tell it.
    pub(super) fn told(&self) -> String {
        let mut told = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            told = format!("{told} with subresource {:?}", self.subresource);
        }
        match self.operation {
            Operation::Update => format!("{told} using {}", self.api_version),
            Operation::Apply => told,
        }
    }

    /// What it owns.
    pub(super) fn fields(&self) -> Cow<'_, Fields> {
        self.owned.set()
    }

    /// What it owns, to be changed.
    pub(super) fn fields_mut(&mut self) -> &mut Fields {
        if let Some(text) = self.owned.unread.take() {
            // What is stored was written here.
            self.owned.set = read(&text).unwrap_or_default();
        }
        &mut self.owned.set
    }

    /// Takes fields away from it.
    pub(super) fn subtract(&mut self, fields: &Fields) {
        let unread = self.owned.unread.as_ref();
        if unread.is_none_or(|text| fields.may_meet(text.get())) {
            self.fields_mut().subtract(fields);
        }
    }

    fn is_empty(&self) -> bool {
        match &self.owned.unread {
            Some(text) => text.get() == "{}",
            None => self.owned.set.is_empty(),
        }
    }

    /// Where it comes among others.
    fn rank(&self) -> impl Ord + '_ {
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

/// All writers of an object.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Managers(Vec<Entry>);

impl Managers {
    /// Reads `managedFields`; `None` if they are malformed. None at all is nobody.
    pub(super) fn decode(managed: &Value) -> Option<Self> {
        if managed.is_null() {
            return Some(Self::default());
        }
        let mut managers = Self::read(managed.to_string().as_bytes())?;
        for entry in managers.iter_mut() {
            if let Some(text) = entry.owned.unread.take() {
                entry.owned.set = read(&text)?;
            }
        }
        Some(managers)
    }

    /// Reads `managedFields` that are text, like [`Managers::decode`], and trusts them: what each
    /// entry owns is read when it is needed.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        match text {
            [] => Some(Self::default()),
            text => Self::checked(serde_json::from_slice(text).ok()?),
        }
    }

    fn checked(entries: Vec<Entry>) -> Option<Self> {
        let has_version = |entry: &Entry| !entry.api_version.is_empty();
        entries.iter().all(has_version).then_some(Self(entries))
    }

    /// The text of `managedFields`; empty for nobody.
    pub(super) fn write(mut self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        self.0.sort_by(|one, two| one.rank().cmp(&two.rank()));
        serde_json::to_string(&self.0).expect("fields have only texts as keys")
    }

    /// Whether these are the same but for times.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        let timeless = |entry: &Entry| Entry {
            time: None,
            ..entry.clone()
        };
        let timeless = |managers: &Self| managers.0.iter().map(timeless).collect::<Vec<_>>();
        timeless(self) == timeless(other)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.0.iter_mut()
    }

    pub(super) fn drop_empty(&mut self) {
        self.0.retain(|entry| !entry.is_empty());
    }

    /// What anybody owns.
    pub(super) fn all_fields(&self) -> Fields {
        let mut all = Fields::default();
        for entry in &self.0 {
            all.add(&entry.fields());
        }
        all
    }

    /// The entry of a writer, made if there is none.
    pub(super) fn entry(&mut self, writer: &Writer) -> &mut Entry {
        let found = self.0.iter().position(|entry| entry.is_of(writer));
        let index = found.unwrap_or_else(|| {
            self.0.push(Entry {
                manager: writer.manager.clone(),
                operation: writer.operation,
                api_version: writer.api_version.clone(),
                subresource: writer.subresource.clone(),
                time: None,
                fields_type: FieldsType::FieldsV1,
                owned: Owned::default(),
            });
            self.0.len() - 1
        });
        &mut self.0[index]
    }

    /// Lumps the oldest updaters together when there are too many.
    pub(super) fn cap(&mut self) {
        let is_updater = |entry: &Entry| entry.operation == Operation::Update;
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
            self.lump(pair);
        }
    }

    /// The two oldest updaters of the same version.
    fn oldest_pair(&self, updaters: &[usize]) -> Option<(usize, usize)> {
        updaters.iter().enumerate().find_map(|(position, later)| {
            let earlier = updaters[..position]
                .iter()
                .find(|earlier| self.0[**earlier].api_version == self.0[*later].api_version)?;
            Some((*earlier, *later))
        })
    }

    fn lump(&mut self, (earlier, later): (usize, usize)) {
        let mut lumped = self.0[later].clone();
        lumped.fields_mut().add(&self.0[earlier].fields());
        lumped.manager = LUMPED.to_owned();
        lumped.subresource = String::new();
        self.0[later] = lumped;
        self.0.remove(earlier);
    }
}
