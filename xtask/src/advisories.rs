//! Checks dependencies for known vulnerabilities, as far as possible without a network.
//!
//! Uses cargo-deny and its database if they are installed, otherwise prints that nothing was checked.
//! Always checks that each dependency is pinned by a checksum and comes from the registry, and that each
//! advisory that deny.toml ignores has a reason.

use std::process::Stdio;

use anyhow::{Context, bail, ensure};

use crate::command::{cargo, root, run};

/// The prefix of registry sources in Cargo.lock.
const REGISTRY: &str = "registry+";

/// Fails if a dependency is not pinned or has an advisory.
pub(crate) fn check() -> anyhow::Result<()> {
    let read = |name: &str| {
        let text = std::fs::read_to_string(root().join(name));
        text.with_context(|| format!("cannot read {name}"))
    };
    check_ignored(&read("deny.toml")?)?;
    let pinned = check_pinned(&read("Cargo.lock")?)?;
    eprintln!("advisories: {pinned} packages are pinned by checksum");
    let deny = ["deny", "--offline", "check", "advisories"];
    let is_there = cargo(&["deny", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match is_there {
        Ok(status) if status.success() => run(&mut cargo(&deny)),
        _ => {
            eprintln!(
                "advisories: NOT checked for known vulnerabilities and yanked versions: that needs a \
                 network once. Install cargo-deny and run `cargo deny check advisories`"
            );
            Ok(())
        }
    }
}

/// Each ignored advisory must have a reason.
fn check_ignored(deny: &str) -> anyhow::Result<()> {
    let deny: toml::Table = deny.parse().context("cannot parse deny.toml")?;
    let advisories = deny.get("advisories").and_then(toml::Value::as_table);
    let advisories = advisories.context("deny.toml has no [advisories]")?;
    let yanked = advisories.get("yanked").and_then(toml::Value::as_str);
    ensure!(
        yanked == Some("deny"),
        "deny.toml: advisories.yanked must be \"deny\""
    );
    let ignored = advisories.get("ignore").and_then(toml::Value::as_array);
    for ignored in ignored.into_iter().flatten() {
        let text = |name: &str| ignored.get(name).and_then(toml::Value::as_str);
        let (id, reason) = (text("id"), text("reason").unwrap_or_default());
        if id.is_none() || reason.trim().is_empty() {
            bail!("deny.toml: an ignored advisory needs an id and a reason: {ignored:?}");
        }
    }
    Ok(())
}

/// The number of pinned packages. Fails if a dependency is not pinned.
fn check_pinned(lock: &str) -> anyhow::Result<usize> {
    let lock: toml::Table = lock.parse().context("cannot parse Cargo.lock")?;
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let mut pinned = 0;
    for package in packages.context("Cargo.lock has packages")? {
        let text = |name: &str| package.get(name).and_then(toml::Value::as_str);
        let name = text("name").unwrap_or_default();
        match (text("source"), text("checksum")) {
            (None, _) => {}
            (Some(source), Some(_)) if source.starts_with(REGISTRY) => pinned += 1,
            (source, _) => bail!("{name} is not pinned by a checksum of the registry: {source:?}"),
        }
    }
    Ok(pinned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_advisories_have_reasons() {
        let with =
            |ignore: &str| check_ignored(&format!("[advisories]\nyanked = \"deny\"\n{ignore}"));
        assert!(with("").is_ok());
        assert!(with("ignore = [{ id = \"RUSTSEC-1\", reason = \"not used\" }]").is_ok());
        assert!(with("ignore = [\"RUSTSEC-1\"]").is_err());
        assert!(with("ignore = [{ id = \"RUSTSEC-1\", reason = \" \" }]").is_err());
        assert!(check_ignored("[advisories]").is_err());
        assert!(check_ignored("").is_err());
    }

    #[test]
    fn packages_come_from_the_registry() {
        let package = |source: &str| {
            check_pinned(&format!(
                "[[package]]\nname = \"a\"\nversion = \"1\"\n{source}"
            ))
        };
        assert_eq!(package("").unwrap(), 0);
        let registry = format!("source = \"{REGISTRY}https://example.com/index\"\n");
        assert_eq!(package(&format!("{registry}checksum = \"0\"")).unwrap(), 1);
        assert!(package(&registry).is_err());
        assert!(package("source = \"git+https://example.com/a\"").is_err());
    }
}
