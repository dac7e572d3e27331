//! Compares the markers in a git checkout with the promotions of a pipeline.

use api::Pipeline;
use git::propose::Error;

use super::{
    super::{
        checkout::{ManifestCheckout, Markers},
        cluster::key,
        format::closest_name,
        plan::{preview, sites_in_git},
    },
    findings::Finding,
};

/// Any version will do.
const SOME_VERSION: &str = "0.0.0";

/// Missing, misplaced and unused markers.
pub(super) fn check(pipeline: &Pipeline, line: usize, checkout: &ManifestCheckout) -> Vec<Finding> {
    let markers = checkout.markers();
    let mut findings = missing(pipeline, line, checkout);
    findings.extend(unused(pipeline, line, &markers));
    let unreadable = markers.unreadable.iter();
    findings.extend(
        unreadable.map(|file| Finding::warning(line, format!("cannot read the markers in {file}"))),
    );
    findings
}

/// Promotions that would find nothing to change. A warning if the controller may still find the
/// manifest by the path that Flux reports.
fn missing(pipeline: &Pipeline, line: usize, checkout: &ManifestCheckout) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (environment, site) in sites_in_git(pipeline) {
        if let Err(error) = preview(pipeline, &site, (SOME_VERSION, SOME_VERSION), checkout) {
            let outside = |error: &Error| matches!(error, Error::NoMarker { outside, .. } if !outside.is_empty());
            findings.push(Finding {
                is_error: error.downcast_ref().is_some_and(outside),
                line,
                text: format!("promotions into {}: {error:#}", environment.name),
                field: None,
            });
        }
    }
    findings
}

/// Markers of this pipeline without an environment.
fn unused(pipeline: &Pipeline, line: usize, markers: &Markers) -> Vec<Finding> {
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
        let meant = closest_name(environment, environments.iter().copied());
        let meant = meant.map(|meant| format!("; did you mean {meant}?"));
        let files = files.join(", ");
        let meant = meant.unwrap_or_default();
        let text = format!(
            "the marker {marker} in {files} does not name an environment of the pipeline{meant}"
        );
        Some(Finding::error(line, text))
    })
    .collect()
}
