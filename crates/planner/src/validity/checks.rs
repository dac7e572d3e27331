//! Finds checks that can never run, and environments that name checks which do not exist.

use std::collections::BTreeSet;

use api::pipeline::{Check, PipelineSpec};

use super::SpecMistake;
use crate::check_definition::check_problems;

/// Why the checks of the pipeline cannot work.
pub(super) fn mistakes(spec: &PipelineSpec) -> Vec<SpecMistake> {
    let mut found = Vec::new();
    let mut names = BTreeSet::new();
    for (index, check) in spec.checks.iter().enumerate() {
        let is_new = names.insert(check.name.as_str());
        of_check(index, check, is_new, &mut found);
    }
    let mut inherited = spec.promotion.as_ref();
    for (index, environment) in spec.environments.iter().enumerate() {
        let name = &environment.name;
        let verify = environment.verify.as_ref().map(|it| &it.checks);
        found.extend(missing(spec, verify).map(|check| {
            let field = format!("spec.environments[{index}].verify.checks");
            unknown_check(field, &format!("verify of {name}"), check)
        }));
        let own = environment.promotion.as_ref();
        // What the pipeline says for all is reported for the first environment only.
        let settings = own.or_else(|| inherited.take());
        found.extend(missing(spec, settings.map(|it| &it.checks)).map(|check| {
            let field = match own {
                Some(_) => format!("spec.environments[{index}].promotion.checks"),
                None => "spec.promotion.checks".to_owned(),
            };
            unknown_check(field, &format!("the promotion of {name}"), check)
        }));
    }
    found
}

/// The names among these that no check has.
fn missing<'a>(
    spec: &'a PipelineSpec,
    names: Option<&'a Vec<String>>,
) -> impl Iterator<Item = &'a String> {
    let names = names.into_iter().flatten();
    names.filter(|name| spec.check(name).is_none())
}

fn unknown_check(field: String, what: &str, name: &str) -> SpecMistake {
    let text = format!("{what} names the check {name:?}, which is not in spec.checks");
    SpecMistake::new(field, text)
}

fn of_check(index: usize, check: &Check, is_new: bool, found: &mut Vec<SpecMistake>) {
    let field = |below: &str| format!("spec.checks[{index}]{below}");
    if check.name.is_empty() {
        found.push(SpecMistake::new(field(""), "a check has no name"));
    } else if !is_new {
        let text = format!("two checks are called {}", check.name);
        found.push(SpecMistake::new(field(".name"), text));
    }
    let problems = check_problems(check).into_iter();
    found.extend(problems.map(|(below, text)| SpecMistake::new(field(below), text)));
}
