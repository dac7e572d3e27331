//! Finds mistakes in the spec of a pipeline before it runs.

mod approval_policy;
mod checks;
mod rollout;
mod shared_targets;
mod template_fields;

use std::collections::BTreeSet;

use api::{
    names::is_dns_label,
    pipeline::{Environment, PipelineSpec, PromotionSettings, Strategy, Target},
};

pub use shared_targets::lint_together;
pub use template_fields::TEXT_FIELDS;

use crate::{
    sources::{receives_nothing, sources, takes_proposals},
    validity,
};

/// A mistake in the spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LintFinding {
    /// Whether promotions can never start because of it.
    pub is_error: bool,
    /// A sentence without a full stop.
    pub text: String,
    /// The environment it is about, where it is about one.
    pub environment: Option<String>,
    /// The field that has it, such as `spec.environments[1].promotion`; empty if it is the whole object.
    pub field: String,
}

/// A mistake in the promotion settings of an environment, or in those of the changelog.
struct SettingsMistake {
    is_error: bool,
    text: String,
    /// Below `promotion`; of the changelog, the whole path.
    field: String,
}

impl SettingsMistake {
    fn error(field: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            is_error: true,
            text: text.into(),
            field: field.into(),
        }
    }

    fn warning(field: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            is_error: false,
            ..Self::error(field, text)
        }
    }
}

/// All mistakes that the spec alone shows.
pub fn lint(spec: &PipelineSpec) -> Vec<LintFinding> {
    let finding = |is_error, field: String, text| LintFinding {
        is_error,
        text,
        environment: None,
        field,
    };
    let mistakes = validity::mistakes(spec).into_iter();
    let mut findings: Vec<_> = mistakes
        .map(|it| finding(true, it.field, it.text))
        .collect();
    let source = validity::invalid_source(spec);
    findings.extend(source.map(|text| finding(true, "spec.source".to_owned(), text)));
    let changelog = changelog(spec);
    findings.extend(changelog.map(|it| finding(it.is_error, it.field, it.text)));
    findings.extend(shared_targets::within(spec));
    findings.extend(checks::mistakes(spec));
    findings.extend(target_mistakes(spec));
    for (index, environment) in spec.environments.iter().enumerate() {
        if let Some(settings) = spec.promotion_into(&environment.name) {
            findings.extend(settings_of(spec, index, environment, settings));
        }
    }
    if spec.app_ref.is_none() && spec.environments.iter().any(|it| promotes(spec, it)) {
        let text = "nothing is promoted without appRef: apps found by their label are only shown";
        findings.push(finding(true, "spec".to_owned(), text.to_owned()));
    }
    findings
}

/// Targets whose `clusterRef` names no cluster, or whose namespace cannot exist.
fn target_mistakes(spec: &PipelineSpec) -> Vec<LintFinding> {
    let mut found = Vec::new();
    for (index, environment) in spec.environments.iter().enumerate() {
        for (number, target) in environment.targets.iter().enumerate() {
            let finding = |(below, text)| LintFinding {
                is_error: true,
                text: format!("a target of {} has {text}", environment.name),
                environment: Some(environment.name.clone()),
                field: format!("spec.environments[{index}].targets[{number}].{below}"),
            };
            found.extend(mistakes_of_target(target).map(finding));
        }
    }
    found
}

/// The fields of a target that are wrong, and what is wrong with each.
fn mistakes_of_target(target: &Target) -> impl Iterator<Item = (&'static str, String)> {
    let cluster = target.cluster_ref.as_ref();
    let is_nameless = cluster.is_some_and(|it| it.name.is_empty());
    let cluster = is_nameless.then(|| ("clusterRef", "a clusterRef without a name".to_owned()));
    let namespace = &target.namespace;
    let is_impossible = !namespace.is_empty() && !is_dns_label(namespace);
    let namespace = is_impossible.then(|| {
        let text = format!(
            "the namespace {namespace:?}; names of namespaces have up to 63 lower-case letters, digits \
             and inner dashes"
        );
        ("namespace", text)
    });
    cluster.into_iter().chain(namespace)
}

/// The strategy of each environment that promotions lead into.
pub fn strategies_in_use(spec: &PipelineSpec) -> Vec<(&str, &Strategy)> {
    let environments = spec.environments.iter();
    let promoted = environments.filter(|it| !receives_nothing(spec, &it.name));
    let all = promoted.filter_map(|environment| {
        let settings = spec.promotion_into(&environment.name)?;
        Some((environment.name.as_str(), &settings.strategy))
    });
    all.filter(|(_, strategy)| !validity::strategies(strategy).is_empty())
        .collect()
}

/// The names of the Secrets that a strategy uses, in the namespace of the pipeline.
pub fn secrets_of(strategy: &Strategy) -> BTreeSet<&str> {
    let pull_request = strategy.pull_request.as_ref().map(|to| &to.secret_ref);
    let commit = strategy.commit.as_ref().map(|to| &to.secret_ref);
    let webhook = strategy.webhook.as_ref();
    let webhook = webhook.and_then(|to| to.secret_ref.as_ref());
    let oci = strategy.oci.as_ref().and_then(|to| to.secret_ref.as_ref());
    let inputs = strategy.resource_set_inputs.as_ref();
    let inputs = inputs.map(|to| &to.secret_ref);
    let own = strategy.secret_ref.as_ref();
    let all = [pull_request, commit, webhook, oci, inputs, own];
    let names = all.into_iter().flatten().map(|it| it.name.as_str());
    names.collect()
}

fn promotes(spec: &PipelineSpec, environment: &Environment) -> bool {
    spec.promotion_into(&environment.name).is_some()
}

fn settings_of(
    spec: &PipelineSpec,
    index: usize,
    environment: &Environment,
    settings: &PromotionSettings,
) -> Vec<LintFinding> {
    let name = environment.name.as_str();
    let mut found = entry(spec, environment, settings);
    found.extend(strategy(name, settings));
    found.extend(approval_policy::mistakes(name, settings));
    found.extend(rollout::mistakes(name, settings));
    found.extend(template_fields::mistakes(name, settings));
    let parent = match environment.promotion {
        Some(_) => format!("spec.environments[{index}].promotion"),
        None => "spec.promotion".to_owned(),
    };
    let about = |it: SettingsMistake| LintFinding {
        is_error: it.is_error,
        text: it.text,
        environment: Some(name.to_owned()),
        field: format!("{parent}.{}", it.field),
    };
    found.into_iter().map(about).collect()
}

/// What is wrong with how revisions get into an environment.
fn entry(
    spec: &PipelineSpec,
    environment: &Environment,
    settings: &PromotionSettings,
) -> Vec<SettingsMistake> {
    let name = environment.name.as_str();
    let is_first = sources(spec, name).is_empty();
    let has_own = environment.promotion.is_some();
    let has_none = validity::strategies(&settings.strategy).is_empty();
    let mut found = Vec::new();
    if has_none && (has_own || !is_first) {
        let because = match validity::hides_strategy(spec, environment) {
            true => ": its own `promotion` replaces the pipeline's; repeat `strategy` there",
            false => "",
        };
        let text = format!("the promotion into {name} names no strategy{because}");
        found.push(SettingsMistake::error("strategy", text));
    }
    if has_own && receives_nothing(spec, name) {
        let because = match takes_proposals(spec, name) || environment.targets.is_empty() {
            true => "it comes first and there is no source",
            false => "it comes after no environment",
        };
        let text = format!("nothing is ever promoted into {name}: {because}");
        found.push(SettingsMistake::error("", text));
    }
    if is_first && has_own && settings.soak.is_some() {
        let text = format!("the soak of {name} has no effect: no environment comes before it");
        found.push(SettingsMistake::warning("soak", text));
    }
    found
}

/// What is wrong with the strategy of a promotion.
fn strategy(name: &str, settings: &PromotionSettings) -> Vec<SettingsMistake> {
    let pull_request = settings.strategy.pull_request.as_ref();
    let field = |below: &str| format!("strategy.pull-request.{below}");
    let mut found = Vec::new();
    if pull_request.is_some_and(|it| it.draft && it.auto_merge) {
        let text = format!("{name}: a draft is not merged until somebody marks it ready");
        found.push(SettingsMistake::warning(field("draft"), text));
    }
    let feedback = pull_request.map(|it| it.shown_feedback());
    if feedback.is_some_and(|it| matches!(it, [one, other] if one == other)) {
        let text = format!("{name}: feedback names the same thing twice");
        found.push(SettingsMistake::warning(field("feedback"), text));
    }
    let tag = settings.strategy.oci.as_ref().map(|to| to.tag.as_str());
    if tag.is_some_and(|tag| tag.contains("${version}")) {
        let text = format!(
            "the tag of {name} has ${{version}}: that works only where targets follow an exact tag, not \
             a range, and something else changes which tag that is"
        );
        found.push(SettingsMistake::warning("strategy.oci.tag", text));
    }
    if pull_request.is_some_and(|it| it.base_branch.is_empty()) {
        let text = format!("{name}: the pull request names no baseBranch");
        found.push(SettingsMistake::error(field("baseBranch"), text));
    }
    found
}

/// What is wrong with the repository of the source code. Promotions do not depend on it.
fn changelog(spec: &PipelineSpec) -> Option<SettingsMistake> {
    let changelog = spec.changelog.as_ref()?;
    let url = changelog.url.as_str();
    if url.contains('@') {
        let text = "changelog.url has a user or a password in it; put them into the Secret";
        return Some(SettingsMistake::error("spec.changelog.url", text));
    }
    if !url.starts_with("https://") {
        let text = "changelog.url is not an HTTPS URL: no commits are shown";
        return Some(SettingsMistake::error("spec.changelog.url", text));
    }
    match &changelog.secret_ref {
        Some(secret) if secret.name.is_empty() => {
            let text = "changelog.secretRef has no name; name the Secret with the token";
            Some(SettingsMistake::error("spec.changelog.secretRef", text))
        }
        None => {
            let text = "changelog names no secretRef: commits are not listed, only a link is shown";
            Some(SettingsMistake::warning("spec.changelog", text))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use api::{pipeline::Changelog, reference::LocalReference};
    use serde_json::json;

    use super::*;

    fn check(url: &str, secret: Option<&str>, expected: Option<(bool, &str)>) {
        let spec = PipelineSpec {
            changelog: Some(Changelog {
                url: url.to_owned(),
                secret_ref: secret.map(|name| LocalReference {
                    name: name.to_owned(),
                }),
                ..Changelog::default()
            }),
            ..PipelineSpec::default()
        };
        let found = lint(&spec);
        let found = found.iter().find(|it| it.text.starts_with("changelog"));
        match expected {
            None => assert_eq!(found, None),
            Some((is_error, text)) => {
                let found = found.expect(text);
                assert_eq!(found.is_error, is_error);
                assert!(found.text.contains(text), "{}", found.text);
            }
        }
    }

    #[test]
    fn urls_of_checks_have_a_scheme_and_clusters_a_name() {
        let fields = |address: &str, cluster: &str| -> Vec<String> {
            let target =
                json!({"namespace": "a", "clusterRef": {"kind": "GitopsCluster", "name": cluster}});
            let prometheus = json!({"address": address, "query": "up", "passExpr": "value > 0.0"});
            let spec = json!({
                "checks": [{"name": "errors", "prometheus": prometheus}],
                "environments": [{"name": "dev", "verify": {"checks": ["errors"]}, "targets": [target]}],
            });
            let spec: PipelineSpec = serde_json::from_value(spec).expect("a spec");
            let errors = lint(&spec).into_iter().filter(|it| it.is_error);
            errors.map(|it| it.field).collect()
        };
        assert_eq!(fields("http://prometheus:9090", "eu"), [""; 0]);
        let expected = [
            "spec.checks[0].prometheus.address",
            "spec.environments[0].targets[0].clusterRef",
        ];
        assert_eq!(fields("prometheus:9090", ""), expected);
    }

    #[test]
    fn namespaces_of_targets_can_exist() {
        for (namespace, is_error) in [
            ("shop-staging", false),
            ("", false),
            ("Shop_staging", true),
            ("shop.staging", true),
            ("-shop", true),
        ] {
            let environment = json!({"name": "dev", "targets": [{"namespace": namespace}]});
            let spec = json!({"environments": [environment]});
            let spec: PipelineSpec = serde_json::from_value(spec).expect("a spec");
            let found = lint(&spec).into_iter().filter(|it| it.is_error);
            let fields: Vec<_> = found.map(|it| it.field).collect();
            let expected = is_error.then(|| "spec.environments[0].targets[0].namespace".to_owned());
            assert_eq!(fields, Vec::from_iter(expected), "{namespace}");
        }
    }

    #[test]
    fn a_changelog_needs_a_url_and_a_secret() {
        let url = "https://forge.example.com/team/shop";
        check(url, Some("token"), None);
        check(url, None, Some((false, "only a link")));
        check(url, Some(""), Some((true, "has no name")));
        check("http://forge.example.com/shop", None, Some((true, "HTTPS")));
        let secret = "https://ann:pass@forge.example.com/shop";
        check(
            secret,
            Some("token"),
            Some((true, "put them into the Secret")),
        );
    }
}
