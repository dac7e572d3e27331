//! Finds checks that can never run, and environments that name checks which do not exist.

use std::collections::BTreeSet;

use api::pipeline::{Environment, PipelineSpec};

use crate::check_definition::check_problem;

/// Why the checks of the pipeline cannot work.
pub(super) fn invalid(spec: &PipelineSpec) -> Option<String> {
    let mut names = BTreeSet::new();
    for check in &spec.checks {
        if !names.insert(check.name.as_str()) {
            return Some(format!("two checks are called {}", check.name));
        }
        if check.name.is_empty() {
            return Some("a check has no name".to_owned());
        }
        if let Some(text) = check_problem(check) {
            return Some(text);
        }
    }
    let all = spec.environments.iter();
    let mut named = all.flat_map(|environment| named(spec, environment));
    let (what, name) = named.find(|(_, name)| spec.check(name).is_none())?;
    Some(format!(
        "{what} names the check {name:?}, which is not in spec.checks"
    ))
}

/// The checks that an environment names, and where.
fn named<'a>(
    spec: &'a PipelineSpec,
    environment: &'a Environment,
) -> impl Iterator<Item = (String, &'a String)> {
    let name = &environment.name;
    let verify = spec.verify_checks(name).iter();
    let verify = verify.map(move |check| (format!("verify of {name}"), check));
    let settings = spec.promotion_into(name);
    let before = settings.into_iter().flat_map(|settings| &settings.checks);
    let before = before.map(move |check| (format!("the promotion of {name}"), check));
    verify.chain(before)
}
