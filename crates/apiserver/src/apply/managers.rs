//! `metadata.managedFields`: the writers of an object and what each owns.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::fields::Fields;

/// As many updating writers are told apart; older ones are lumped together.
const UPDATERS_LIMIT: usize = 10;
const LUMPED: &str = "ancient-changes";

/// How a writer writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    manager: String,
    operation: Operation,
    pub(super) api_version: String,
    subresource: String,
    pub(super) time: Option<String>,
    pub(super) fields: Fields,
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

    fn decode(entry: &Value) -> Option<Self> {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let operation = match entry["operation"].as_str()? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        if text("apiVersion").is_empty() || entry["fieldsType"] != "FieldsV1" {
            return None;
        }
        let fields = match &entry["fieldsV1"] {
            Value::Null => Fields::default(),
            fields => Fields::decode(fields)?,
        };
        Some(Self {
            manager: text("manager"),
            operation,
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: entry["time"].as_str().map(str::to_owned),
            fields,
        })
    }

    fn encode(&self) -> Value {
        let mut entry = json!({
            "manager": self.manager,
            "operation": format!("{:?}", self.operation),
            "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.encode(),
        });
        if let Some(time) = &self.time {
            entry["time"] = json!(time);
        }
        if !self.subresource.is_empty() {
            entry["subresource"] = json!(self.subresource);
        }
        entry
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
        match managed {
            Value::Null => Some(Self::default()),
            Value::Array(entries) => {
                let entries: Option<Vec<Entry>> = entries.iter().map(Entry::decode).collect();
                entries.map(Self)
            }
            _ => None,
        }
    }

    /// The wire form, in its order; null for nobody.
    pub(super) fn encode(mut self) -> Value {
        if self.0.is_empty() {
            return Value::Null;
        }
        self.0.sort_by(|one, two| {
            let order = |it: &Entry| (it.operation, it.seconds());
            order(one).cmp(&order(two)).then_with(|| {
                let names = |it: &'_ Entry| {
                    (
                        it.manager.clone(),
                        it.api_version.clone(),
                        it.subresource.clone(),
                    )
                };
                names(one).cmp(&names(two))
            })
        });
        self.0.iter().map(Entry::encode).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.0.iter_mut()
    }

    pub(super) fn drop_empty(&mut self) {
        self.0.retain(|entry| !entry.fields.is_empty());
    }

    /// What anybody owns.
    pub(super) fn all_fields(&self) -> Fields {
        let mut all = Fields::default();
        for entry in &self.0 {
            all.add(&entry.fields);
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
                fields: Fields::default(),
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
        lumped.fields.add(&self.0[earlier].fields);
        lumped.manager = LUMPED.to_owned();
        lumped.subresource = String::new();
        self.0[later] = lumped;
        self.0.remove(earlier);
    }
}
