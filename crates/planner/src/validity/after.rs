//! Finds mistakes in `after` of environments.

use std::collections::BTreeSet;

use api::pipeline::{Environment, PipelineSpec};

use crate::sources;

/// How alike two names must be for one to be suggested instead of the other.
const ALIKE: f64 = 0.75;

/// Why the environments cannot come after each other as they are written.
pub(super) fn invalid(spec: &PipelineSpec) -> Option<String> {
    let mut mistakes = spec.environments.iter().filter_map(|it| of(spec, it));
    mistakes.next().or_else(|| {
        let cycle = sources::cycle(spec)?;
        let path = cycle.join(" → ");
        Some(format!(
            "environments come after each other in a circle: {path}; change `after` of one of them"
        ))
    })
}

fn of(spec: &PipelineSpec, environment: &Environment) -> Option<String> {
    let name = environment.name.as_str();
    let mut known = BTreeSet::new();
    for source in environment.after.iter().flatten() {
        if source == name {
            return Some(format!(
                "`after` of {name} names {name} itself: {name} → {name}"
            ));
        }
        if !known.insert(source) {
            return Some(format!("`after` of {name} names {source} twice"));
        }
        let mut environments = spec.environments.iter();
        if !environments.any(|it| it.name == *source) {
            let meant = suggestion(spec, name, source);
            return Some(format!(
                "`after` of {name} names {source:?}, which is no environment of the pipeline{meant}"
            ));
        }
    }
    None
}

/// The other environment that was probably meant.
fn suggestion(spec: &PipelineSpec, own: &str, wrong: &str) -> String {
    let names = spec.environments.iter().map(|it| it.name.as_str());
    let others = names.filter(|name| *name != own);
    let likeness = |name: &str| strsim::jaro_winkler(&name.to_lowercase(), &wrong.to_lowercase());
    let nearest = others.max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    let nearest = nearest.filter(|name| likeness(name) >= ALIKE);
    let text = nearest.map(|name| format!("; did you mean {name}?"));
    text.unwrap_or_default()
}
