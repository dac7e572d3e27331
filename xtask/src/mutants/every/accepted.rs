//! The mutations that no test has to notice, with reasons: `xtask/survivors.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::command::root;

const FILE: &str = "xtask/survivors.toml";

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    accepted: Vec<Group>,
}

/// Mutations with the same reason.
#[derive(Deserialize)]
struct Group {
    reason: String,
    /// As the command prints them, without line and column.
    mutations: Vec<String>,
}

/// The reasons by mutation.
pub(super) struct Accepted(BTreeMap<String, String>);

impl Accepted {
    pub(super) fn read() -> Result<Self> {
        let text = fs::read_to_string(root().join(FILE)).context(FILE)?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self> {
        let file: File = toml::from_str(text).context(FILE)?;
        let mut reasons = BTreeMap::new();
        for group in file.accepted {
            for mutation in group.mutations {
                reasons.insert(mutation, group.reason.clone());
            }
        }
        Ok(Self(reasons))
    }

    pub(super) fn contains(&self, mutation: &str) -> bool {
        self.0.contains_key(mutation)
    }

    /// The mutations below a folder that are none of these.
    pub(super) fn outdated<'a>(
        &'a self,
        folder: &str,
        others: &BTreeSet<String>,
    ) -> impl Iterator<Item = &'a str> {
        let inside = self.0.keys().filter(move |it| it.starts_with(folder));
        inside
            .filter(move |it| !others.contains(*it))
            .map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_can_be_read_and_every_mutation_has_a_reason() {
        let accepted = Accepted::read().expect("a valid file");
        for (mutation, reason) in &accepted.0 {
            assert!(!reason.is_empty(), "{mutation}");
            let file = mutation.split(": ").next().unwrap_or_default();
            assert!(root().join(file).is_file(), "{mutation}");
        }
    }
}
