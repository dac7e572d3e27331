//! Checking a value against a schema, the way the real server's OpenAPI validator does.
//!
//! Errors come in the validator's own order. Text that looks odd ("in body",
//! fields named `<nil>`) is the real server's and compared by clients.
//! Rules in CEL, list types and embedded resources are checked elsewhere.

mod combinations;

use serde_json::{Map, Value};

use super::error::{FieldError, NO_FIELD};
use super::format;
use super::lists::Counterparts;
use super::node::{Additional, Node};
use super::number;

/// What the checks of one value found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    problems: Vec<Problem>,
    /// How many checks were made; the branch of an `anyOf` that got furthest is the one told.
    checks: usize,
}

#[derive(Debug)]
pub(super) struct Problem {
    /// The validator's own sentence: a second problem with the same one is not told again.
    text: String,
    error: FieldError,
}

impl Findings {
    pub(super) fn into_errors(self) -> Vec<FieldError> {
        self.problems
            .into_iter()
            .map(|problem| problem.error)
            .collect()
    }

    fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }

    fn add(&mut self, text: String, error: FieldError) {
        if self.problems.iter().all(|problem| problem.text != text) {
            self.problems.push(Problem { text, error });
        }
    }

    /// Adds a problem whose field the validator does not tell.
    fn add_unplaced(&mut self, text: String) {
        let error = FieldError::invalid_text(NO_FIELD, "", &text);
        self.add(text, error);
    }

    fn merge(&mut self, other: Findings) {
        self.checks += other.checks;
        for problem in other.problems {
            self.add(problem.text, problem.error);
        }
    }
}

/// A value, where it stands and what stood there before.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) value: &'a Value,
    pub(super) path: &'a str,
    /// The value an update replaces: what it does not change is not told as wrong.
    pub(super) old: Option<&'a Value>,
}

impl<'a> Place<'a> {
    fn field(&self) -> &'a str {
        match self.path.strip_prefix('.').unwrap_or(self.path) {
            "" => NO_FIELD,
            path => path,
        }
    }

    /// The place of a field of this object.
    fn field_named<'b>(&self, name: &str, value: &'b Value, path: &'b str) -> Place<'b>
    where
        'a: 'b,
    {
        let old = self.old.and_then(|old| old.get(name));
        Place { value, path, old }
    }

    fn sentence(&self, rest: std::fmt::Arguments<'_>) -> String {
        format!("{} in body {rest}", self.path)
    }

    fn invalid(&self, findings: &mut Findings, rest: std::fmt::Arguments<'_>) {
        let text = self.sentence(rest);
        let error = FieldError::invalid(self.field(), self.value, &text);
        findings.add(text, error);
    }

    /// Found a `found` where a `expected` should be.
    fn mistyped(&self, expected: &str, found: &str) -> Findings {
        let mut findings = Findings::default();
        let found_text = super::error::quoted(found);
        let text = self.sentence(format_args!("must be of type {expected}: {found_text}"));
        let error = FieldError::type_invalid(self.field(), &Value::from(found), &text);
        findings.add(text, error);
        findings
    }
}

/// Checks `place` and everything in it against `node`.
pub(super) fn check(node: &Node, place: Place<'_>) -> Findings {
    let mut findings = Findings::default();
    if place.value.is_null() {
        findings.merge(check_type(node, place));
        check_enum(node, place, &mut findings);
    } else {
        check_present(node, place, &mut findings);
    }
    let unchanged = place.old == Some(place.value) && !["apiVersion", "kind"].contains(&place.path);
    if unchanged {
        findings.problems.clear();
    }
    findings
}

fn check_present(node: &Node, place: Place<'_>, findings: &mut Findings) {
    if !types(node).is_empty() || !format::supported(node).is_empty() {
        findings.merge(check_type(node, place));
        findings.checks += 1;
    }
    findings.merge(combinations::check_all(node, place));
    // One for the combinations, one for the enum, one for the value itself.
    findings.checks += 3;
    match place.value {
        Value::String(text) => {
            check_text(node, text, place, findings);
            findings.checks += 1;
            check_format(node, text, place, findings);
        }
        Value::Number(given) => {
            let kind = types(node);
            for problem in number::check(node, &kind, given, place.path) {
                match problem {
                    number::Problem::Range(text) => findings.add_unplaced(text),
                    number::Problem::Limit(text) => place.invalid(findings, format_args!("{text}")),
                    number::Problem::Factor(text, factor) => {
                        let error = FieldError::invalid_printed(place.field(), &factor, &text);
                        findings.add(text, error);
                    }
                }
            }
            findings.checks += 2;
        }
        Value::Array(items) => {
            check_items(node, items, place, findings);
            findings.checks += 2;
        }
        _ => {}
    }
    check_enum(node, place, findings);
    if let Value::Object(fields) = place.value {
        check_fields(node, fields, place, findings);
        findings.checks += 1;
    }
}

/// The JSON types a node takes.
pub(super) fn types(node: &Node) -> Vec<&str> {
    match (node.int_or_string, node.type_name.as_str()) {
        (true, _) => vec!["integer", "string"],
        (false, "") => Vec::new(),
        (false, name) => vec![name],
    }
}

fn check_type(node: &Node, place: Place<'_>) -> Findings {
    let expected = types(node);
    let passed = Findings {
        problems: Vec::new(),
        checks: 1,
    };
    let (found, found_format) = match place.value {
        Value::Null if expected.is_empty() || node.nullable => return passed,
        Value::Null => return place.mistyped(&expected.join(","), "null"),
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Number(number) if number.as_i64().is_some() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
    };
    let has = |name: &str| expected.contains(&name);
    let whole = place.value.as_f64().is_some_and(number::is_whole);
    let fits = has(found)
        || (found == "number" && whole && has("integer"))
        || (found == "integer" && has("number"));
    let format = format::supported(node);
    let is_text_or_list = matches!(place.value, Value::String(_) | Value::Array(_));
    if !is_text_or_list && !format.is_empty() && !fits && found_format != format {
        return place.mistyped(format, found_format);
    }
    if is_text_or_list && !format.is_empty() && !has("number") && !has("integer") {
        return passed;
    }
    match fits {
        true => passed,
        false => place.mistyped(&expected.join(","), found),
    }
}

fn check_enum(node: &Node, place: Place<'_>, findings: &mut Findings) {
    if node.values.is_empty() || node.values.iter().any(|value| same(place.value, value)) {
        return;
    }
    let supported: Vec<String> = node
        .values
        .iter()
        .map(|value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        })
        .collect();
    let text = place.sentence(format_args!("should be one of {supported:?}"));
    let error = FieldError::not_supported(place.field(), place.value, &supported);
    findings.add(text, error);
}

/// Null is never one of the allowed values, not even where it is listed.
fn same(given: &Value, allowed: &Value) -> bool {
    match (given, allowed) {
        (Value::Null, _) => false,
        // A float is cut to an integer where integers are listed.
        (Value::Number(given), Value::Number(allowed)) => match allowed.as_i64() {
            Some(allowed) => given.as_f64().map(f64::trunc) == Some(allowed as f64),
            None => given.as_f64() == allowed.as_f64(),
        },
        _ => given == allowed,
    }
}

fn check_text(node: &Node, text: &str, place: Place<'_>, findings: &mut Findings) {
    let length = text.chars().count() as i64;
    if let Some(maximum) = node.sizes.max_length.filter(|maximum| length > *maximum) {
        let sentence = place.sentence(format_args!("should be at most {maximum} chars long"));
        return findings.add(sentence, FieldError::too_long(place.field(), maximum));
    }
    if let Some(minimum) = node.sizes.min_length.filter(|minimum| length < *minimum) {
        return place.invalid(
            findings,
            format_args!("should be at least {minimum} chars long"),
        );
    }
    if let Some(pattern) = node
        .pattern
        .as_ref()
        .filter(|pattern| !pattern.matches(text))
    {
        place.invalid(findings, format_args!("should match '{}'", pattern.text));
    }
}

fn check_format(node: &Node, text: &str, place: Place<'_>, findings: &mut Findings) {
    let Some(fits) = format::check(format::supported(node), text) else {
        return;
    };
    if !fits {
        findings.merge(place.mistyped(format::supported(node), text));
    }
    findings.checks += 1;
}

fn check_items(node: &Node, items: &[Value], place: Place<'_>, findings: &mut Findings) {
    if let Some(item_node) = &node.items {
        let counterparts = Counterparts::of(node, place.old);
        for (index, value) in items.iter().enumerate() {
            let path = format!("{}[{index}]", place.path);
            let old = counterparts.find(node, value);
            findings.merge(check(
                item_node,
                Place {
                    value,
                    path: &path,
                    old,
                },
            ));
        }
    }
    let count = items.len() as i64;
    if let Some(minimum) = node.sizes.min_items.filter(|minimum| count < *minimum) {
        let text = place.sentence(format_args!("should have at least {minimum} items"));
        findings.add(
            text.clone(),
            FieldError::invalid(place.field(), &count.into(), &text),
        );
    }
    if let Some(maximum) = node.sizes.max_items.filter(|maximum| count > *maximum) {
        let text = place.sentence(format_args!("should have at most {maximum} items"));
        findings.add(
            text,
            FieldError::too_many(place.field(), items.len(), maximum),
        );
    }
}

fn check_fields(
    node: &Node,
    fields: &Map<String, Value>,
    place: Place<'_>,
    findings: &mut Findings,
) {
    check_field_count(node, fields.len(), place, findings);
    for (name, value) in fields {
        if !node.properties.contains_key(name) {
            check_additional(node, name, value, place, findings);
        }
    }
    for (name, node) in &node.properties {
        if let Some(value) = fields.get(name) {
            let path = super::error::child(place.path, name);
            findings.merge(check(node, place.field_named(name, value, &path)));
        }
    }
    for name in &node.required {
        if !fields.contains_key(name) {
            let path = format!("{}.{name}", place.path);
            let field = path.strip_prefix('.').unwrap_or(&path);
            let error = FieldError::required(field, "");
            findings.add(format!("{path} in body is required"), error);
        }
    }
}

fn check_additional(
    node: &Node,
    name: &str,
    value: &Value,
    place: Place<'_>,
    findings: &mut Findings,
) {
    let path = format!("{}.{name}", place.path);
    match &node.additional {
        Additional::Allowed(false) => {
            let text = format!("{path} in body is a forbidden property");
            let error = FieldError::invalid_text(place.field(), name, &text);
            findings.add(text, error);
        }
        Additional::Schema(node) => {
            findings.merge(check(node, place.field_named(name, value, &path)));
        }
        _ => {}
    }
}

fn check_field_count(node: &Node, count: usize, place: Place<'_>, findings: &mut Findings) {
    let number = count as i64;
    if let Some(minimum) = node
        .sizes
        .min_properties
        .filter(|minimum| number < *minimum)
    {
        let text = place.sentence(format_args!("should have at least {minimum} properties"));
        findings.add(
            text.clone(),
            FieldError::invalid(place.field(), &number.into(), &text),
        );
    }
    if let Some(maximum) = node
        .sizes
        .max_properties
        .filter(|maximum| number > *maximum)
    {
        let text = place.sentence(format_args!("should have at most {maximum} properties"));
        findings.add(text, FieldError::too_many(place.field(), count, maximum));
    }
}
