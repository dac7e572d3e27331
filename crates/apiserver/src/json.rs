//! Parses JSON with the leniency and the error messages of kube-apiserver.

mod duplicates;

use std::{borrow::Cow, fmt};

use serde_json::{Value, error::Category};

pub(crate) use duplicates::duplicates;

/// The path of a value, which is formatted only when it is needed.
pub(crate) enum FieldPath<'a> {
    Root,
    Field(&'a FieldPath<'a>, &'a str),
    Item(&'a FieldPath<'a>, usize),
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => formatter.write_str(name),
            Self::Field(path, name) => write!(formatter, "{path}.{name}"),
            Self::Item(path, index) => write!(formatter, "{path}[{index}]"),
        }
    }
}

/// How deep a body may nest, and how deep the parser goes.
pub(crate) const DEPTH_LIMIT: usize = 127;
/// Integers up to here are exact as floats.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Parses JSON. Invalid UTF-8 and escapes become replacement characters; the last of duplicate keys
/// counts.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let text = text(bytes);
    let text = without_lone_surrogates(&text);
    let mut value = serde_json::from_str(&text).map_err(|error| go_message(&text, &error))?;
    shorten_numbers(&mut value);
    Ok(value)
}

/// Whether a value nests deeper than `limit`; goes no deeper than that itself.
pub(crate) fn is_deeper(value: &Value, limit: usize) -> bool {
    let nests = |inner: &Value| match limit.checked_sub(1) {
        Some(limit) => is_deeper(inner, limit),
        None => true,
    };
    match value {
        Value::Array(items) => limit == 0 || items.iter().any(nests),
        Value::Object(fields) => limit == 0 || fields.values().any(nests),
        _ => false,
    }
}

/// Bytes as UTF-8, with replacement characters.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

/// The bracket at which the nesting is too deep.
fn too_deep(text: &str) -> Option<char> {
    let (mut depth, mut is_string, mut is_escaped) = (0_usize, false, false);
    for letter in text.chars() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if is_string => is_escaped = true,
            '"' => is_string = !is_string,
            '[' | '{' if !is_string => {
                depth += 1;
                if depth > DEPTH_LIMIT {
                    return Some(letter);
                }
            }
            ']' | '}' if !is_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

fn go_message(text: &str, error: &serde_json::Error) -> String {
    if let Some(bracket) = too_deep(text) {
        return format!("invalid character '{bracket}' exceeded max depth");
    }
    let message = error.to_string();
    if error.classify() == Category::Eof {
        return "unexpected end of JSON input".to_owned();
    }
    let line = text
        .lines()
        .nth(error.line().saturating_sub(1))
        .unwrap_or_default();
    let letters = || line.bytes().take(error.column());
    if message.starts_with("trailing characters") {
        let found = letters().next_back().map_or(' ', char::from);
        return format!("invalid character '{found}' after top-level value");
    }
    if message.starts_with("number out of range") {
        let is_number = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
        let mut number: Vec<u8> = letters()
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .take_while(is_number)
            .collect();
        number.reverse();
        let number = String::from_utf8_lossy(&number).into_owned();
        return format!("json: cannot unmarshal number {number} into Go value of type float64");
    }
    message
}

/// Replaces `\\ud800`-like escapes that are not part of a surrogate pair.
fn without_lone_surrogates(text: &str) -> Cow<'_, str> {
    if !text.contains("\\u") {
        return text.into();
    }
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        whole.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = match (unit(rest), rest.get(6..).and_then(unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                whole.push('\u{fffd}');
                rest = &rest[6..];
                continue;
            }
            // An escape is two letters at least, and a backslash may be escaped itself.
            _ => rest
                .char_indices()
                .nth(2)
                .map_or(rest.len(), |(end, _)| end),
        };
        whole.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    whole.push_str(rest);
    whole.into()
}

/// The UTF-16 unit of a `\\uXXXX` escape at the start of a text.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

/// `3.0` is written `3`, as Go does.
fn shorten_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && float.abs() < EXACT {
                #[expect(clippy::cast_possible_truncation, reason = "a whole number in range")]
                let whole = float as i64;
                *value = whole.into();
            }
        }
        Value::Array(list) => list.iter_mut().for_each(shorten_numbers),
        Value::Object(map) => map.values_mut().for_each(shorten_numbers),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_text_is_replaced() {
        assert_eq!(
            parse(br#"{"a":"\ud800x","b":"\ud83d\ude00","c":"\\ud800"}"#),
            Ok(json!({
                "a": "\u{fffd}x", "b": "\u{1f600}", "c": "\\ud800",
            }))
        );
        assert_eq!(parse(b"\"\xff\""), Ok(json!("\u{fffd}")));
        assert_eq!(parse(b"[3.0, 2.5, 1e3]"), Ok(json!([3, 2.5, 1000])));
    }

    #[test]
    fn errors_have_the_messages_of_kube_apiserver() {
        let fault = |text: &str| parse(text.as_bytes()).expect_err("malformed");
        assert_eq!(fault(""), "unexpected end of JSON input");
        assert_eq!(fault("{} x"), "invalid character 'x' after top-level value");
        assert_eq!(
            fault(&"[".repeat(200)),
            "invalid character '[' exceeded max depth"
        );
        assert!(fault("[1e400]").contains("1e400"));
    }
}
