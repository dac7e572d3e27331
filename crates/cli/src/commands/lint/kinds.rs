//! Finds kinds that are almost right: those of objects, which would be taken for objects of others, and those that
//! `appRef` names, which would be looked for in vain.

use api::{app::AppType, pipeline::AppReference};
use serde_json::Value;

use super::{super::format::closest_name, schema::EmbeddedSchema};

/// How many letters of an API group may be wrong.
const WRONG_LETTERS: usize = 3;

/// The field that is wrong, and what is probably meant.
pub(super) fn near_miss(value: &Value, schema: &EmbeddedSchema) -> Option<(&'static str, String)> {
    let (version, kind) = (value["apiVersion"].as_str()?, value["kind"].as_str()?);
    let (group, _) = version.split_once('/')?;
    let known: Vec<(&str, &str)> = schema.kinds().collect();
    let mut of_group = known
        .iter()
        .filter(|(it, _)| self::group(it) == group)
        .peekable();
    if of_group.peek().is_none() {
        let near = |it: &&(&str, &str)| {
            it.1 == kind && strsim::damerau_levenshtein(self::group(it.0), group) <= WRONG_LETTERS
        };
        let (meant, _) = known.iter().find(near)?;
        let text = format!("there is no API group {group}: did you mean {meant}?");
        return Some(("apiVersion", text));
    }
    let of_group: Vec<&(&str, &str)> = of_group.collect();
    if let Some((meant, _)) = of_group.iter().find(|(_, it)| *it == kind) {
        let text = format!("{kind} has no version {version}: did you mean {meant}?");
        return Some(("apiVersion", text));
    }
    let meant = closest_name(kind, of_group.iter().map(|(_, kind)| *kind))?;
    let text = format!("{group} has no kind {kind}: did you mean {meant}?");
    Some(("kind", text))
}

/// The kinds of apps, and the API version of each that Flux and Kubernetes have today.
pub(in crate::commands) const APP_KINDS: [(&str, &str); 6] = [
    ("HelmRelease", "helm.toolkit.fluxcd.io/v2"),
    ("Kustomization", "kustomize.toolkit.fluxcd.io/v1"),
    ("ResourceSet", "fluxcd.controlplane.io/v1"),
    ("Deployment", "apps/v1"),
    ("StatefulSet", "apps/v1"),
    ("DaemonSet", "apps/v1"),
];

/// The field of `appRef` that is wrong, and what is probably meant. Other kinds than those of Flux and Kubernetes can
/// be apps too.
pub(super) fn near_miss_app(app: &AppReference) -> Option<(&'static str, String)> {
    if AppType::of(&app.api_version, &app.kind) != AppType::Other {
        return None;
    }
    let (group, kind) = (group(&app.api_version), &app.kind);
    let of_group = APP_KINDS.iter().filter(|it| self::group(it.1) == group);
    if let Some(meant) = closest_name(kind, of_group.map(|it| it.0)) {
        let text = format!("{group} has no app of kind {kind}: did you mean {meant}?");
        return Some(("spec.appRef.kind", text));
    }
    let (_, meant) = APP_KINDS.iter().find(|it| it.0 == kind)?;
    let is_near = strsim::damerau_levenshtein(self::group(meant), group) <= WRONG_LETTERS;
    is_near.then(|| {
        let text = format!("there is no API group {group}: did you mean {meant}?");
        ("spec.appRef.apiVersion", text)
    })
}

fn group(api_version: &str) -> &str {
    api_version.split('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_is_almost_an_app_is_found() {
        for (api_version, kind, expected) in [
            ("helm.toolkit.fluxcd.io/v2", "HelmRelease", None),
            (
                "helm.toolkit.fluxcd.io/v2",
                "Helmrelease",
                Some("did you mean HelmRelease?"),
            ),
            ("apps/v1", "Deploymnet", Some("did you mean Deployment?")),
            ("fluxcd.controlplane.io/v1", "FluxInstance", None),
            (
                "helm.toolkit.fluxcd/v2",
                "HelmRelease",
                Some("did you mean helm.toolkit.fluxcd.io/v2?"),
            ),
            ("example.com/v1", "HelmRelease", None),
            ("example.com/v1", "Website", None),
        ] {
            let app = AppReference {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                name: "web".to_owned(),
            };
            let found = near_miss_app(&app).map(|it| it.1);
            match (&found, expected) {
                (Some(found), Some(expected)) => assert!(found.contains(expected), "{found}"),
                (found, expected) => assert_eq!(found.as_deref(), expected, "{kind}"),
            }
        }
    }
}
