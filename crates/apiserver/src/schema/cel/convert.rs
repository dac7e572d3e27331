//! JSON as CEL sees it, led by the schema: a `number` is always a double, times
//! are times, and field names CEL cannot spell are escaped.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, Program, Value as Cel};
use serde_json::{Number, Value};

use super::super::format;
use super::super::node::SchemaNode;

pub(super) fn to_cel(value: &Value, node: Option<&SchemaNode>) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => number_to_cel(number, node),
        Value::String(text) => text_to_cel(text, node),
        Value::Array(items) => {
            let node = node.and_then(|node| node.items.as_deref());
            Cel::List(Arc::new(
                items.iter().map(|item| to_cel(item, node)).collect(),
            ))
        }
        Value::Object(fields) => {
            let is_map = node.is_some_and(SchemaNode::takes_additional);
            let mut map = HashMap::with_capacity(fields.len());
            // A null field of an object counts as absent; a null in a map is there.
            for (name, value) in fields
                .iter()
                .filter(|(_, value)| is_map || !value.is_null())
            {
                let key = if is_map { name.clone() } else { escaped(name) };
                let node = node.and_then(|node| node.field(name));
                map.insert(Key::String(Arc::new(key)), to_cel(value, node));
            }
            Cel::Map(Map { map: Arc::new(map) })
        }
    }
}

fn number_to_cel(number: &Number, node: Option<&SchemaNode>) -> Cel {
    let float = number.as_f64().unwrap_or_default();
    match (node.map(|node| node.type_name.as_str()), number.as_i64()) {
        (Some("number"), _) => Cel::Float(float),
        (_, Some(number)) => Cel::Int(number),
        (Some("integer"), None) => Cel::Int(float as i64),
        (_, None) => Cel::Float(float),
    }
}

fn text_to_cel(text: &str, node: Option<&SchemaNode>) -> Cel {
    let text_of = |text: &str| Cel::String(Arc::new(text.to_owned()));
    let format = node
        .filter(|node| !node.int_or_string)
        .map_or("", format::supported);
    match format {
        "byte" => match STANDARD.decode(text) {
            Ok(bytes) => Cel::Bytes(Arc::new(bytes)),
            Err(_) => text_of(text),
        },
        "date" => parsed(&TIMESTAMP, &format!("{text}T00:00:00Z")).unwrap_or_else(|| text_of(text)),
        "date-time" | "datetime" => parsed(&TIMESTAMP, text).unwrap_or_else(|| text_of(text)),
        "duration" => parsed(&DURATION, text).unwrap_or_else(|| text_of(text)),
        _ => text_of(text),
    }
}

static TIMESTAMP: LazyLock<Program> =
    LazyLock::new(|| Program::compile("timestamp(text)").expect("a constant expression"));
static DURATION: LazyLock<Program> =
    LazyLock::new(|| Program::compile("duration(text)").expect("a constant expression"));

/// Lets CEL itself read a time, so that both mean the same by it.
fn parsed(program: &Program, text: &str) -> Option<Cel> {
    let mut context = Context::default();
    context.add_variable_from_value("text", text.to_owned());
    program.execute(&context).ok()
}

const KEYWORDS: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A field name as rules spell it.
pub(super) fn escaped(name: &str) -> String {
    if KEYWORDS.contains(&name) {
        return format!("__{name}__");
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}
