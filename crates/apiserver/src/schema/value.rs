//! Validates a value against a schema, as kube-apiserver's OpenAPI validator does.
//!
//! Errors come in the validator's own order. Text that looks odd ("in body",
//! fields named `<nil>`) is kube-apiserver's and compared by clients.
//! Rules in CEL, list types and embedded resources are checked elsewhere.

mod combinations;

use serde_json::{Map, Value};

use super::error::{FieldError, NO_FIELD};
use super::format;
use super::lists::OldItems;
use super::node::{AdditionalProperties, SchemaNode};
use super::number;

/// The result of validating one value.
#[derive(Debug, Default)]
pub(super) struct ValidationResult {
    errors: Vec<FoundError>,
    /// How many checks were made; of the branches of an `anyOf`, the one with most checks is reported.
    checks: usize,
}

#[derive(Debug)]
pub(super) struct FoundError {
    /// The validator's message: a second error with the same message is not reported.
    text: String,
    error: FieldError,
}

impl ValidationResult {
    pub(super) fn into_errors(self) -> Vec<FieldError> {
        self.errors.into_iter().map(|found| found.error).collect()
    }

    fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    fn add(&mut self, text: String, error: FieldError) {
        if self.errors.iter().all(|found| found.text != text) {
            self.errors.push(FoundError { text, error });
        }
    }

    /// Adds an error without a field.
    fn add_without_field(&mut self, text: String) {
        let error = FieldError::invalid_text(NO_FIELD, "", &text);
        self.add(text, error);
    }

    fn merge(&mut self, other: ValidationResult) {
        self.checks += other.checks;
        for found in other.errors {
            self.add(found.text, found.error);
        }
    }
}

/// A value to validate, its path and the value before the update.
#[derive(Clone, Copy)]
pub(super) struct CheckedValue<'a> {
    pub(super) value: &'a Value,
    pub(super) path: &'a str,
    /// The value that an update replaces: unchanged values are not reported as invalid.
    pub(super) old: Option<&'a Value>,
}

impl<'a> CheckedValue<'a> {
    fn field(&self) -> &'a str {
        match self.path.strip_prefix('.').unwrap_or(self.path) {
            "" => NO_FIELD,
            path => path,
        }
    }

    /// The value of a field of this object.
    fn field_named<'b>(&self, name: &str, value: &'b Value, path: &'b str) -> CheckedValue<'b>
    where
        'a: 'b,
    {
        let old = self.old.and_then(|old| old.get(name));
        CheckedValue { value, path, old }
    }

    fn sentence(&self, rest: std::fmt::Arguments<'_>) -> String {
        format!("{} in body {rest}", self.path)
    }

    fn invalid(&self, result: &mut ValidationResult, rest: std::fmt::Arguments<'_>) {
        let text = self.sentence(rest);
        let error = FieldError::invalid(self.field(), self.value, &text);
        result.add(text, error);
    }

    /// Found a `found` where a `expected` should be.
    fn mistyped(&self, expected: &str, found: &str) -> ValidationResult {
        let mut result = ValidationResult::default();
        let found_text = super::error::quoted(found);
        let text = self.sentence(format_args!("must be of type {expected}: {found_text}"));
        let error = FieldError::type_invalid(self.field(), &Value::from(found), &text);
        result.add(text, error);
        result
    }
}

/// Validates a value and everything in it against `node`.
pub(super) fn check(node: &SchemaNode, checked: CheckedValue<'_>) -> ValidationResult {
    let mut result = ValidationResult::default();
    if checked.value.is_null() {
        result.merge(check_type(node, checked));
        check_enum(node, checked, &mut result);
    } else {
        check_present(node, checked, &mut result);
    }
    let unchanged =
        checked.old == Some(checked.value) && !["apiVersion", "kind"].contains(&checked.path);
    if unchanged {
        result.errors.clear();
    }
    result
}

fn check_present(node: &SchemaNode, checked: CheckedValue<'_>, result: &mut ValidationResult) {
    if !types(node).is_empty() || !format::supported(node).is_empty() {
        result.merge(check_type(node, checked));
        result.checks += 1;
    }
    result.merge(combinations::check_all(node, checked));
    // One for the combinations, one for the enum, one for the value itself.
    result.checks += 3;
    match checked.value {
        Value::String(text) => {
            check_text(node, text, checked, result);
            result.checks += 1;
            check_format(node, text, checked, result);
        }
        Value::Number(given) => {
            let kind = types(node);
            for found in number::check(node, &kind, given, checked.path) {
                match found {
                    number::NumberError::Range(text) => result.add_without_field(text),
                    number::NumberError::Limit(text) => {
                        checked.invalid(result, format_args!("{text}"))
                    }
                    number::NumberError::Factor(text, factor) => {
                        let error = FieldError::invalid_printed(checked.field(), &factor, &text);
                        result.add(text, error);
                    }
                }
            }
            result.checks += 2;
        }
        Value::Array(items) => {
            check_items(node, items, checked, result);
            result.checks += 2;
        }
        _ => {}
    }
    check_enum(node, checked, result);
    if let Value::Object(fields) = checked.value {
        check_fields(node, fields, checked, result);
        result.checks += 1;
    }
}

/// The JSON types a node takes.
pub(super) fn types(node: &SchemaNode) -> Vec<&str> {
    match (node.int_or_string, node.type_name.as_str()) {
        (true, _) => vec!["integer", "string"],
        (false, "") => Vec::new(),
        (false, name) => vec![name],
    }
}

fn check_type(node: &SchemaNode, checked: CheckedValue<'_>) -> ValidationResult {
    let expected = types(node);
    let passed = ValidationResult {
        errors: Vec::new(),
        checks: 1,
    };
    let (found, found_format) = match checked.value {
        Value::Null if expected.is_empty() || node.nullable => return passed,
        Value::Null => return checked.mistyped(&expected.join(","), "null"),
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Number(number) if number.as_i64().is_some() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
    };
    let has = |name: &str| expected.contains(&name);
    let whole = checked.value.as_f64().is_some_and(number::is_whole);
    let fits = has(found)
        || (found == "number" && whole && has("integer"))
        || (found == "integer" && has("number"));
    let format = format::supported(node);
    let is_text_or_list = matches!(checked.value, Value::String(_) | Value::Array(_));
    if !is_text_or_list && !format.is_empty() && !fits && found_format != format {
        return checked.mistyped(format, found_format);
    }
    if is_text_or_list && !format.is_empty() && !has("number") && !has("integer") {
        return passed;
    }
    match fits {
        true => passed,
        false => checked.mistyped(&expected.join(","), found),
    }
}

fn check_enum(node: &SchemaNode, checked: CheckedValue<'_>, result: &mut ValidationResult) {
    if node.values.is_empty() || node.values.iter().any(|value| same(checked.value, value)) {
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
    let text = checked.sentence(format_args!("should be one of {supported:?}"));
    let error = FieldError::not_supported(checked.field(), checked.value, &supported);
    result.add(text, error);
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

fn check_text(
    node: &SchemaNode,
    text: &str,
    checked: CheckedValue<'_>,
    result: &mut ValidationResult,
) {
    let length = text.chars().count() as i64;
    if let Some(maximum) = node.sizes.max_length.filter(|maximum| length > *maximum) {
        let sentence = checked.sentence(format_args!("should be at most {maximum} chars long"));
        return result.add(sentence, FieldError::too_long(checked.field(), maximum));
    }
    if let Some(minimum) = node.sizes.min_length.filter(|minimum| length < *minimum) {
        return checked.invalid(
            result,
            format_args!("should be at least {minimum} chars long"),
        );
    }
    if let Some(pattern) = node
        .pattern
        .as_ref()
        .filter(|pattern| !pattern.matches(text))
    {
        checked.invalid(result, format_args!("should match '{}'", pattern.text));
    }
}

fn check_format(
    node: &SchemaNode,
    text: &str,
    checked: CheckedValue<'_>,
    result: &mut ValidationResult,
) {
    let Some(fits) = format::check(format::supported(node), text) else {
        return;
    };
    if !fits {
        result.merge(checked.mistyped(format::supported(node), text));
    }
    result.checks += 1;
}

fn check_items(
    node: &SchemaNode,
    items: &[Value],
    checked: CheckedValue<'_>,
    result: &mut ValidationResult,
) {
    if let Some(item_node) = &node.items {
        let old_items = OldItems::of(node, checked.old);
        for (index, value) in items.iter().enumerate() {
            let path = format!("{}[{index}]", checked.path);
            let old = old_items.find(node, value);
            result.merge(check(
                item_node,
                CheckedValue {
                    value,
                    path: &path,
                    old,
                },
            ));
        }
    }
    let count = items.len() as i64;
    if let Some(minimum) = node.sizes.min_items.filter(|minimum| count < *minimum) {
        let text = checked.sentence(format_args!("should have at least {minimum} items"));
        result.add(
            text.clone(),
            FieldError::invalid(checked.field(), &count.into(), &text),
        );
    }
    if let Some(maximum) = node.sizes.max_items.filter(|maximum| count > *maximum) {
        let text = checked.sentence(format_args!("should have at most {maximum} items"));
        result.add(
            text,
            FieldError::too_many(checked.field(), items.len(), maximum),
        );
    }
}

fn check_fields(
    node: &SchemaNode,
    fields: &Map<String, Value>,
    checked: CheckedValue<'_>,
    result: &mut ValidationResult,
) {
    check_field_count(node, fields.len(), checked, result);
    for (name, value) in fields {
        if !node.properties.contains_key(name) {
            check_additional(node, name, value, checked, result);
        }
    }
    for (name, node) in &node.properties {
        if let Some(value) = fields.get(name) {
            let path = super::error::child(checked.path, name);
            result.merge(check(node, checked.field_named(name, value, &path)));
        }
    }
    for name in &node.required {
        if !fields.contains_key(name) {
            let path = format!("{}.{name}", checked.path);
            let field = path.strip_prefix('.').unwrap_or(&path);
            let error = FieldError::required(field, "");
            result.add(format!("{path} in body is required"), error);
        }
    }
}

fn check_additional(
    node: &SchemaNode,
    name: &str,
    value: &Value,
    checked: CheckedValue<'_>,
    result: &mut ValidationResult,
) {
    let path = format!("{}.{name}", checked.path);
    match &node.additional {
        AdditionalProperties::Allowed(false) => {
            let text = format!("{path} in body is a forbidden property");
            let error = FieldError::invalid_text(checked.field(), name, &text);
            result.add(text, error);
        }
        AdditionalProperties::Schema(node) => {
            result.merge(check(node, checked.field_named(name, value, &path)));
        }
        _ => {}
    }
}

fn check_field_count(
    node: &SchemaNode,
    count: usize,
    checked: CheckedValue<'_>,
    result: &mut ValidationResult,
) {
    let number = count as i64;
    if let Some(minimum) = node
        .sizes
        .min_properties
        .filter(|minimum| number < *minimum)
    {
        let text = checked.sentence(format_args!("should have at least {minimum} properties"));
        result.add(
            text.clone(),
            FieldError::invalid(checked.field(), &number.into(), &text),
        );
    }
    if let Some(maximum) = node
        .sizes
        .max_properties
        .filter(|maximum| number > *maximum)
    {
        let text = checked.sentence(format_args!("should have at most {maximum} properties"));
        result.add(text, FieldError::too_many(checked.field(), count, maximum));
    }
}
