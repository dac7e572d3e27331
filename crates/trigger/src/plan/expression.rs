//! Evaluates JSONPath expressions and their concatenation: `$.repositoryName + ':' + $.imageVersion`.
//!
//! The dialect is the trigger operator's, as far as manifests use it: paths with names, brackets,
//! indexes, slices, unions, wildcards, descent and filters; string and number literals; `+`.
//! Anything else is an error that names the offending part.

use jsonpath_rust::JsonPath;
use serde_json::{Number, Value, json};

/// Expressions come from manifests and are evaluated on every event, so their size is bounded.
const MAX_LENGTH: usize = 1024;
const MAX_NESTING: usize = 16;

/// Whether a parameter's value is an expression rather than text.
pub(crate) fn is_expression(text: &str) -> bool {
    let text = text.trim();
    text == "$" || text.starts_with("$.") || text.starts_with("$[")
}

/// The value of an expression in a document.
pub(crate) fn evaluate(expression: &str, document: &Value) -> Result<Value, String> {
    if expression.len() > MAX_LENGTH {
        return Err(format!(
            "Expression is longer than {MAX_LENGTH} characters."
        ));
    }
    let terms = split(expression).map_err(|because| invalid(expression, &because))?;
    let mut values = Vec::new();
    for term in terms {
        let value = operand(term, document).map_err(|because| invalid(expression, &because))?;
        if value.is_null() {
            return Err(format!("Expression {} evaluates to null.", term.trim()));
        }
        values.push(value);
    }
    Ok(sum(values))
}

/// A value as parameter text: strings as they are, everything else as JSON.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn invalid(expression: &str, because: &str) -> String {
    format!("Expression {expression} is not valid: {because}.")
}

/// The terms between the plus signs outside of brackets and quotes.
fn split(expression: &str) -> Result<Vec<&str>, String> {
    let mut terms = Vec::new();
    let (mut start, mut nesting, mut quote) = (0, 0_usize, None);
    let mut escaped = false;
    for (at, c) in expression.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[' | '(') => nesting += 1,
            (None, ']' | ')') => {
                nesting = nesting
                    .checked_sub(1)
                    .ok_or_else(|| format!("{c} has no opening bracket"))?;
            }
            (None, '+') if nesting == 0 => {
                terms.push(&expression[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        if nesting > MAX_NESTING {
            return Err("brackets are nested too deep".to_owned());
        }
    }
    if nesting > 0 || quote.is_some() {
        return Err("a bracket or quote is not closed".to_owned());
    }
    terms.push(&expression[start..]);
    Ok(terms)
}

fn operand(term: &str, document: &Value) -> Result<Value, String> {
    let term = term.trim();
    if term.starts_with('$') {
        return path(term, document);
    }
    if let Some(text) = literal(term) {
        return Ok(json!(text));
    }
    match serde_json::from_str::<Number>(term) {
        Ok(number) => Ok(Value::Number(number)),
        Err(_) => Err(format!(
            "{term:?} is neither a path that starts with $ nor a literal"
        )),
    }
}

fn literal(term: &str) -> Option<String> {
    for quote in ['\'', '"'] {
        let inner = term
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote));
        if let Some(inner) = inner {
            let unescaped = inner
                .replace(&format!("\\{quote}"), &quote.to_string())
                .replace("\\\\", "\\");
            return Some(unescaped);
        }
    }
    None
}

/// The matches of a path: null for none, the value itself for one, an array for several.
fn path(term: &str, document: &Value) -> Result<Value, String> {
    check_names(term)?;
    let found = document
        .query(term)
        .map_err(|_| format!("{term} is not a path"))?;
    Ok(match found.as_slice() {
        [] => Value::Null,
        [one] => (*one).clone(),
        several => Value::Array(several.iter().map(|value| (*value).clone()).collect()),
    })
}

/// Outside of brackets a path consists of names, dots and stars; any other character there would be
/// read as part of a name.
fn check_names(term: &str) -> Result<(), String> {
    let mut nesting = 0_usize;
    let mut quote = None;
    for c in term.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[' | '(') => nesting += 1,
            (None, ']' | ')') => nesting = nesting.saturating_sub(1),
            (None, c) if nesting > 0 || c.is_alphanumeric() || "$._*".contains(c) => {}
            (None, c) => {
                return Err(format!(
                    "{c:?} is not allowed there; write names with other characters as ['like-this']"
                ));
            }
        }
    }
    Ok(())
}

/// Adds integers; joins anything else as text. A single value is unchanged.
fn sum(mut values: Vec<Value>) -> Value {
    if values.len() == 1 {
        return values.remove(0);
    }
    let numbers: Option<Vec<i64>> = values.iter().map(Value::as_i64).collect();
    let total = numbers.and_then(|numbers| {
        numbers
            .into_iter()
            .try_fold(0_i64, |total, number| total.checked_add(number))
    });
    match total {
        Some(total) => json!(total),
        None => Value::String(values.iter().map(text_of).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expression: &str, expected: &str) {
        let document = json!({
            "id": 1163006807, "title": "Fix null pointer", "name": "a\"b\nc", "open": true,
            "nothing": null, "branchName": "nullable-fix", "empty": "",
            "head": { "ref": "feature/x", "sha": "abc" },
            "labels": [{ "name": "bug" }, { "name": "now" }], "list": [1, 2, 3],
            "odd-key": "odd"
        });
        let shown = match evaluate(expression, &document) {
            Ok(value) => text_of(&value),
            Err(because) => because,
        };
        assert_eq!(shown, expected, "{expression}");
    }

    #[test]
    fn paths() {
        check("$.id", "1163006807");
        check("$.head.ref", "feature/x");
        check("$['head']['sha']", "abc");
        check("$['odd-key']", "odd");
        check("$.open", "true");
        check("$.empty", "");
        check("$.labels[0].name", "bug");
        check("$.labels[-1].name", "now");
        check("$.labels[*].name", r#"["bug","now"]"#);
        check("$..name", r#"["a\"b\nc","bug","now"]"#);
        check("$.list[0:2]", "[1,2]");
        check("$.list[0,2]", "[1,3]");
        check("$.labels[?(@.name=='bug')].name", "bug");
        check("$.head", r#"{"ref":"feature/x","sha":"abc"}"#);
    }

    #[test]
    fn b10_values_that_contain_null_are_fine_and_escapes_are_decoded() {
        check("$.title", "Fix null pointer");
        check("$.branchName", "nullable-fix");
        check("$.name", "a\"b\nc");
    }

    #[test]
    fn concatenation() {
        check("$.head.ref + ':' + $.head.sha", "feature/x:abc");
        check("$.head.sha+\"-\"+$.id", "abc-1163006807");
        check("$.head.sha + '+' + 'it\\'s'", "abc+it's");
        check("$.id + 1", "1163006808");
    }

    #[test]
    fn errors_are_clear() {
        check(
            "$.nonexistentfield",
            "Expression $.nonexistentfield evaluates to null.",
        );
        check("$.nothing", "Expression $.nothing evaluates to null.");
        check("$.id + $.nope", "Expression $.nope evaluates to null.");
        check(
            ".nonexistentfield",
            "Expression .nonexistentfield is not valid: \".nonexistentfield\" is neither a path that starts with $ nor a literal.",
        );
        check(
            "$.odd-key",
            "Expression $.odd-key is not valid: '-' is not allowed there; write names with other characters as ['like-this'].",
        );
        check(
            "$.head[",
            "Expression $.head[ is not valid: a bracket or quote is not closed.",
        );
        check(
            "$.a]",
            "Expression $.a] is not valid: ] has no opening bracket.",
        );
        check(
            "$.labels[?(@.name in ['bug'])]",
            "Expression $.labels[?(@.name in ['bug'])] evaluates to null.",
        );
        check(
            &format!("$.{}", "a".repeat(1100)),
            "Expression is longer than 1024 characters.",
        );
        assert!(evaluate(&format!("${}", "[?(".repeat(30)), &json!({})).is_err());
        for expression in [".name", "$.name"] {
            assert!(evaluate(expression, &Value::Null).is_err(), "{expression}");
        }
        assert_eq!(
            evaluate("$.x", &json!({})).unwrap_err(),
            "Expression $.x evaluates to null."
        );
    }
}
