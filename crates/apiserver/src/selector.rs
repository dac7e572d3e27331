//! Label and field selectors.

use serde_json::Value;

use crate::{
    name,
    resource::Resource,
    status::{ApiError, Result},
    store::{StoreKey, StoredObject},
};

/// Selects the objects of a list, watch or deletecollection.
#[derive(Debug, Default, Clone)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<FieldRequirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Operator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldRequirement {
    path: Vec<String>,
    value: String,
    equal: bool,
}

impl Selector {
    /// Parses the two query parameters.
    pub(crate) fn parse(resource: &Resource, labels: &str, fields: &str) -> Result<Self> {
        Ok(Self {
            labels: parse_labels(labels).map_err(ApiError::bad_request)?,
            fields: parse_fields(resource, fields)?,
        })
    }

    /// Whether it selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether it selects a stored object, which is parsed only if its key is not enough.
    pub(crate) fn selects(
        &self,
        resource: &Resource,
        key: &StoreKey,
        stored: &StoredObject,
    ) -> bool {
        let by_key = self.by_key(key);
        by_key.unwrap_or_else(|| self.matches(&resource.read(stored)))
    }

    /// The result if name and namespace are enough.
    fn by_key(&self, key: &StoreKey) -> Option<bool> {
        let (namespace, name) = key.path.split_once('/').unwrap_or(("", &key.path));
        let mut is_enough = self.labels.is_empty();
        for requirement in &self.fields {
            let path: Vec<&str> = requirement.path.iter().map(String::as_str).collect();
            let found = match path[..] {
                ["metadata", "name"] => name,
                ["metadata", "namespace"] => namespace,
                _ => {
                    is_enough = false;
                    continue;
                }
            };
            if (found == requirement.value) != requirement.equal {
                return Some(false);
            }
        }
        is_enough.then_some(true)
    }

    fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels
            .iter()
            .all(|requirement| requirement.holds(labels))
            && self
                .fields
                .iter()
                .all(|requirement| requirement.holds(object))
    }
}

impl Requirement {
    fn holds(&self, labels: &Value) -> bool {
        let value = labels.get(&self.key).and_then(Value::as_str);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Operator::Exists => value.is_some(),
            Operator::Absent => value.is_none(),
            Operator::In(values) => {
                value.is_some_and(|value| values.iter().any(|one| one == value))
            }
            Operator::NotIn(values) => {
                value.is_none_or(|value| values.iter().all(|one| one != value))
            }
            Operator::Above(bound) => number().is_some_and(|number| number > *bound),
            Operator::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

impl FieldRequirement {
    fn holds(&self, object: &Value) -> bool {
        let found = self
            .path
            .iter()
            .try_fold(object, |value, step| value.get(step));
        let text = match found {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        (text == self.value) == self.equal
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(&'static str),
}

/// The operators, longest first.
const SIGNS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return tokens;
        }
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
            continue;
        }
        let end = rest
            .find(|c: char| c.is_whitespace() || "=!(),><".contains(c))
            .unwrap_or(rest.len());
        tokens.push(Token::Word(rest[..end].to_owned()));
        rest = &rest[end..];
    }
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>, String> {
    let tokens = tokens(text);
    let mut rest = tokens.as_slice();
    let mut requirements = Vec::new();
    while !rest.is_empty() {
        if !matches!(rest[0], Token::Word(_) | Token::Sign("!")) {
            let found = show(&rest[0]);
            return Err(format!(
                "found {found}, expected: !, identifier, or 'end of string'"
            ));
        }
        let (requirement, after) = parse_requirement(rest)
            .map_err(|error| format!("unable to parse requirement: {error}"))?;
        requirements.push(requirement);
        rest = match after {
            [] => after,
            [Token::Sign(","), after @ ..] if !after.is_empty() => after,
            [Token::Sign(","), ..] => return Err("found '', expected: identifier after ','".into()),
            [other, ..] => {
                return Err(format!(
                    "found {}, expected: ',' or 'end of string'",
                    show(other)
                ));
            }
        };
    }
    Ok(requirements)
}

fn parse_requirement(tokens: &[Token]) -> Result<(Requirement, &[Token]), String> {
    let (test, key, rest) = match tokens {
        [Token::Sign("!"), Token::Word(key), rest @ ..] => (Operator::Absent, key, rest),
        [Token::Word(key), rest @ ..] => {
            let (test, rest) = parse_test(rest)?;
            (test, key, rest)
        }
        _ => return Err("found '', expected: identifier".into()),
    };
    if let Some(error) = name::qualified(key).first() {
        return Err(format!("<nil>: Invalid value: {key:?}: {error}"));
    }
    if let Operator::In(values) | Operator::NotIn(values) = &test {
        for value in values {
            if let Some(error) = name::label_value(value).first() {
                return Err(format!(
                    "values[0][{key}]: Invalid value: {value:?}: {error}"
                ));
            }
        }
    }
    let key = key.clone();
    Ok((Requirement { key, test }, rest))
}

fn parse_test(tokens: &[Token]) -> Result<(Operator, &[Token]), String> {
    match tokens {
        [] | [Token::Sign(","), ..] => Ok((Operator::Exists, tokens)),
        [Token::Sign("=" | "=="), rest @ ..] => {
            let (value, rest) = parse_value(rest)?;
            Ok((Operator::In(vec![value]), rest))
        }
        [Token::Sign("!="), rest @ ..] => {
            let (value, rest) = parse_value(rest)?;
            Ok((Operator::NotIn(vec![value]), rest))
        }
        [
            Token::Sign(sign @ (">" | "<")),
            Token::Word(bound),
            rest @ ..,
        ] => {
            let bound = bound.parse().map_err(|_| {
                format!("values[0]: Invalid value: {bound:?}: for 'Gt', 'Lt' operators, the value must be an integer")
            })?;
            let test: fn(i64) -> Operator = if *sign == ">" {
                Operator::Above
            } else {
                Operator::Below
            };
            Ok((test(bound), rest))
        }
        [Token::Word(word), rest @ ..] if word == "in" || word == "notin" => {
            let (values, rest) = parse_set(rest)?;
            let test: fn(_) -> Operator = if word == "in" {
                Operator::In
            } else {
                Operator::NotIn
            };
            Ok((test(values), rest))
        }
        [other, ..] => Err(format!(
            "found {}, expected: in, notin, =, ==, !=, gt, lt",
            show(other)
        )),
    }
}

fn parse_value(tokens: &[Token]) -> Result<(String, &[Token]), String> {
    match tokens {
        [Token::Word(value), rest @ ..] => Ok((value.clone(), rest)),
        [] | [Token::Sign(","), ..] => Ok((String::new(), tokens)),
        [other, ..] => Err(format!("found {}, expected: identifier", show(other))),
    }
}

fn parse_set(tokens: &[Token]) -> Result<(Vec<String>, &[Token]), String> {
    let [Token::Sign("("), rest @ ..] = tokens else {
        let found = tokens.first().map_or("''".to_owned(), show);
        return Err(format!("found {found} expected: '('"));
    };
    let Some(end) = rest.iter().position(|token| *token == Token::Sign(")")) else {
        return Err("found '', expected: ',' or ')'".into());
    };
    let mut values = Vec::new();
    for part in rest[..end].split(|token| *token == Token::Sign(",")) {
        match part {
            [] => values.push(String::new()),
            [Token::Word(value)] => values.push(value.clone()),
            [_, other, ..] | [other] => {
                return Err(format!("found {}, expected: ',' or ')'", show(other)));
            }
        }
    }
    Ok((values, &rest[end + 1..]))
}

fn show(token: &Token) -> String {
    match token {
        Token::Word(word) => format!("'{word}'"),
        Token::Sign(sign) => format!("'{sign}'"),
    }
}

fn parse_fields(resource: &Resource, text: &str) -> Result<Vec<FieldRequirement>> {
    let mut requirements = Vec::new();
    for term in split_terms(text) {
        let (field, value, equal) = split_term(&term).ok_or_else(|| {
            ApiError::bad_request(format!(
                "invalid selector: '{text}'; can't understand '{term}'"
            ))
        })?;
        if field.is_empty() && value.is_empty() {
            continue;
        }
        if !is_selectable(resource, field) {
            return Err(ApiError::bad_request(unknown_field(resource, field)));
        }
        requirements.push(FieldRequirement {
            path: path_of(resource, field),
            value: unescape(value)?,
            equal,
        });
    }
    Ok(requirements)
}

fn path_of(resource: &Resource, field: &str) -> Vec<String> {
    let path = match field {
        "source" if resource.kind == "Event" => "source.component",
        path => path,
    };
    path.split('.').map(str::to_owned).collect()
}

fn unknown_field(resource: &Resource, field: &str) -> String {
    if resource.schema.is_some() || !resource.selectable.is_empty() {
        return format!("field label not supported: {field}");
    }
    format!(
        "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    )
}

/// Terms are separated by commas, which a backslash escapes.
fn split_terms(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut is_escaped = false;
    for letter in text.chars() {
        if letter == ',' && !is_escaped {
            terms.push(String::new());
        } else if let Some(term) = terms.last_mut() {
            term.push(letter);
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    terms.retain(|term| !term.is_empty());
    terms
}

fn split_term(term: &str) -> Option<(&str, &str, bool)> {
    let (field, value, equal) = if let Some((field, value)) = term.split_once("!=") {
        (field, value, false)
    } else if let Some((field, value)) = term.split_once("==") {
        (field, value, true)
    } else {
        let (field, value) = term.split_once('=')?;
        (field, value, true)
    };
    Some((field.trim(), value, equal))
}

fn unescape(value: &str) -> Result<String> {
    let mut text = String::new();
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        let kept = match letter {
            '\\' => letters
                .next()
                .filter(|next| ",=\\".contains(*next))
                .ok_or_else(|| {
                    ApiError::bad_request("invalid field selector: invalid escape sequence: \\")
                })?,
            plain => plain,
        };
        text.push(kept);
    }
    Ok(text)
}

fn is_selectable(resource: &Resource, field: &str) -> bool {
    field == "metadata.name"
        || (field == "metadata.namespace" && resource.namespaced)
        || resource.selectable.iter().any(|known| known == field)
}

#[cfg(test)]
mod tests;
