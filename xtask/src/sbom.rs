//! `cargo xtask sbom`: writes the software bill of materials of the binary (CycloneDX, JSON).

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::Context;
use serde_json::{Value, json};

use crate::command::{cargo, output};

/// Writes the packages that the binary is built from, with version, licence and origin.
pub(crate) fn sbom(file: &Path) -> anyhow::Result<()> {
    let metadata = output(&mut cargo(&[
        "metadata",
        "--format-version",
        "1",
        "--locked",
    ]))?;
    let document = document(&serde_json::from_str(&metadata)?)?;
    let text = serde_json::to_string_pretty(&document)?;
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    eprintln!("wrote {}", file.display());
    Ok(())
}

fn document(metadata: &Value) -> anyhow::Result<Value> {
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata has packages")?;
    let root = packages
        .iter()
        .find(|package| package["name"] == "sluice")
        .context("the workspace has the package sluice")?;
    let used = used(metadata, &root["id"])?;
    let components = packages
        .iter()
        .filter(|package| package["id"] != root["id"] && used.contains(&package["id"].to_string()))
        .map(component);
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": "application", "name": "sluice", "version": root["version"],
            "licenses": [{"expression": root["license"]}],
        }},
        "components": components.collect::<Vec<_>>(),
    }))
}

/// The ids of the packages that a package is built from. Those for tests only are left out.
fn used(metadata: &Value, root: &Value) -> anyhow::Result<BTreeSet<String>> {
    let nodes = metadata["resolve"]["nodes"]
        .as_array()
        .context("cargo metadata has a resolve graph")?;
    let mut used = BTreeSet::new();
    let mut queue = vec![root];
    while let Some(id) = queue.pop() {
        if !used.insert(id.to_string()) {
            continue;
        }
        let node = nodes.iter().find(|node| node["id"] == *id);
        let dependencies = node.and_then(|node| node["deps"].as_array());
        for dependency in dependencies.into_iter().flatten() {
            let kinds = dependency["dep_kinds"].as_array();
            if kinds.is_none_or(|kinds| kinds.iter().any(|it| it["kind"] != "dev")) {
                queue.push(&dependency["pkg"]);
            }
        }
    }
    Ok(used)
}

fn component(package: &Value) -> Value {
    let text = |field: &str| package[field].as_str().unwrap_or_default();
    let (name, version) = (text("name"), text("version"));
    let mut component = json!({
        "type": "library",
        "name": name,
        "version": version,
        "purl": format!("pkg:cargo/{name}@{version}"),
    });
    if let Some(licence) = package["license"].as_str() {
        component["licenses"] = json!([{"expression": licence.replace('/', " OR ")}]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_for_tests_are_left_out() {
        let package = |name: &str| json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0"});
        let dependency =
            |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [package("sluice"), package("serde"), package("itoa"), package("proptest")],
            "resolve": {"nodes": [
                {"id": "sluice", "deps": [dependency("serde", Value::Null), dependency("proptest", json!("dev"))]},
                {"id": "serde", "deps": [dependency("itoa", Value::Null)]},
                {"id": "itoa", "deps": []},
            ]},
        });
        let document = document(&metadata).unwrap();
        let components = document["components"].as_array().unwrap();
        let purls: Vec<&Value> = components.iter().map(|it| &it["purl"]).collect();
        assert_eq!(purls, ["pkg:cargo/serde@1.0.0", "pkg:cargo/itoa@1.0.0"]);
        assert_eq!(
            components[0]["licenses"][0]["expression"],
            "MIT OR Apache-2.0"
        );
    }
}
