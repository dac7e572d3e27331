//! Mistakes in the checks of a pipeline, which do not keep the pipeline from working.

use api::pipeline::{Check, Environment, OnFailure, PipelineSpec};

use super::LintFinding;
use crate::{check_definition::is_measured, measurement::SHORTEST_INTERVAL, validity};

/// Checks that nothing uses, that cannot send their requests or want to send too many, and environments that cannot do
/// what their `verify` says.
pub(super) fn mistakes(spec: &PipelineSpec) -> Vec<LintFinding> {
    let mut found = Vec::new();
    for (index, check) in spec.checks.iter().enumerate() {
        let mistakes = mistakes_of(spec, check).into_iter();
        found.extend(mistakes.map(|(is_error, below, text)| LintFinding {
            is_error,
            text,
            environment: None,
            field: format!("spec.checks[{index}]{below}"),
        }));
    }
    for (index, environment) in spec.environments.iter().enumerate() {
        let mistake = verify_mistake(spec, environment);
        found.extend(mistake.map(|text| LintFinding {
            is_error: false,
            text,
            environment: Some(environment.name.clone()),
            field: format!("spec.environments[{index}].verify"),
        }));
    }
    found
}

/// Whether a mistake of a check is an error, the field below the check, and the sentence.
fn mistakes_of(spec: &PipelineSpec, check: &Check) -> Vec<(bool, String, String)> {
    let name = &check.name;
    let is_unused = !is_used(spec, name);
    let unused = is_unused.then(|| {
        let text = format!("no environment uses the check {name}");
        (false, String::new(), text)
    });
    let short = short_interval(check).map(|text| (false, ".interval".to_owned(), text));
    let url = url_mistake(check).map(|(field, url)| {
        let text =
            format!("the check {name} cannot ask {url}: a URL starts with http:// or https://");
        (true, format!(".{field}"), text)
    });
    [unused, short, url].into_iter().flatten().collect()
}

/// The field whose URL has no scheme that checks use, and the URL.
fn url_mistake(check: &Check) -> Option<(&'static str, &str)> {
    let address = check.prometheus.as_ref().map(|it| it.address.as_str());
    let url = check.http.as_ref().map(|it| it.url.as_str());
    let address = address.map(|it| ("prometheus.address", it));
    let (field, url) = address.or(url.map(|it| ("http.url", it)))?;
    let scheme = url.split_once("://").unwrap_or_default().0;
    let is_http = ["http", "https"]
        .iter()
        .any(|it| scheme.eq_ignore_ascii_case(it));
    (!is_http).then_some((field, url))
}

/// A check that wants to be measured more often than any check is.
fn short_interval(check: &Check) -> Option<String> {
    let interval = check.interval.as_ref()?;
    let is_short = is_measured(check) && interval.length() < SHORTEST_INTERVAL;
    is_short.then(|| {
        let seconds = SHORTEST_INTERVAL.as_secs();
        format!(
            "the check {} has the interval {interval}, but is not measured more often than every {seconds}s",
            check.name
        )
    })
}

fn is_used(spec: &PipelineSpec, check: &str) -> bool {
    spec.environments.iter().any(|environment| {
        let name = &environment.name;
        let settings = spec.promotion_into(name);
        let before = settings.map(|it| it.checks.as_slice()).unwrap_or_default();
        let mut named = spec.verify_checks(name).iter().chain(before);
        named.any(|it| it == check)
    })
}

fn verify_mistake(spec: &PipelineSpec, environment: &Environment) -> Option<String> {
    let verify = environment.verify.as_ref()?;
    let name = &environment.name;
    if verify.checks.is_empty() {
        return Some(format!("verify of {name} names no check"));
    }
    let settings = spec.promotion_into(name);
    let is_promoted = settings.is_some_and(|it| !validity::strategies(&it.strategy).is_empty());
    (verify.on_failure == OnFailure::Rollback && !is_promoted).then(|| {
        format!("{name} is never rolled back: no strategy leads into it, so onFailure: Rollback only holds")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_interval_below_a_second_is_told() {
        let http = json!({"http": {"url": "http://shop", "passExpr": "status == 200"}});
        let job = json!({"job": {"cronJobRef": {"name": "e2e"}}});
        for (kind, interval, is_told) in [
            (&http, "100ms", true),
            (&http, "1s", false),
            (&http, "1m", false),
            (&job, "100ms", false),
        ] {
            let mut check = kind.clone();
            check["name"] = "smoke".into();
            check["interval"] = interval.into();
            let check: Check = serde_json::from_value(check).expect("a check");
            let text = short_interval(&check);
            let expected = "the check smoke has the interval 100ms, but is not measured more often than every 1s";
            assert_eq!(text.as_deref(), is_told.then_some(expected), "{interval}");
        }
    }
}
