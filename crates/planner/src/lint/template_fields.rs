//! Finds `${field}`s in the texts of a strategy that the controller cannot fill in.

use api::pipeline::PromotionSettings;

use super::SettingsMistake;
use crate::likeness::nearest_name;

/// The fields that `paths` of a strategy can have.
const PATH_FIELDS: [&str; 3] = ["environment", "cluster", "namespace"];
/// The fields that the title and the body of a pull request can have.
pub const TEXT_FIELDS: [&str; 11] = [
    "pipeline",
    "pipelineNamespace",
    "environment",
    "cluster",
    "namespace",
    "app",
    "revision",
    "version",
    "replaces",
    "approvedBy",
    "requestedBy",
];

/// The texts of the strategy of an environment with something else in `${…}`. Tags are checked elsewhere.
pub(super) fn mistakes(environment: &str, settings: &PromotionSettings) -> Vec<SettingsMistake> {
    let strategy = &settings.strategy;
    let pull_request = strategy.pull_request.as_ref();
    let commit = strategy.commit.as_ref();
    let mut texts = Vec::new();
    for (kind, paths) in [
        ("pull-request", pull_request.map(|it| &it.paths)),
        ("commit", commit.map(|it| &it.paths)),
    ] {
        for (index, path) in paths.into_iter().flatten().enumerate() {
            let field = format!("{kind}.paths[{index}]");
            texts.push((field, "paths", path, &PATH_FIELDS[..]));
        }
    }
    let title = pull_request.and_then(|it| it.title.as_ref());
    let body = pull_request.and_then(|it| it.body.as_ref());
    for (name, text) in [("title", title), ("body", body)] {
        let field = format!("pull-request.{name}");
        texts.extend(text.map(|text| (field, name, text, &TEXT_FIELDS[..])));
    }
    let found = texts.into_iter().filter_map(|(field, name, text, known)| {
        let text = format!("{name} of {environment} {}", unknown_field(text, known)?);
        Some(SettingsMistake::error(format!("strategy.{field}"), text))
    });
    found.collect()
}

/// What is wrong with the first `${…}` of a text that cannot be filled in.
fn unknown_field(text: &str, known: &[&str]) -> Option<String> {
    text.split("${").skip(1).find_map(|rest| {
        let Some((name, _)) = rest.split_once('}') else {
            return Some("has `${` without `}`".to_owned());
        };
        if known.contains(&name) {
            return None;
        }
        let help = match nearest_name(known.iter().copied(), name) {
            Some(meant) => format!("did you mean ${{{meant}}}?"),
            None => format!("the fields are {}", known.join(", ")),
        };
        Some(format!("has ${{{name}}}, which is not a field; {help}"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_do_not_exist_are_told_with_what_was_meant() {
        let paths = |path: &str| json!({"paths": ["apps/**", path]});
        for (strategy, expected) in [
            (
                paths("clusters/${cluster}/${environment}/${namespace}/**"),
                "",
            ),
            (
                paths("clusters/${cluster}/${env}/**"),
                "paths[1]: paths of prod has ${env}, which is not a field; did you mean ${environment}?",
            ),
            (
                paths("apps/${version}"),
                "paths[1]: paths of prod has ${version}, which is not a field; \
                 the fields are environment, cluster, namespace",
            ),
            (
                paths("apps/${cluster"),
                "paths[1]: paths of prod has `${` without `}`",
            ),
            (json!({"title": "${app} ${version} costs $5"}), ""),
            (
                json!({"title": "${app}", "body": "by ${requestedby}"}),
                "body: body of prod has ${requestedby}, which is not a field; did you mean ${requestedBy}?",
            ),
        ] {
            let settings = json!({"strategy": {"pull-request": strategy}});
            let settings = serde_json::from_value(settings).expect("settings");
            let found = mistakes("prod", &settings).into_iter();
            let found = found.map(|it| {
                let field = it.field.trim_start_matches("strategy.pull-request.");
                format!("{field}: {}", it.text)
            });
            assert_eq!(found.collect::<Vec<_>>().join("; "), expected);
        }
    }
}
