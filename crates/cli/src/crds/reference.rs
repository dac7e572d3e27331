//! The API reference: a Markdown table of all fields of each kind.

use std::io::Write;

use api::crds::is_optional;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use crate::args::reference::cell;

const OPENING: &str = "\
# API reference

All fields of all kinds, generated from the definitions that `sluice crds` prints. `[]` is a list, `{}` a
map by name. Sluice writes the fields under `status`. Fields that are not required may be left out: then a boolean
is `false`, a list or map is empty, and of others the text names the default.
";

pub(super) fn write(crds: &[CustomResourceDefinition], out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "{OPENING}")?;
    let (early, own): (Vec<_>, Vec<_>) = crds.iter().partition(|crd| is_optional(crd));
    for crd in &own {
        let names = &crd.spec.names;
        writeln!(out, "- [{0}](#{1})", names.kind, names.kind.to_lowercase())?;
    }
    for crd in &own {
        for version in &crd.spec.versions {
            let schema = version.schema.as_ref();
            let Some(root) = schema.and_then(|it| it.open_api_v3_schema.as_ref()) else {
                continue;
            };
            let (kind, group) = (&crd.spec.names.kind, &crd.spec.group);
            writeln!(out, "\n## {kind}\n\n`{group}/{}`\n", version.name)?;
            writeln!(out, "{}\n", root.description.as_deref().unwrap_or_default())?;
            writeln!(out, "| field | type | |\n| --- | --- | --- |")?;
            for part in ["spec", "status"] {
                let fields = root.properties.as_ref();
                if let Some(schema) = fields.and_then(|fields| fields.get(part)) {
                    write_field(part, schema, false, out)?;
                }
            }
        }
    }
    for crd in early {
        let (kind, group) = (&crd.spec.names.kind, &crd.spec.group);
        let text = "has the same fields; Sluice keeps a Pipeline of the same name in sync with it";
        writeln!(
            out,
            "\n## {kind} of {group}\n\nThe {kind} of `{group}` {text}."
        )?;
    }
    Ok(())
}

/// Writes a field and its subfields.
fn write_field(
    path: &str,
    schema: &JSONSchemaProps,
    is_required: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut text = cell(schema.description.as_deref().unwrap_or_default());
    if is_required {
        text = format!("{text} Required.");
    }
    let rules = schema.x_kubernetes_validations.iter().flatten();
    let mut messages: Vec<&str> = rules
        .map(|rule| rule.message.as_deref().unwrap_or(&rule.rule))
        .collect();
    messages.dedup();
    for message in messages {
        text = format!("{text} Rule: {}.", cell(message));
    }
    writeln!(out, "| `{path}` | {} | {} |", kind(schema), text.trim())?;
    let (inner, path) = element(schema, path);
    let required = inner.required.clone().unwrap_or_default();
    for (name, field) in inner.properties.iter().flatten() {
        let below = format!("{path}.{name}");
        write_field(&below, field, required.contains(name), out)?;
    }
    Ok(())
}

/// The element type of a list or a map, and its path.
fn element<'a>(schema: &'a JSONSchemaProps, path: &str) -> (&'a JSONSchemaProps, String) {
    match (&schema.items, &schema.additional_properties) {
        (Some(JSONSchemaPropsOrArray::Schema(items)), _) => element(items, &format!("{path}[]")),
        (_, Some(JSONSchemaPropsOrBool::Schema(values))) => element(values, &format!("{path}{{}}")),
        _ => (schema, path.to_owned()),
    }
}

fn kind(schema: &JSONSchemaProps) -> String {
    if schema.x_kubernetes_int_or_string == Some(true) {
        return "number or text".to_owned();
    }
    if let Some(words) = &schema.enum_ {
        let words = words.iter().map(|word| match word.0.as_str() {
            Some(word) => format!("`{word}`"),
            None => format!("`{}`", word.0),
        });
        return words.collect::<Vec<_>>().join(", ");
    }
    let of = |inner: &JSONSchemaProps| kind(inner);
    match (
        schema.type_.as_deref(),
        &schema.items,
        &schema.additional_properties,
    ) {
        (Some("array"), Some(JSONSchemaPropsOrArray::Schema(items)), _) => {
            format!("list of {}", of(items))
        }
        (_, _, Some(JSONSchemaPropsOrBool::Schema(values))) => format!("map of {}", of(values)),
        (Some("string"), ..) => match schema.format.as_deref() {
            Some("date-time") => "time".to_owned(),
            _ => "string".to_owned(),
        },
        (Some("boolean"), ..) => "boolean".to_owned(),
        (Some(number @ ("integer" | "number")), ..) => number.to_owned(),
        _ => "object".to_owned(),
    }
}
