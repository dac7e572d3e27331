//! Finds mistakes in `after` of environments.

use std::collections::BTreeSet;

use api::pipeline::{Environment, PipelineSpec};

use super::SpecMistake;
use crate::{likeness::nearest_name, sources};

/// Why the environments cannot come after each other as they are written.
pub(super) fn mistakes(spec: &PipelineSpec) -> Vec<SpecMistake> {
    let environments = spec.environments.iter().enumerate();
    let found: Vec<_> = environments
        .filter_map(|(index, environment)| {
            let (nth, text) = of(spec, environment)?;
            let field = format!("spec.environments[{index}].after[{nth}]");
            Some(SpecMistake::new(field, text))
        })
        .collect();
    if !found.is_empty() {
        return found;
    }
    let cycle = sources::cycle(spec).map(|cycle| {
        let path = cycle.join(" → ");
        let text = format!(
            "environments come after each other in a circle: {path}; change `after` of one of them"
        );
        let mut environments = spec.environments.iter();
        let first = environments.position(|it| Some(&it.name.as_str()) == cycle.first());
        SpecMistake::new(format!("spec.environments[{}]", first.unwrap_or(0)), text)
    });
    cycle.into_iter().collect()
}

/// The first wrong entry of `after`, and what is wrong with it.
fn of(spec: &PipelineSpec, environment: &Environment) -> Option<(usize, String)> {
    let name = environment.name.as_str();
    let mut known = BTreeSet::new();
    for (nth, source) in environment.after.iter().flatten().enumerate() {
        let mut environments = spec.environments.iter();
        let text = if source == name {
            format!("`after` of {name} names {name} itself: {name} → {name}")
        } else if !known.insert(source) {
            format!("`after` of {name} names {source} twice")
        } else if !environments.any(|it| it.name == *source) {
            let meant = suggestion(spec, name, source);
            format!(
                "`after` of {name} names {source:?}, which is no environment of the pipeline{meant}"
            )
        } else {
            continue;
        };
        return Some((nth, text));
    }
    None
}

/// The other environment that was probably meant.
fn suggestion(spec: &PipelineSpec, own: &str, wrong: &str) -> String {
    let names = spec.environments.iter().map(|it| it.name.as_str());
    let others = names.filter(|name| *name != own);
    let nearest = nearest_name(others, wrong);
    let text = nearest.map(|name| format!("; did you mean {name}?"));
    text.unwrap_or_default()
}
