//! docs/security.md names tests that exist.

use std::{collections::BTreeSet, fs, path::Path};

use testbed::guide::repository;

/// The rows of all tables whose last column is `test`.
fn rows(page: &str) -> Vec<&str> {
    let mut rows = Vec::new();
    let mut names_tests = false;
    for line in page.lines() {
        match line {
            _ if !line.starts_with('|') => names_tests = false,
            _ if line.ends_with("| test |") => names_tests = true,
            _ if names_tests && !line.starts_with("| ---") => rows.push(line),
            _ => {}
        }
    }
    rows
}

/// The last column: names in backticks.
fn named_tests(row: &str) -> Vec<&str> {
    let column = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
    column.split('`').skip(1).step_by(2).collect()
}

fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(fs::read_to_string(path).unwrap());
        }
    }
}

/// Test functions, and cases that a macro of the forges' contract runs as tests.
fn all_tests() -> BTreeSet<String> {
    let mut texts = Vec::new();
    sources(&repository().join("crates"), &mut texts);
    let mut names = BTreeSet::new();
    for text in &texts {
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            let name = line
                .split_once("fn ")
                .and_then(|(_, rest)| rest.split_once('('));
            match name {
                Some((name, arguments)) => {
                    if is_test || arguments.starts_with("double: ForgeDouble)") {
                        names.insert(name.to_owned());
                    }
                    is_test = false;
                }
                None if line.starts_with("#[test]") || line.starts_with("#[tokio::test") => {
                    is_test = true;
                }
                None => {}
            }
        }
    }
    names
}

#[test]
fn every_threat_names_tests_that_exist() {
    let page = fs::read_to_string(repository().join("docs/security.md")).unwrap();
    let (rows, tests) = (rows(&page), all_tests());
    assert!(rows.len() >= 70, "{} rows", rows.len());
    for row in rows {
        let named = named_tests(row);
        assert!(!named.is_empty(), "no test: {row}");
        for name in named {
            assert!(tests.contains(name), "there is no test {name}: {row}");
        }
    }
}

#[test]
fn every_endpoint_for_webhooks_is_attacked() {
    let page = fs::read_to_string(repository().join("docs/security.md")).unwrap();
    let routes = repository().join("crates/server/src/hooks.rs");
    let routes = fs::read_to_string(routes).unwrap();
    let paths = routes
        .lines()
        .filter_map(|line| line.trim().strip_prefix("for path in [\""));
    let paths: Vec<&str> = paths.filter_map(|rest| rest.split('"').next()).collect();
    assert!(paths.contains(&"/inputs"), "{paths:?}");
    for path in paths {
        assert!(page.contains(&format!("| `{path}` |")), "{path}");
    }
}

#[test]
fn no_role_for_people_writes_a_status() {
    let manifests = repository().join("deploy/manifests/roles.yaml");
    let roles = fs::read_to_string(manifests).unwrap();
    let mut rules = 0;
    for document in serde_saphyr::from_multiple::<serde_json::Value>(&roles).unwrap() {
        for rule in document["rules"].as_array().unwrap() {
            let resources = rule["resources"].as_array().unwrap().iter();
            let mut names = resources.map(|it| it.as_str().unwrap());
            let is_status = |name: &str| name.contains('*') || name.ends_with("/status");
            assert!(!names.any(is_status), "{document}");
            rules += 1;
        }
    }
    assert!(rules > 10, "{rules} rules");
}
