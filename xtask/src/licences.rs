//! Checks that deny.toml allows the licence of each dependency.
//!
//! deny.toml is the file of cargo-deny, which can be used instead; this check needs only cargo.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::command::{cargo, output, root};

/// Fails if a dependency's licence is not allowed.
pub(crate) fn check() -> anyhow::Result<()> {
    let allowed = allowed()?;
    let metadata = output(&mut cargo(&[
        "metadata",
        "--format-version",
        "1",
        "--locked",
    ]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata has packages")?;
    let mut refused = Vec::new();
    for package in packages {
        let licence = package["license"].as_str().unwrap_or("(none stated)");
        if !is_satisfied(licence, &allowed) {
            refused.push(format!(
                "{} {}: {licence}",
                package["name"], package["version"]
            ));
        }
    }
    if !refused.is_empty() {
        bail!(
            "licences that deny.toml does not allow:\n  {}",
            refused.join("\n  ")
        );
    }
    eprintln!("licences: {} packages ok", packages.len());
    Ok(())
}

fn allowed() -> anyhow::Result<BTreeSet<String>> {
    let path = root().join("deny.toml");
    let text = std::fs::read_to_string(&path).context("cannot read deny.toml")?;
    let deny: toml::Table = text.parse().context("cannot parse deny.toml")?;
    let list = deny["licenses"]["allow"]
        .as_array()
        .context("deny.toml has licenses.allow")?;
    Ok(list
        .iter()
        .filter_map(|one| one.as_str().map(str::to_owned))
        .collect())
}

/// Evaluates an SPDX expression: `OR` binds weaker than `AND`, `/` is an old `OR`.
fn is_satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let satisfied = any_of(&mut rest, allowed);
    satisfied && rest.is_empty()
}

fn any_of(rest: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut satisfied = all_of(rest, allowed);
    while let ["OR", after @ ..] = *rest {
        *rest = after;
        satisfied |= all_of(rest, allowed);
    }
    satisfied
}

fn all_of(rest: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut satisfied = one(rest, allowed);
    while let ["AND", after @ ..] = *rest {
        *rest = after;
        satisfied &= one(rest, allowed);
    }
    satisfied
}

fn one(rest: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    match *rest {
        ["(", after @ ..] => {
            *rest = after;
            let satisfied = any_of(rest, allowed);
            if let [")", after @ ..] = *rest {
                *rest = after;
                return satisfied;
            }
            false
        }
        [licence, "WITH", exception, after @ ..] => {
            *rest = after;
            allowed.contains(&format!("{licence} WITH {exception}")) || allowed.contains(*licence)
        }
        [licence, after @ ..] => {
            *rest = after;
            allowed.contains(*licence)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn satisfied(expression: &str) -> bool {
        is_satisfied(expression, &["MIT", "Apache-2.0"].map(str::to_owned).into())
    }

    #[test]
    fn expressions_are_read_as_spdx_means_them() {
        assert!(satisfied("MIT"));
        assert!(satisfied("GPL-3.0 OR MIT"));
        assert!(satisfied("MIT/GPL-3.0"));
        assert!(satisfied("(MIT OR GPL-3.0) AND Apache-2.0"));
        assert!(satisfied("Apache-2.0 WITH LLVM-exception OR GPL-3.0"));
        assert!(!satisfied("MIT AND GPL-3.0"));
        assert!(!satisfied("(MIT OR GPL-3.0) AND GPL-3.0"));
        assert!(!satisfied("(MIT"));
        assert!(!satisfied(""));
    }
}
