//! Answers which environments an environment gets its revisions from, and which get theirs from it.
//!
//! An environment without `after` comes after the nearest earlier one that has targets. Everybody who asks
//! where a revision comes from asks here.

use std::collections::BTreeSet;

use api::pipeline::{Environment, PipelineSpec};

/// The environments that promotions into an environment come from, in the order of `after`. One that has no
/// targets is among them only if `after` names it: then nothing can pass it.
pub fn sources<'a>(spec: &'a PipelineSpec, environment: &str) -> Vec<&'a Environment> {
    match after(spec, environment) {
        None => default_source(spec, environment).into_iter().collect(),
        Some(names) => {
            let mut known = BTreeSet::new();
            let names = names.iter().filter(|name| known.insert(name.as_str()));
            names.filter_map(|name| find(spec, name)).collect()
        }
    }
}

/// The environments that come after an environment, in the order of the list. Without `after` that is the
/// next one, whether or not it has targets.
pub fn followers<'a>(spec: &'a PipelineSpec, environment: &str) -> Vec<&'a Environment> {
    let mut before = None;
    let mut found = Vec::new();
    for it in &spec.environments {
        let follows = match &it.after {
            Some(names) => names.iter().any(|name| name == environment),
            None => before == Some(environment),
        };
        if follows {
            found.push(it);
        }
        before = Some(it.name.as_str());
    }
    found
}

/// Whether the pipeline's source proposes the revisions of an environment: the first that has targets, unless
/// it comes after another one.
pub fn takes_proposals(spec: &PipelineSpec, environment: &str) -> bool {
    let mut environments = spec.environments.iter();
    let first = environments.find(|it| !it.targets.is_empty());
    first.is_some_and(|first| first.name == environment) && sources(spec, environment).is_empty()
}

/// Whether Sluice promotes nothing into an environment by itself, because nothing comes before it.
pub fn receives_nothing(spec: &PipelineSpec, environment: &str) -> bool {
    let is_proposed = spec.source.is_some() && takes_proposals(spec, environment);
    sources(spec, environment).is_empty() && !is_proposed
}

/// Whether every environment comes after the one before it in the list, so that the list says it all.
pub fn is_chain(spec: &PipelineSpec) -> bool {
    let names = |all: Vec<&Environment>| -> BTreeSet<String> {
        all.into_iter().map(|it| it.name.clone()).collect()
    };
    spec.environments.iter().all(|it| {
        let default = default_source(spec, &it.name).into_iter().collect();
        names(sources(spec, &it.name)) == names(default)
    })
}

/// The environments in columns for drawing them: each is to the right of everything it comes after.
/// Environments of a cycle, which only an invalid spec has, are in the last column.
pub fn environment_columns(spec: &PipelineSpec) -> Vec<Vec<&Environment>> {
    let mut left: Vec<&Environment> = spec.environments.iter().collect();
    let mut columns = Vec::new();
    while !left.is_empty() {
        let waits = |it: &Environment| {
            let sources = sources(spec, &it.name);
            sources.iter().any(|source| is_among(&left, &source.name))
        };
        let (later, mut column): (Vec<_>, Vec<_>) = left.iter().copied().partition(|it| waits(it));
        left = later;
        if column.is_empty() {
            column = std::mem::take(&mut left);
        }
        columns.push(column);
    }
    columns
}

/// A cycle of environments, in the direction of promotions and with the first again at its end.
pub(crate) fn cycle(spec: &PipelineSpec) -> Option<Vec<&str>> {
    let environments = spec.environments.iter();
    let mut names = environments.map(|it| it.name.as_str());
    names.find_map(|name| path_back(spec, name))
}

/// The shortest way from an environment back to itself.
fn path_back<'a>(spec: &'a PipelineSpec, start: &'a str) -> Option<Vec<&'a str>> {
    let mut known = BTreeSet::new();
    let mut paths = vec![vec![start]];
    while !paths.is_empty() {
        let mut longer = Vec::new();
        for path in paths {
            let first = path.first().copied().unwrap_or(start);
            for source in sources(spec, first) {
                let mut extended = vec![source.name.as_str()];
                extended.extend(&path);
                if source.name == start {
                    return Some(extended);
                }
                if known.insert(source.name.as_str()) {
                    longer.push(extended);
                }
            }
        }
        paths = longer;
    }
    None
}

fn after<'a>(spec: &'a PipelineSpec, environment: &str) -> Option<&'a [String]> {
    find(spec, environment)?.after.as_deref()
}

fn find<'a>(spec: &'a PipelineSpec, name: &str) -> Option<&'a Environment> {
    spec.environments.iter().find(|it| it.name == name)
}

/// The nearest earlier environment that has targets.
fn default_source<'a>(spec: &'a PipelineSpec, environment: &str) -> Option<&'a Environment> {
    let environments = spec.environments.iter();
    let earlier = environments.take_while(|it| it.name != environment);
    earlier.filter(|it| !it.targets.is_empty()).last()
}

fn is_among(environments: &[&Environment], name: &str) -> bool {
    environments.iter().any(|it| it.name == name)
}
