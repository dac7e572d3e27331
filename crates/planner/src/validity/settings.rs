//! Finds promotion settings that can never work.

use api::pipeline::{PromotionSettings, Scope, Strategy, TargetLimit};
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
    let all = [
        two_strategies(settings),
        insecure_repository(strategy),
        invalid_tag(settings).map(|(field, text)| (format!("strategy.oci{field}"), text)),
        nameless_token(strategy),
        invalid_rollout(settings).map(|(field, text)| (format!("rollout{field}"), text)),
    ];
    found.extend(all.into_iter().flatten().map(|(field, text)| {
        let field = format!("{parent}.promotion.{field}");
        SpecMistake::new(field, format!("the promotion of {owner} {text}"))
    }));
}

/// A rollout whose targets cannot be changed one by one, or with limits that mean nothing.
fn invalid_rollout(settings: &PromotionSettings) -> Option<Mistake> {
    let rollout = settings.rollout.as_ref()?;
    if settings.scope == Some(Scope::Target) {
        let text = "has rollout and scope: Target, which exclude each other; remove one of them";
        return Some((String::new(), text.to_owned()));
    }
    if settings.strategy.notification.is_some() {
        let text = "has rollout with the strategy notification, which cannot be sent to some of the \
                    targets; use another strategy";
        return Some((String::new(), text.to_owned()));
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
        let text = format!(
            "has a rollout with a {name} that is neither a number nor a percentage such as \"5%\""
        );
        return Some((format!(".{name}"), text));
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
        let text = format!("has a wave {} with {text}", number + 1);
        Some((format!(".waves[{number}]"), text))
    })
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
fn invalid_tag(settings: &PromotionSettings) -> Option<Mistake> {
    let to = settings.strategy.oci.as_ref()?;
    if !to.url.starts_with("oci://") {
        let text = "has a url that does not start with oci://";
        return Some((".url".to_owned(), text.to_owned()));
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
        let text = format!(
            "has the tag {:?}; a tag has letters, digits, `_`, `.`, `-` and the fields {fields}",
            to.tag
        );
        return Some((".tag".to_owned(), text));
    }
    if to.provider.is_some() && (to.secret_ref.is_some() || to.insecure) {
        let text = "has a provider, which excludes secretRef and insecure";
        return Some((".provider".to_owned(), text.to_owned()));
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
    Some((".tag".to_owned(), text.to_owned()))
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
