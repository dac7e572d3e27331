//! docs/operating.md documents all metrics and alerts, and alerts and the Grafana dashboard use only
//! existing metrics and labels.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::Value;
use testbed::guide::repository;

/// Labels that Prometheus adds to every series, and that of a histogram's buckets.
const ADDED: [&str; 5] = ["job", "instance", "pod", "namespace", "le"];
/// What Prometheus itself knows about every job.
const OF_PROMETHEUS: &str = "up";
/// Words of the language that are neither functions nor metrics.
const KEYWORDS: [&str; 4] = ["and", "or", "unless", "bool"];

/// A metric as the guide tells it.
#[derive(Debug)]
struct Metric {
    kind: String,
    labels: BTreeSet<String>,
}

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap()
}

/// The cells of a table's rows.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let text = read("docs/operating.md");
    let (_, chapter) = text.split_once(&format!("\n## {heading}\n")).unwrap();
    let chapter = chapter.split("\n## ").next().unwrap();
    let rows = chapter.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        row.split('|')
            .skip(1)
            .map(|cell| cell.trim().to_owned())
            .collect()
    })
    .collect()
}

/// What stands between backticks.
fn quoted(cell: &str) -> BTreeSet<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// By the name that it was registered under, which counters have without `_total`.
fn documented() -> BTreeMap<String, Metric> {
    let mut metrics = BTreeMap::new();
    for row in rows("Metrics") {
        for name in quoted(&row[0]) {
            let (kind, labels) = (row[1].clone(), quoted(&row[2]));
            let base = match kind.as_str() {
                "counter" => name.strip_suffix("_total").unwrap().to_owned(),
                _ => name,
            };
            metrics.insert(base, Metric { kind, labels });
        }
    }
    metrics
}

/// The names under which the code registers metrics.
fn registered() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for krate in ["controller", "runtime", "server", "trigger"] {
        scan(
            &repository().join("crates").join(krate).join("src"),
            &mut names,
        );
    }
    names
}

fn scan(path: &Path, names: &mut BTreeSet<String>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            scan(&entry.unwrap().path(), names);
        }
        return;
    }
    let text = fs::read_to_string(path).unwrap();
    for call in ["register(", "encode_descriptor(", "encode_gauge("] {
        for after in text.split(call).skip(1) {
            // The first text among the arguments, if there is one.
            let arguments = after.split([';', '{']).next().unwrap_or_default();
            names.extend(arguments.split('"').nth(1).map(str::to_owned));
        }
    }
}

#[test]
fn every_metric_is_documented() {
    let documented: BTreeSet<String> = documented().into_keys().collect();
    assert_eq!(registered(), documented);
}

/// What a running binary shows is what the guide tells.
pub(crate) fn check_page(page: &str) {
    let documented = documented();
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let mut count = 0;
    for (name, kind) in types.filter_map(|line| line.split_once(' ')) {
        assert_eq!(documented[name].kind, kind, "{name}");
        count += 1;
    }
    assert!(count > 20, "{page}");
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, rest)) = line.split_once('{') else {
            continue;
        };
        let labels = rest.rsplit_once('}').unwrap().0.split("\",");
        let labels = labels.map(|label| label.split_once('=').unwrap().0);
        check_labels(&documented, name, labels);
    }
}

/// The metric that a series belongs to.
fn metric_of<'a>(documented: &'a BTreeMap<String, Metric>, series: &str) -> Option<&'a Metric> {
    let of = |suffix: &str, kind: &str| {
        let metric = documented.get(series.strip_suffix(suffix)?)?;
        (metric.kind == kind).then_some(metric)
    };
    let histogram = ["_bucket", "_sum", "_count"];
    of("", "gauge")
        .or_else(|| of("_total", "counter"))
        .or_else(|| {
            histogram
                .into_iter()
                .find_map(|suffix| of(suffix, "histogram"))
        })
}

fn check_labels<'a>(
    documented: &BTreeMap<String, Metric>,
    series: &str,
    labels: impl Iterator<Item = &'a str>,
) {
    let metric = metric_of(documented, series);
    let metric = metric.unwrap_or_else(|| unreachable!("nobody exports {series}"));
    for label in labels {
        let is_known = metric.labels.contains(label) || ADDED.contains(&label);
        assert!(is_known, "{series} has no label {label}");
    }
}

/// The series of an expression, each with the labels it is selected and grouped by.
fn series(expression: &str) -> Vec<(String, Vec<String>)> {
    let (mut found, mut grouping) = (Vec::new(), Vec::new());
    let mut rest = expression;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '"' || c == '[') {
        rest = &rest[start..];
        if rest.starts_with(['"', '[']) {
            let close = if rest.starts_with('[') { ']' } else { '"' };
            rest = rest[1..].split_once(close).unwrap().1;
            continue;
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after.trim_start();
        match rest.chars().next() {
            Some('(') if word == "by" => {
                let (labels, after) = rest[1..].split_once(')').unwrap();
                grouping.extend(labels.split(',').map(|label| label.trim().to_owned()));
                rest = after;
            }
            // A function, or an aggregation.
            Some('(') => {}
            Some('b') if rest.starts_with("by (") => {}
            Some('{') => {
                let (matchers, after) = rest[1..].split_once('}').unwrap();
                let labels = matchers.split(',').map(|matcher| {
                    let end = matcher.find(['=', '!']).unwrap();
                    matcher[..end].trim().to_owned()
                });
                found.push((word.to_owned(), labels.collect()));
                rest = after;
            }
            _ if KEYWORDS.contains(&word) => {}
            _ => found.push((word.to_owned(), Vec::new())),
        }
    }
    for (_, labels) in &mut found {
        labels.extend(grouping.clone());
    }
    found
}

#[test]
fn series_of_an_expression_are_found() {
    let found = series(r#"sum by (a, le) (rate(x_total{b="c",e!="f"}[5m])) / y > 0.5"#);
    assert_eq!(found[0].0, "x_total");
    assert_eq!(found[0].1, ["b", "e", "a", "le"]);
    assert_eq!(found[1].0, "y");
    assert_eq!(found.len(), 2);
}

/// Every value under a key, however deep.
fn values_of(value: &Value, key: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => object.iter().for_each(|(name, value)| match value {
            Value::String(text) if name == key => found.push(text.clone()),
            value => values_of(value, key, found),
        }),
        Value::Array(items) => items.iter().for_each(|item| values_of(item, key, found)),
        _ => {}
    }
}

#[test]
fn alerts_and_dashboard_use_existing_metrics() {
    let documented = documented();
    let alerts: Value = serde_saphyr::from_str(&read("deploy/manifests/alerts.yaml")).unwrap();
    let dashboard: Value =
        serde_json::from_str(&read("deploy/chart/files/dashboard.json")).unwrap();
    let mut expressions = Vec::new();
    values_of(&alerts, "expr", &mut expressions);
    values_of(&dashboard, "expr", &mut expressions);
    assert!(expressions.len() > 30);
    for expression in &expressions {
        let found = series(expression);
        assert!(!found.is_empty(), "{expression}");
        for (name, labels) in found.iter().filter(|(name, _)| name != OF_PROMETHEUS) {
            check_labels(&documented, name, labels.iter().map(String::as_str));
        }
    }
}

#[test]
fn every_alert_is_documented() {
    let alerts: Value = serde_saphyr::from_str(&read("deploy/manifests/alerts.yaml")).unwrap();
    let mut names = Vec::new();
    values_of(&alerts, "alert", &mut names);
    let documented: Vec<String> = rows("Alerts")
        .iter()
        .flat_map(|row| quoted(&row[0]))
        .collect();
    assert_eq!(documented, names);
}
