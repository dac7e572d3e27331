//! Finds specs that can never work.
//!
//! The API accepts such pipelines because that of the Weave pipeline-controller did; here each mistake gets
//! a sentence.

mod after;
mod checks;

use std::collections::BTreeSet;

use api::{
    app::AppType,
    pipeline::{
        AppReference, PipelineSpec, PromotionSettings, Scope, SourceKind, Strategy, TargetLimit,
    },
};
use kube::core::Selector;

/// The fields of a tag.
const TAG_FIELDS: [&str; 4] = ["${environment}", "${cluster}", "${namespace}", "${version}"];

/// Why no promotion of the pipeline can ever start.
pub(crate) fn invalid_spec(spec: &PipelineSpec) -> Option<String> {
    if spec.environments.is_empty() {
        return Some("the pipeline has no environments".to_owned());
    }
    let mut names = BTreeSet::new();
    for environment in &spec.environments {
        let name = environment.name.as_str();
        if name.is_empty() {
            return Some("an environment has no name".to_owned());
        }
        if !names.insert(name) {
            return Some(format!("two environments are called {name}"));
        }
        if let Some(settings) = &environment.promotion
            && let Some(text) = invalid_settings(settings)
        {
            return Some(format!("the promotion of {name} {text}"));
        }
        if environment
            .targets
            .iter()
            .any(|target| target.cluster_ref.is_some() && target.cluster_selector.is_some())
        {
            return Some(format!(
                "a target of {name} has clusterRef and clusterSelector"
            ));
        }
    }
    if let Some(text) = spec.promotion.as_ref().and_then(invalid_settings) {
        return Some(format!("the promotion of the pipeline {text}"));
    }
    after::invalid(spec)
        .or_else(|| checks::invalid(spec))
        .or_else(|| spec.app_ref.as_ref().and_then(invalid_app))
        .or_else(|| unverifiable(spec))
}

/// What Flux verifies is the source of an app, never the image that it runs.
fn unverifiable(spec: &PipelineSpec) -> Option<String> {
    let environments = spec.environments.iter().map(|it| it.promotion.as_ref());
    let mut settings = environments.chain([spec.promotion.as_ref()]).flatten();
    let is_required = settings.any(|settings| settings.require_verified_source);
    (is_required && spec.track.is_some()).then(|| {
        "track and requireVerifiedSource exclude each other: Flux verifies the source of an app and not \
         its images"
            .to_owned()
    })
}

fn invalid_settings(settings: &PromotionSettings) -> Option<String> {
    two_strategies(settings)
        .or_else(|| insecure_repository(&settings.strategy))
        .or_else(|| invalid_tag(settings))
        .or_else(|| nameless_token(&settings.strategy))
        .or_else(|| invalid_rollout(settings))
}

/// A rollout whose targets cannot be changed one by one, or with limits that mean nothing.
fn invalid_rollout(settings: &PromotionSettings) -> Option<String> {
    let rollout = settings.rollout.as_ref()?;
    if settings.scope == Some(Scope::Target) {
        let text = "has rollout and scope: Target, which exclude each other; remove one of them";
        return Some(text.to_owned());
    }
    if settings.strategy.notification.is_some() {
        let text = "has rollout with the strategy notification, which cannot be sent to some of the \
                    targets; use another strategy";
        return Some(text.to_owned());
    }
    let limits = [
        ("maxFailures", &rollout.max_failures),
        ("maxUnreachable", &rollout.max_unreachable),
    ];
    let is_bad = |limit: &TargetLimit| limit.of(1).is_none();
    let mut bad = limits
        .iter()
        .filter(|(_, it)| it.as_ref().is_some_and(is_bad));
    if let Some((name, _)) = bad.next() {
        return Some(format!(
            "has a rollout with a {name} that is neither a number nor a percentage such as \"5%\""
        ));
    }
    let mut waves = rollout.waves.iter().enumerate();
    waves.find_map(|(number, wave)| {
        let percent = wave.percent.filter(|it| !(1..=100).contains(it));
        let concurrent = wave.max_concurrent.filter(|it| *it < 1);
        let selector = wave.selector.clone().map(Selector::try_from);
        let text = match (percent, concurrent, selector) {
            (Some(percent), _, _) => format!("percent {percent}; it must be from 1 to 100"),
            (_, Some(most), _) => format!("maxConcurrent {most}; it must be at least 1"),
            (_, _, Some(Err(error))) => format!("a selector that cannot be read: {error}"),
            _ => return None,
        };
        Some(format!("has a wave {} with {text}", number + 1))
    })
}

/// Repositories are reached over https or ssh only. The URL is not repeated: it may hold a password.
fn insecure_repository(strategy: &Strategy) -> Option<String> {
    let pull_request = strategy.pull_request.as_ref().map(|to| &to.url);
    let url = pull_request.or(strategy.commit.as_ref().map(|to| &to.url))?;
    let (scheme, _) = url.split_once("://")?;
    let is_secure = ["https", "ssh"].map(|known| scheme.eq_ignore_ascii_case(known));
    (is_secure == [false, false])
        .then(|| format!("has a url that starts with {scheme}://; use https:// or ssh://"))
}

/// A tag that can never be set, or that the promotions of several targets would fight for.
fn invalid_tag(settings: &PromotionSettings) -> Option<String> {
    let to = settings.strategy.oci.as_ref()?;
    if !to.url.starts_with("oci://") {
        return Some("has a url that does not start with oci://".to_owned());
    }
    let is_tag = |tag: &str| {
        let is_word = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        !tag.starts_with(['.', '-']) && !tag.is_empty() && tag.chars().all(is_word)
    };
    let filled = TAG_FIELDS
        .iter()
        .fold(to.tag.clone(), |tag, field| tag.replace(field, "x"));
    if !is_tag(&filled) {
        let fields = TAG_FIELDS.join(", ");
        return Some(format!(
            "has the tag {:?}; a tag has letters, digits, `_`, `.`, `-` and the fields {fields}",
            to.tag
        ));
    }
    if to.provider.is_some() && (to.secret_ref.is_some() || to.insecure) {
        return Some("has a provider, which excludes secretRef and insecure".to_owned());
    }
    let is_per_target = TAG_FIELDS[1..3].iter().any(|field| to.tag.contains(field));
    let is_split = settings.scope == Some(Scope::Target);
    let text = match (is_split, settings.rollout.is_some(), is_per_target) {
        (true, _, false) => {
            "has scope: Target and one tag for all; put ${cluster} or ${namespace} into it"
        }
        (_, true, false) => {
            "has rollout and one tag for all; put ${cluster} or ${namespace} into it"
        }
        (false, false, true) => {
            "has a tag per target; set scope: Target, or use ${environment} instead"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// Inputs without a token would be answered to nobody.
fn nameless_token(strategy: &Strategy) -> Option<String> {
    let inputs = strategy.resource_set_inputs.as_ref()?;
    let is_nameless = inputs.secret_ref.name.is_empty();
    is_nameless.then(|| {
        "has resourceSetInputs without secretRef; name the Secret with the key inputs-token"
            .to_owned()
    })
}

fn two_strategies(settings: &PromotionSettings) -> Option<String> {
    if settings.is_spelled_twice() {
        let text = "has strategies in both spellings: move pullRequest or webhook into strategy";
        return Some(text.to_owned());
    }
    let names = strategies(&settings.strategy);
    (names.len() > 1).then(|| format!("has several strategies: {}", names.join(", ")))
}

/// The names of the strategies that are set.
pub(crate) fn strategies(strategy: &Strategy) -> Vec<&'static str> {
    let all = [
        ("pull-request", strategy.pull_request.is_some()),
        ("commit", strategy.commit.is_some()),
        ("notification", strategy.notification.is_some()),
        ("webhook", strategy.webhook.is_some()),
        ("oci", strategy.oci.is_some()),
        ("resourceSetInputs", strategy.resource_set_inputs.is_some()),
    ];
    let set = all.into_iter().filter(|(_, is_set)| *is_set);
    set.map(|(name, _)| name).collect()
}

fn invalid_app(app: &AppReference) -> Option<String> {
    if app.kind.is_empty() || app.name.is_empty() {
        return Some("appRef needs a kind and a name".to_owned());
    }
    let is_core = !app.api_version.is_empty() && !app.api_version.contains('/');
    is_core.then(|| {
        format!(
            "appRef names the core kind {}, which is never an app",
            app.kind
        )
    })
}

/// Why the source can never propose anything for such an app.
pub(crate) fn invalid_source(spec: &PipelineSpec) -> Option<String> {
    let source = spec.source.as_ref()?;
    let (what, fitting): (String, &[SourceKind]) = match (&spec.track, &spec.app_ref) {
        (Some(_), _) => (
            "a tracked image".to_owned(),
            &[SourceKind::ImagePolicy, SourceKind::Hook],
        ),
        (None, Some(app)) => (format!("a {}", app.kind), fitting_kinds(app)),
        (None, None) => return Some("a source needs appRef".to_owned()),
    };
    if !fitting.contains(&source.kind) {
        return Some(format!(
            "a {:?} proposes nothing for {what}; one of {fitting:?} does",
            source.kind
        ));
    }
    let is_nameless = source.name.as_deref().unwrap_or_default().is_empty();
    (source.kind != SourceKind::Hook && is_nameless)
        .then(|| format!("the source names no {:?}", source.kind))
}

fn fitting_kinds(app: &AppReference) -> &'static [SourceKind] {
    match AppType::of(&app.api_version, &app.kind) {
        AppType::HelmRelease => &[
            SourceKind::HelmChart,
            SourceKind::OCIRepository,
            SourceKind::Hook,
        ],
        AppType::Kustomization => &[SourceKind::GitRepository, SourceKind::OCIRepository],
        AppType::Workload(_) => &[SourceKind::ImagePolicy, SourceKind::Hook],
        AppType::ResourceSet | AppType::Other => &[SourceKind::Hook],
    }
}
