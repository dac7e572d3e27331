//! Mistakes in the checks of a pipeline that do not keep it from working.

use api::pipeline::{Environment, OnFailure, PipelineSpec};

use super::LintFinding;
use crate::validity;

/// Checks that nothing uses, and environments that cannot do what their `verify` says.
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
