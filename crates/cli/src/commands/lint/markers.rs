//! Whether a checkout holds what the promotions of a pipeline look for.

use api::Pipeline;

use super::{
    super::{
        checkout::{Checkout, Markers},
        cluster::key,
        plan::{comment, limits, places_in_git},
        words::close_to,
    },
    Finding,
};

/// What is missing, misplaced or left over.
pub(super) fn check(pipeline: &Pipeline, line: usize, checkout: &Checkout) -> Vec<Finding> {
    let markers = checkout.markers();
    let mut findings = missing(pipeline, line, &markers);
    findings.extend(left_over(pipeline, line, &markers));
    findings.extend(markers.unreadable.iter().map(|file| Finding {
        is_error: false,
        line,
        text: format!("markers are not found in {file}"),
    }));
    findings
}

fn missing(pipeline: &Pipeline, line: usize, markers: &Markers) -> Vec<Finding> {
    let (namespace, name) = key(pipeline);
    let mut findings = Vec::new();
    for (environment, place) in places_in_git(pipeline) {
        let marker = planner::marker(namespace, name, &place);
        let Some(files) = markers.files.get(&marker) else {
            let text = format!(
                "no file of the checkout carries the marker of {}: the controller then goes by what \
                 Flux says of the app, or gives up; put {} behind the version to be sure",
                environment.name,
                comment(&marker)
            );
            findings.push(Finding {
                is_error: false,
                line,
                text,
            });
            continue;
        };
        let settings = pipeline.spec.promotion_into(&environment.name);
        let limits = settings.map(|settings| limits(pipeline, &environment.name, settings));
        match limits {
            Some(Ok(limits)) if !files.iter().any(|file| limits.allow(file)) => {
                let text = format!(
                    "{marker} is only in files outside the strategy's paths: {}",
                    files.join(", ")
                );
                findings.push(Finding::error(line, text));
            }
            Some(Err(error)) => findings.push(Finding::error(line, format!("{error:#}"))),
            _ => {}
        }
    }
    findings
}

/// Markers of this pipeline that no promotion ever sets.
fn left_over(pipeline: &Pipeline, line: usize, markers: &Markers) -> Vec<Finding> {
    let (namespace, name) = key(pipeline);
    let own = format!("{namespace}:{name}:");
    let environments = pipeline.spec.environments.iter().map(|it| it.name.as_str());
    let environments: Vec<&str> = environments.collect();
    let ours = markers
        .files
        .iter()
        .filter(|(marker, _)| marker.starts_with(&own));
    ours.filter_map(|(marker, files)| {
        let environment = marker[own.len()..].split(':').next().unwrap_or_default();
        if environments.contains(&environment) {
            return None;
        }
        let meant = close_to(environment, environments.iter().copied());
        let meant = meant.map(|meant| format!("; did you mean {meant}?"));
        let files = files.join(", ");
        let meant = meant.unwrap_or_default();
        let text =
            format!("the marker {marker} in {files} names no environment of the pipeline{meant}");
        Some(Finding::error(line, text))
    })
    .collect()
}
