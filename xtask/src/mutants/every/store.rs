//! What is known from earlier runs, in files in `target/mutants`.
//!
//! A run that was interrupted goes on where it ended. After a change of the code, a mutation that a test
//! killed before is tried with that test first.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::trial::Outcome;

/// The contents of a JSON file; `None` if there is none or it has another form.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let text = fs::read_to_string(path).ok()?;
    serde_json::from_str(&text).ok()
}

pub(super) fn write(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(value)?;
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// A number that differs if the value differs.
pub(super) fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// One line of the file of results.
#[derive(Clone, Deserialize, Serialize)]
struct Record {
    /// File, mutation and its number among equal ones.
    mutation: String,
    /// The hash of the code, of the tests and of the options.
    key: u64,
    outcome: Outcome,
}

/// The results of this and of earlier runs.
pub(super) struct Results {
    known: BTreeMap<String, Record>,
    key: u64,
    file: Mutex<File>,
}

impl Results {
    pub(super) fn open(path: &Path, key: u64) -> Result<Self> {
        let text = fs::read_to_string(path).unwrap_or_default();
        // The last line may be cut off.
        let records = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Record>(line).ok());
        let known: BTreeMap<String, Record> = records.map(|it| (it.mutation.clone(), it)).collect();
        let context = || format!("writing {}", path.display());
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Self {
            known,
            key,
            file: Mutex::new(file.with_context(context)?),
        })
    }

    /// The outcome of a mutation with the same code and tests.
    pub(super) fn outcome(&self, mutation: &str) -> Option<&Outcome> {
        let record = self.known.get(mutation)?;
        (record.key == self.key).then_some(&record.outcome)
    }

    /// Program and name of the test that killed it in an earlier run.
    pub(super) fn earlier_killer(&self, mutation: &str) -> Option<(&str, &str)> {
        match &self.known.get(mutation)?.outcome {
            Outcome::Killed { program, test, .. } => Some((program, test)),
            _ => None,
        }
    }

    pub(super) fn add(&self, mutation: &str, outcome: &Outcome) -> Result<()> {
        let record = Record {
            mutation: mutation.to_owned(),
            key: self.key,
            outcome: outcome.clone(),
        };
        let line = format!("{}\n", serde_json::to_string(&record)?);
        let mut file = self.file.lock().expect("no worker panics");
        file.write_all(line.as_bytes())
            .context("writing the results")
    }
}
