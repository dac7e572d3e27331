//! Finds mistakes in a Freeze: times that cannot be understood, that never open or never close.

use api::{freeze::FreezeSpec, pipeline::CoveringFreeze};
use jiff::Timestamp;

use super::{Schedule, closes_at, invalid_times, is_closed, opens_at};
use crate::lint::LintFinding;

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
        let wrong = json!({"closed": [{"cron": "@daily", "window": "1h", "timeZone": "CEST5"}]});
        assert!(lint(wrong).contains("\"CEST5\" is no IANA time zone"));
    }
}
