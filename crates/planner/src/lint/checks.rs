//! Mistakes in the checks of a pipeline, which do not keep the pipeline from working.

use api::pipeline::{Check, Environment, OnFailure, PipelineSpec};

use super::LintFinding;
use crate::validity;

/// Checks that nothing uses or that cannot send their requests, and environments that cannot do what their `verify` says.
pub(super) fn mistakes(spec: &PipelineSpec) -> Vec<LintFinding> {
    let mut found = Vec::new();
    for (index, check) in spec.checks.iter().enumerate() {
        if !is_used(spec, &check.name) {
            found.push(LintFinding {
                is_error: false,
                text: format!("no environment uses the check {}", check.name),
                environment: None,
                field: format!("spec.checks[{index}]"),
            });
        }
    }
    for (index, check) in spec.checks.iter().enumerate() {
        let mistake = url_mistake(check);
        found.extend(mistake.map(|(field, url)| LintFinding {
            is_error: true,
            text: format!(
                "the check {} cannot ask {url}: a URL starts with http:// or https://",
                check.name
            ),
            environment: None,
            field: format!("spec.checks[{index}].{field}"),
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
