//! Validates names, label keys and label values, with the messages of kube-apiserver.

use std::sync::LazyLock;

use regex::Regex;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

static LABEL_PATTERN: LazyLock<Regex> = LazyLock::new(|| anchored(LABEL));
static SUBDOMAIN_PATTERN: LazyLock<Regex> = LazyLock::new(|| anchored(SUBDOMAIN));
static LABEL_1035_PATTERN: LazyLock<Regex> = LazyLock::new(|| anchored(LABEL_1035));
static QUALIFIED_PATTERN: LazyLock<Regex> = LazyLock::new(|| anchored(QUALIFIED));
static VALUE_PATTERN: LazyLock<Regex> = LazyLock::new(|| anchored(VALUE));

fn anchored(pattern: &str) -> Regex {
    Regex::new(&format!("^{pattern}$")).expect("the patterns above are well formed")
}

/// The rule for names of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    Subdomain,
    Label,
    Label1035,
    /// Any path segment.
    PathSegment,
}

impl NameRule {
    /// The errors of a name.
    pub(crate) fn validate(self, name: &str) -> Vec<String> {
        match self {
            Self::Subdomain => subdomain(name),
            Self::Label => label(name),
            Self::Label1035 => label_1035(name),
            Self::PathSegment => path_segment(name),
        }
    }
}

fn path_segment(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    let characters = ["/", "%"].into_iter().filter(|it| name.contains(it));
    characters
        .map(|it| format!("may not contain '{it}'"))
        .collect()
}

fn label(name: &str) -> Vec<String> {
    let mut errors = too_long(name, 63, "characters");
    if !LABEL_PATTERN.is_match(name) {
        let is_dotted = SUBDOMAIN_PATTERN.is_match(name);
        errors.push(if is_dotted { "must not contain dots".to_owned() } else { format!(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{LABEL}')"
        ) });
    }
    errors
}

fn subdomain(name: &str) -> Vec<String> {
    let mut errors = too_long(name, 253, "characters");
    if !SUBDOMAIN_PATTERN.is_match(name) {
        errors.push(format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{SUBDOMAIN}')"
        ));
    }
    errors
}

fn label_1035(name: &str) -> Vec<String> {
    let mut errors = too_long(name, 63, "characters");
    if !LABEL_1035_PATTERN.is_match(name) {
        errors.push(format!(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '{LABEL_1035}')"
        ));
    }
    errors
}

/// The errors of a label key, annotation key or finalizer.
pub(crate) fn qualified(key: &str) -> Vec<String> {
    let must = format!(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{QUALIFIED}')"
    );
    let (prefix, name) = match key.split('/').collect::<Vec<_>>()[..] {
        [name] => (None, name),
        [prefix, name] => (Some(prefix), name),
        _ => {
            return vec![format!(
                "a valid label key {must} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    let mut errors: Vec<String> = match prefix {
        None => Vec::new(),
        Some("") => vec!["prefix part must be non-empty".to_owned()],
        Some(prefix) => prefixed("prefix part", subdomain(prefix)),
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    }
    errors.extend(prefixed("name part", too_long(name, 63, "bytes")));
    if !QUALIFIED_PATTERN.is_match(name) {
        errors.push(format!("name part {must}"));
    }
    errors
}

/// The errors of a label value.
pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut errors = too_long(value, 63, "bytes");
    if !VALUE_PATTERN.is_match(value) {
        errors.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{VALUE}')"
        ));
    }
    errors
}

/// The errors of a key of a ConfigMap or Secret.
pub(crate) fn config_key(key: &str) -> Vec<String> {
    let mut errors = too_long(key, 253, "characters");
    if key.is_empty()
        || !key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    {
        errors.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    errors
}

fn too_long(text: &str, limit: usize, unit: &str) -> Vec<String> {
    let error = || format!("must be no more than {limit} {unit}");
    (text.len() > limit).then(error).into_iter().collect()
}

fn prefixed(prefix: &str, errors: Vec<String>) -> Vec<String> {
    errors
        .into_iter()
        .map(|error| format!("{prefix} {error}"))
        .collect()
}
