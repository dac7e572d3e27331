//! Validation errors of fields, with the messages of kube-apiserver.
//!
//! Clients and people compare these texts, so values are printed the way the
//! real server prints them. Never decides whether something is wrong.

use serde_json::Value;

/// The path kube-apiserver prints when an error belongs to no field.
pub(crate) const NO_FIELD: &str = "<nil>";

/// The reason of an error that makes the whole body undecodable:
/// kube-apiserver answers these with 400 and not with 422.
pub(crate) const MALFORMED: &str = "Malformed";

/// A placeholder in messages for the path of the schema, which only the definition knows.
pub(super) const INSIDE: &str = "\u{1}";

/// A validation error of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// The cause's reason, such as `FieldValueRequired`.
    pub(crate) reason: &'static str,
    /// The path of the field, such as `spec.items[0].name`.
    pub(crate) field: String,
    /// The cause's message, without the field.
    pub(crate) message: String,
}

impl FieldError {
    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        Self::worded("FieldValueRequired", field, "Required value", detail)
    }

    pub(crate) fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::worded("FieldValueForbidden", field, "Forbidden", detail)
    }

    pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let start = format!("Invalid value: {}", printed(value));
        Self::worded("FieldValueInvalid", field, &start, detail)
    }

    /// Like [`FieldError::invalid`] for values that are too large to repeat.
    pub(crate) fn invalid_unprinted(field: impl Into<String>, detail: &str) -> Self {
        Self::worded("FieldValueInvalid", field, "Invalid value", detail)
    }

    pub(crate) fn invalid_text(field: impl Into<String>, value: &str, detail: &str) -> Self {
        let start = format!("Invalid value: {}", quoted(value));
        Self::worded("FieldValueInvalid", field, &start, detail)
    }

    /// Like [`FieldError::invalid`] for a value that is printed already.
    pub(crate) fn invalid_printed(field: impl Into<String>, printed: &str, detail: &str) -> Self {
        let start = format!("Invalid value: {printed}");
        Self::worded("FieldValueInvalid", field, &start, detail)
    }

    pub(crate) fn type_invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let start = format!("Invalid value: {}", printed(value));
        Self::worded("FieldValueTypeInvalid", field, &start, detail)
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: Option<&Value>) -> Self {
        let message = match value {
            Some(value) => format!("Duplicate value: {}", printed(value)),
            None => "Duplicate value".to_owned(),
        };
        Self {
            reason: "FieldValueDuplicate",
            field: field.into(),
            message,
        }
    }

    pub(crate) fn not_supported<S: AsRef<str>>(
        field: impl Into<String>,
        value: &Value,
        supported: &[S],
    ) -> Self {
        let supported: Vec<String> = supported.iter().map(|text| quoted(text.as_ref())).collect();
        let detail = match supported.is_empty() {
            true => String::new(),
            false => format!("supported values: {}", supported.join(", ")),
        };
        let start = format!("Unsupported value: {}", printed(value));
        Self::worded("FieldValueNotSupported", field, &start, &detail)
    }

    pub(crate) fn too_long(field: impl Into<String>, maximum: i64) -> Self {
        // kube-apiserver says bytes although it counts characters.
        let unit = if maximum == 1 { "byte" } else { "bytes" };
        let detail = match maximum {
            0.. => format!("may not be more than {maximum} {unit}"),
            _ => "value is too long".to_owned(),
        };
        Self::worded("FieldValueTooLong", field, "Too long", &detail)
    }

    pub(crate) fn too_many(field: impl Into<String>, actual: usize, maximum: i64) -> Self {
        let unit = if maximum == 1 { "item" } else { "items" };
        let detail = match maximum {
            0.. => format!("must have at most {maximum} {unit}"),
            _ => "has too many items".to_owned(),
        };
        Self::worded(
            "FieldValueTooMany",
            field,
            &format!("Too many: {actual}"),
            &detail,
        )
    }

    /// A field of the wrong JSON type: the body cannot be read as what it claims to be.
    ///
    /// `owner` is the Go type the field belongs to.
    pub(crate) fn malformed(owner: &str, field: &str, found: &Value, expected: &str) -> Self {
        let found = match found {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            Value::Number(number) if number.is_f64() => format!("number {number}"),
            Value::Number(_) => "number".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
        };
        let path = without_keys(field);
        let message = format!(
            "json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {expected}"
        );
        Self {
            reason: MALFORMED,
            field: String::new(),
            message,
        }
    }

    /// A body that cannot be decoded, with the decoder's message.
    pub(crate) fn undecodable(message: &str) -> Self {
        Self {
            reason: MALFORMED,
            field: String::new(),
            message: message.to_owned(),
        }
    }

    /// The same error when it makes the whole body undecodable.
    pub(crate) fn into_malformed(self) -> Self {
        Self {
            reason: MALFORMED,
            ..self
        }
    }

    /// The error in one sentence, as it stands in the message of a `Status`.
    pub(crate) fn sentence(&self) -> String {
        match self.field.is_empty() {
            true => self.message.clone(),
            false => format!("{}: {}", self.field, self.message),
        }
    }

    /// The same error of a field that lies below `parent`.
    pub(crate) fn below(mut self, parent: &str) -> Self {
        let message = self
            .message
            .replace(&format!("{INSIDE} "), &format!("{parent} "));
        self.message = message.replace(INSIDE, &format!("{parent}."));
        if self.reason == MALFORMED {
            return self;
        }
        if self.field == NO_FIELD || self.field.is_empty() {
            self.field = parent.to_owned();
        } else if self.field.starts_with('[') {
            self.field = format!("{parent}{}", self.field);
        } else {
            self.field = format!("{parent}.{}", self.field);
        }
        self
    }

    fn worded(reason: &'static str, field: impl Into<String>, start: &str, detail: &str) -> Self {
        let message = match detail.is_empty() {
            true => start.to_owned(),
            false => format!("{start}: {detail}"),
        };
        Self {
            reason,
            field: field.into(),
            message,
        }
    }
}

/// `path.name`, or `name` at the root.
pub(crate) fn child(path: &str, name: &str) -> String {
    match path.is_empty() {
        true => name.to_owned(),
        false => format!("{path}.{name}"),
    }
}

/// A path without the indices and keys in it.
fn without_keys(path: &str) -> String {
    let mut depth = 0_usize;
    let keep = |character: &char| {
        match character {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    };
    path.chars().filter(keep).collect()
}

/// An object with its fields in the given order, as Go prints structs.
pub(crate) fn ordered(fields: &[(&str, Value)]) -> String {
    let field = |(name, value): &(&str, Value)| format!("{}:{}", json_text(name), json(value));
    let fields: Vec<String> = fields.iter().map(field).collect();
    format!("{{{}}}", fields.join(","))
}

/// A value as kube-apiserver prints it inside a message.
pub(crate) fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.to_string(),
            None => float(number.as_f64().unwrap_or_default()),
        },
        other => json(other),
    }
}

/// Text in double quotes with Go's escapes.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' | '\u{7f}' => out.push_str(&format!("\\x{:02x}", character as u32)),
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

/// A float as Go's `%v` prints it: an exponent only for the very small and the very large.
pub(crate) fn float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..21).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        _ => number.to_string(),
    }
}

/// JSON as Go writes it: `1.0` is `1`, and `<`, `>`, `&` are escaped.
fn json(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) => value.to_string(),
        Value::Number(_) => printed(value),
        Value::String(text) => json_text(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(json).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(fields) => {
            let field =
                |(key, value): (&String, &Value)| format!("{}:{}", json_text(key), json(value));
            let fields: Vec<String> = fields.iter().map(field).collect();
            format!("{{{}}}", fields.join(","))
        }
    }
}

fn json_text(text: &str) -> String {
    Value::String(text.to_owned())
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}
