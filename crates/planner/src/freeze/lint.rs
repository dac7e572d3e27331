//! Finds mistakes in a Freeze: times that cannot be understood, that never open or never close, and a namespace
//! without pipelines.

use api::{Freeze, Pipeline, freeze::FreezeSpec, pipeline::CoveringFreeze};
use jiff::Timestamp;

use super::{Schedule, closes_at, invalid_times, is_closed, opens_at};
use crate::lint::LintFinding;

/// Where Sluice is installed unless somebody chose another namespace.
const DEFAULT_NAMESPACE: &str = "pipeline-system";

/// All mistakes that the spec of a Freeze alone shows, looking a year ahead from `now`.
pub fn lint_freeze(spec: &FreezeSpec, now: Timestamp) -> Vec<LintFinding> {
    let times = spec.times();
    let unreadable = spec.unreadable.clone();
    if let Some(error) = unreadable.or_else(|| invalid_times(&times)) {
        let text = format!("it is always closed because it is not understood: {error}");
        return vec![finding(true, text)];
    }
    let (Ok(schedule), false) = (
        Schedule::parse(&times),
        times.closed.is_empty() && times.open_only.is_empty(),
    ) else {
        return Vec::new();
    };
    let from = now.max(schedule.not_before);
    let ends = schedule.not_after < Timestamp::MAX;
    let freeze = CoveringFreeze {
        times,
        ..CoveringFreeze::default()
    };
    let is_closed = is_closed(&freeze, from);
    let text = match (is_closed, freeze.times.open_only.is_empty()) {
        (true, _) if ends || opens_at(&[&freeze], from).is_some() => return Vec::new(),
        (true, false) => "openOnly does not open within a year",
        (true, true) => "closed does not open within a year; to stop everything, leave it out",
        (false, _) if closes_at(&freeze, from).is_some() => return Vec::new(),
        (false, _) => "it does not close within a year",
    };
    vec![finding(is_closed, text.to_owned())]
}

/// Warns of a Freeze in a namespace in which no Pipeline is known, if any is known. In the default namespace of
/// Sluice, and with a `namespaceSelector`, which has a meaning only there, it is meant for other namespaces.
pub fn lint_freeze_namespace<'a>(
    freeze: &Freeze,
    known: impl IntoIterator<Item = &'a Pipeline>,
) -> Option<LintFinding> {
    let namespace = freeze.metadata.namespace.as_deref()?;
    if namespace == DEFAULT_NAMESPACE || freeze.spec.namespace_selector.is_some() {
        return None;
    }
    let mut known = known.into_iter().peekable();
    known.peek()?;
    let is_here = known.any(|it| it.metadata.namespace.as_deref() == Some(namespace));
    (!is_here).then(|| {
        let text = format!(
            "no Pipeline of the namespace {namespace} is known; a Freeze covers only its own namespace, unless \
             that is the namespace of Sluice's controller"
        );
        finding(false, text)
    })
}

fn finding(is_error: bool, text: String) -> LintFinding {
    LintFinding {
        is_error,
        text,
        environment: None,
        field: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lint(spec: serde_json::Value) -> String {
        let spec: FreezeSpec = serde_json::from_value(spec).unwrap();
        let now = "2026-11-14T00:00:00Z".parse().unwrap();
        let findings = lint_freeze(&spec, now).into_iter();
        let texts = findings.map(|it| format!("{} {}", it.is_error, it.text));
        texts.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn finds_a_namespace_without_pipelines() {
        let is_told = |namespace: &str, spec: serde_json::Value, known: &[&str]| {
            let mut freeze = Freeze::new("f", serde_json::from_value(spec).unwrap());
            freeze.metadata.namespace = Some(namespace.to_owned());
            let pipelines: Vec<_> = known
                .iter()
                .map(|namespace| {
                    let mut pipeline = Pipeline::new("web", Default::default());
                    pipeline.metadata.namespace = Some((*namespace).to_owned());
                    pipeline
                })
                .collect();
            let found = lint_freeze_namespace(&freeze, &pipelines);
            found.is_some_and(|it| !it.is_error && it.text.contains(namespace))
        };
        let plain = || json!({"reason": "r"});
        let all = json!({"reason": "r", "namespaceSelector": {}});
        for (namespace, spec, known, expected) in [
            ("default", plain(), &["shop"][..], true),
            ("default", plain(), &["shop", "default"], false),
            ("default", plain(), &[], false),
            ("default", all, &["shop"], false),
            ("pipeline-system", plain(), &["shop"], false),
        ] {
            assert_eq!(
                is_told(namespace, spec, known),
                expected,
                "{namespace} {known:?}"
            );
        }
    }

    #[test]
    fn finds_what_never_opens_or_never_closes() {
        let window = |cron: &str, window: &str| json!([{"cron": cron, "window": window}]);
        assert_eq!(lint(json!({"closed": window("0 16 * * FRI", "64h")})), "");
        assert_eq!(lint(json!({})), "");
        let never = json!({"openOnly": window("0 0 31 2 *", "1h")});
        assert_eq!(lint(never), "true openOnly does not open within a year");
        let always = json!({"closed": window("@hourly", "60m")});
        assert!(lint(always).starts_with("true closed does not open within a year"));
        let nothing = json!({"closed": window("0 0 31 2 *", "1h")});
        assert_eq!(lint(nothing), "false it does not close within a year");
        let over = json!({"closed": window("@daily", "1h"), "notAfter": "2020-01-01T00:00:00Z"});
        assert_eq!(lint(over), "false it does not close within a year");
        let later = json!({"closed": window("0 16 * * MON", "1h")});
        assert_eq!(lint(later), "", "it is open now");
        let years = json!({"closed": window("@hourly", "60m"), "notAfter": "2028-12-24T00:00:00Z"});
        assert_eq!(lint(years), "", "it ends, although not within a year");
        let wrong = json!({"closed": [{"cron": "@daily", "window": "1h", "timeZone": "CEST5"}]});
        assert!(lint(wrong).contains("\"CEST5\" is no IANA time zone"));
    }
}
