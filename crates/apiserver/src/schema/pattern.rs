//! Regular expressions in the dialect of kube-apiserver (Go's RE2).
//!
//! The two dialects differ in small ways: `\d`, `\w` and `\s` mean ASCII there,
//! a bracket inside a class is a plain bracket, and a brace that does not count
//! is a plain brace. Patterns are rewritten once, when the schema is read.

use regex::Regex;

/// A pattern as written and, when it is valid, ready to match.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) text: String,
    compiled: Result<Regex, String>,
}

impl Pattern {
    pub(super) fn new(text: String) -> Self {
        let compiled = Regex::new(&translated(&text)).map_err(|error| go_error(&error, &text));
        Self { text, compiled }
    }

    pub(super) fn problem(&self) -> Option<&str> {
        self.compiled.as_ref().err().map(String::as_str)
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.compiled
            .as_ref()
            .is_ok_and(|regex| regex.is_match(text))
    }
}

/// What Go says about a pattern that cannot be compiled.
fn go_error(error: &regex::Error, pattern: &str) -> String {
    let message = error.to_string();
    let part = |start: char| {
        pattern
            .rfind(start)
            .map_or(pattern, |index| &pattern[index..])
    };
    let cause = match message.rsplit("error: ").next().unwrap_or_default() {
        "unclosed group" => format!("missing closing ): `{pattern}`"),
        "unopened group" => format!("unexpected ): `{pattern}`"),
        "unclosed character class" => format!("missing closing ]: `{}`", part('[')),
        "repetition operator missing expression" => {
            format!("missing argument to repetition operator: `{}`", part('*'))
        }
        cause if cause.starts_with("look-around") => {
            "invalid or unsupported Perl syntax: `(?`".to_owned()
        }
        cause => format!("{cause}: `{pattern}`"),
    };
    format!("error parsing regexp: {cause}")
}

fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    let mut in_class = false;
    while let Some(character) = rest.next() {
        match character {
            '\\' => push_escape(&mut out, rest.next(), in_class),
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                open_class(&mut out, &mut rest);
            }
            '[' if rest.as_str().starts_with(':') => push_named_class(&mut out, &mut rest),
            '[' => out.push_str("\\["),
            ']' => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(character);
            }
            '{' if !in_class && !counts(rest.as_str()) => out.push_str("\\{"),
            _ => out.push(character),
        }
    }
    out
}

/// A `]` right after the opening of a class is a member of it.
fn open_class(out: &mut String, rest: &mut std::str::Chars<'_>) {
    if rest.as_str().starts_with('^') {
        rest.next();
        out.push('^');
    }
    if rest.as_str().starts_with(']') {
        rest.next();
        out.push_str("\\]");
    }
}

fn push_named_class(out: &mut String, rest: &mut std::str::Chars<'_>) {
    let Some((name, _)) = rest.as_str().split_once(":]") else {
        out.push_str("\\[");
        return;
    };
    let length = name.chars().count() + 2;
    out.push('[');
    out.extend(rest.by_ref().take(length));
}

fn push_escape(out: &mut String, escaped: Option<char>, in_class: bool) {
    let Some(escaped) = escaped else {
        return out.push('\\');
    };
    let (members, negated) = match escaped {
        'd' => ("0-9", false),
        'D' => ("0-9", true),
        'w' => ("0-9A-Za-z_", false),
        'W' => ("0-9A-Za-z_", true),
        's' => ("\\t\\n\\x0c\\r\\x20", false),
        'S' => ("\\t\\n\\x0c\\r\\x20", true),
        'b' | 'B' if !in_class => return out.push_str(&format!("(?-u:\\{escaped})")),
        _ => {
            out.push('\\');
            return out.push(escaped);
        }
    };
    match (negated, in_class) {
        (false, true) => out.push_str(members),
        (false, false) => out.push_str(&format!("[{members}]")),
        (true, _) => out.push_str(&format!("[^{members}]")),
    }
}

/// Whether what follows a `{` is a repetition such as `2}`, `2,}` or `2,5}`.
fn counts(rest: &str) -> bool {
    let Some((inside, _)) = rest.split_once('}') else {
        return false;
    };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let digits = |text: &str| text.chars().all(|character| character.is_ascii_digit());
    !least.is_empty() && digits(least) && digits(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, expected: bool) {
        let pattern = Pattern::new(pattern.to_owned());
        assert_eq!(pattern.problem(), None, "{}", pattern.text);
        assert_eq!(
            pattern.matches(text),
            expected,
            "{} on {text:?}",
            pattern.text
        );
    }

    #[test]
    fn classes_are_ascii() {
        check(r"^\d+$", "12", true);
        check(r"^\d+$", "٣", false);
        check(r"^[\w-]+$", "a_b-c", true);
        check(r"^[\w-]+$", "é", false);
        check(r"^[^\s]+$", "a b", false);
        check(r"^[\D]$", "x", true);
    }

    #[test]
    fn brackets_and_braces_may_be_plain() {
        check(r"^[[]x[]]$", "[x]", true);
        check(r"^[^[\]]+$", "ab", true);
        check(r"^[[:alpha:]]+$", "ab", true);
        check(r"^[a&&b]+$", "a&b", true);
        check(r"^a{b}$", "a{b}", true);
        check(r"^a{2,3}$", "aaa", true);
        check(r"^a{,3}$", "a{,3}", true);
    }

    #[test]
    fn broken_patterns_are_told() {
        for pattern in ["(", "[", "a**b(", "\\", "(?=x)"] {
            assert!(
                Pattern::new(pattern.to_owned()).problem().is_some(),
                "{pattern}"
            );
        }
    }
}
