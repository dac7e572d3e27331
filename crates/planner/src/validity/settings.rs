//! Finds promotion settings that can never work.

use api::pipeline::{PromotionSettings, Scope, Strategy, Wave};
use kube::core::Selector;

use super::{SpecMistake, strategies};

/// The fields of a tag.
const TAG_FIELDS: [&str; 4] = ["${environment}", "${cluster}", "${namespace}", "${version}"];

/// A field of the settings, and what is wrong with it.
type Mistake = (String, String);

/// The mistakes in the promotion settings of an environment or of the pipeline, which `parent` has.
pub(super) fn mistakes(
    settings: &PromotionSettings,
    owner: &str,
    parent: &str,
    found: &mut Vec<SpecMistake>,
) {
    let strategy = &settings.strategy;
    let below =
        |parent: &'static str| move |(field, text): Mistake| (format!("{parent}{field}"), text);
    let mut all = Vec::new();
    all.extend(two_strategies(settings));
    all.extend(insecure_repository(strategy));
    all.extend(
        tag_mistakes(settings)
            .into_iter()
            .map(below("strategy.oci")),
    );
    all.extend(nameless_token(strategy));
    all.extend(rollout_mistakes(settings).into_iter().map(below("rollout")));
    found.extend(all.into_iter().map(|(field, text)| {
        let field = format!("{parent}.promotion.{field}");
        SpecMistake::new(field, format!("the promotion of {owner} {text}"))
    }));
}

/// A rollout whose targets cannot be changed one by one, or with limits that mean nothing.
fn rollout_mistakes(settings: &PromotionSettings) -> Vec<Mistake> {
    let Some(rollout) = &settings.rollout else {
        return Vec::new();
    };
    let mut found = Vec::new();
    if settings.scope == Some(Scope::Target) {
        let text = "has rollout and scope: Target, which exclude each other; remove one of them";
        found.push((String::new(), text.to_owned()));
    }
    if settings.strategy.notification.is_some() {
        let text = "has rollout with the strategy notification, which cannot be sent to some of the \
                    targets; use another strategy";
        found.push((String::new(), text.to_owned()));
    }
    for (name, limit) in [
        ("maxFailures", &rollout.max_failures),
        ("maxUnreachable", &rollout.max_unreachable),
    ] {
        if limit.as_ref().is_some_and(|it| it.of(1).is_none()) {
            let text = format!(
                "has a rollout with a {name} that is neither a number nor a percentage such as \"5%\""
            );
            found.push((format!(".{name}"), text));
        }
    }
    for (number, wave) in rollout.waves.iter().enumerate() {
        found.extend(wave_mistakes(wave).into_iter().map(|text| {
            let text = format!("has a wave {} with {text}", number + 1);
            (format!(".waves[{number}]"), text)
        }));
    }
    found
}

fn wave_mistakes(wave: &Wave) -> Vec<String> {
    let percent = wave.percent.filter(|it| !(1..=100).contains(it));
    let percent = percent.map(|it| format!("percent {it}; it must be from 1 to 100"));
    let concurrent = wave.max_concurrent.filter(|it| *it < 1);
    let concurrent = concurrent.map(|it| format!("maxConcurrent {it}; it must be at least 1"));
    let selector = wave.selector.clone().map(Selector::try_from);
    let selector = selector.and_then(Result::err);
    let selector = selector.map(|error| format!("a selector that cannot be read: {error}"));
    [percent, concurrent, selector]
        .into_iter()
        .flatten()
        .collect()
}

/// Repositories are reached over https or ssh only. The URL is not repeated: it may hold a password.
fn insecure_repository(strategy: &Strategy) -> Option<Mistake> {
    let pull_request = strategy.pull_request.as_ref();
    let pull_request = pull_request.map(|to| ("pull-request", &to.url));
    let commit = strategy.commit.as_ref().map(|to| ("commit", &to.url));
    let (kind, url) = pull_request.or(commit)?;
    let (scheme, _) = url.split_once("://")?;
    let is_secure = ["https", "ssh"].map(|known| scheme.eq_ignore_ascii_case(known));
    (is_secure == [false, false]).then(|| {
        let text = format!("has a url that starts with {scheme}://; use https:// or ssh://");
        (format!("strategy.{kind}.url"), text)
    })
}

/// A tag that can never be set, or that the promotions of several targets would fight for.
fn tag_mistakes(settings: &PromotionSettings) -> Vec<Mistake> {
    let Some(to) = &settings.strategy.oci else {
        return Vec::new();
    };
    let mut found = Vec::new();
    if !to.url.starts_with("oci://") {
        let text = "has a url that does not start with oci://";
        found.push((".url".to_owned(), text.to_owned()));
    }
    if to.provider.is_some() && (to.secret_ref.is_some() || to.insecure) {
        let text = "has a provider, which excludes secretRef and insecure";
        found.push((".provider".to_owned(), text.to_owned()));
    }
    let tag = invalid_tag(&to.tag).or_else(|| unfit_tag(&to.tag, settings).map(str::to_owned));
    found.extend(tag.map(|text| (".tag".to_owned(), text)));
    found
}

fn invalid_tag(tag: &str) -> Option<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let filled = TAG_FIELDS
        .iter()
        .fold(tag.to_owned(), |tag, field| tag.replace(field, "x"));
    let is_tag =
        !filled.starts_with(['.', '-']) && !filled.is_empty() && filled.chars().all(is_word);
    (!is_tag).then(|| {
        let fields = TAG_FIELDS.join(", ");
        format!(
            "has the tag {tag:?}; a tag has letters, digits, `_`, `.`, `-` and the fields {fields}"
        )
    })
}

/// One tag for targets that are promoted one by one, or one tag per target for all at once.
fn unfit_tag(tag: &str, settings: &PromotionSettings) -> Option<&'static str> {
    let is_per_target = TAG_FIELDS[1..3].iter().any(|field| tag.contains(field));
    let is_split = settings.scope == Some(Scope::Target);
    match (is_split, settings.rollout.is_some(), is_per_target) {
        (true, _, false) => {
            Some("has scope: Target and one tag for all; put ${cluster} or ${namespace} into it")
        }
        (_, true, false) => {
            Some("has rollout and one tag for all; put ${cluster} or ${namespace} into it")
        }
        (false, false, true) => {
            Some("has a tag per target; set scope: Target, or use ${environment} instead")
        }
        _ => None,
    }
}

/// Inputs without a token would be answered to nobody.
fn nameless_token(strategy: &Strategy) -> Option<Mistake> {
    let inputs = strategy.resource_set_inputs.as_ref()?;
    let is_nameless = inputs.secret_ref.name.is_empty();
    is_nameless.then(|| {
        let text =
            "has resourceSetInputs without secretRef; name the Secret with the key inputs-token";
        ("strategy.resourceSetInputs".to_owned(), text.to_owned())
    })
}

fn two_strategies(settings: &PromotionSettings) -> Option<Mistake> {
    if settings.is_spelled_twice() {
        let text = "has strategies in both spellings: move pullRequest or webhook into strategy";
        return Some((String::new(), text.to_owned()));
    }
    let names = strategies(&settings.strategy);
    (names.len() > 1).then(|| {
        let text = format!("has several strategies: {}", names.join(", "));
        ("strategy".to_owned(), text)
    })
}
