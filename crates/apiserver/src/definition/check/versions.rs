//! Validates the versions of a definition: names, schemas, subresources, columns, selectable fields.

use std::sync::Arc;

use serde_json::Value;

use crate::definition::names;
use crate::schema::{FieldError, MALFORMED, Schema, ordered};

const LARGEST_WARNING: usize = 256;
const MOST_SELECTABLE_FIELDS: usize = 8;

/// Validates all versions; returns their schemas if all are valid.
pub(super) fn check(spec: &Value, errors: &mut Vec<FieldError>) -> Vec<Arc<Schema>> {
    let versions = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
    for (index, version) in versions.iter().enumerate() {
        if version["schema"]["openAPIV3Schema"].is_null() {
            let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
            errors.push(FieldError::required(field, ""));
        }
    }
    let shared = |part: &str| {
        versions
            .iter()
            .all(|version| version[part] == versions[0][part])
    };
    let mut later = Vec::new();
    let mut schemas: Vec<Option<Arc<Schema>>> = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let own = format!("spec.versions[{index}]");
        let checked = VersionCheck {
            version,
            index,
            own: &own,
            shared: &shared,
        };
        checked.name_and_warning(errors);
        let schema = match schemas.first().filter(|_| shared("schema")) {
            Some(first) => first.clone(),
            None => checked.schema(errors, &mut later),
        };
        checked.subresources(errors, &mut later);
        checked.columns(errors, &mut later);
        if let Some(schema) = &schema {
            checked.selectable_fields(schema, errors, &mut later);
        }
        schemas.push(schema);
    }
    check_set(versions, errors);
    check_first_name(versions, errors);
    errors.append(&mut later);
    schemas.into_iter().flatten().collect()
}

/// The first version is also validated as the single version of older definitions.
fn check_first_name(versions: &[Value], errors: &mut Vec<FieldError>) {
    let first = versions
        .first()
        .and_then(|version| version["name"].as_str());
    let Some(first) = first.filter(|first| !first.is_empty()) else {
        return;
    };
    let problems = names::label_problems(first);
    if !problems.is_empty() {
        errors.push(FieldError::invalid_text(
            "spec.version",
            first,
            &problems.join(","),
        ));
    }
}

/// Exactly one version is the storage version, and names are unique.
fn check_set(versions: &[Value], errors: &mut Vec<FieldError>) {
    let names: Vec<&Value> = versions.iter().map(|version| &version["name"]).collect();
    let repeated = (1..names.len()).any(|index| names[..index].contains(&names[index]));
    if repeated {
        let detail = "must contain unique version names";
        errors.push(FieldError::invalid_printed(
            "spec.versions",
            &printed(versions),
            detail,
        ));
    }
    if versions
        .iter()
        .filter(|version| version["storage"] == true)
        .count()
        != 1
    {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid_printed(
            "spec.versions",
            &printed(versions),
            detail,
        ));
    }
}

/// Versions as kube-apiserver prints them in messages, without what they share.
fn printed(versions: &[Value]) -> String {
    let printed = |version: &Value| {
        ordered(&[
            ("Name", version["name"].clone()),
            ("Served", (version["served"] == true).into()),
            ("Storage", (version["storage"] == true).into()),
            ("Deprecated", (version["deprecated"] == true).into()),
            ("DeprecationWarning", version["deprecationWarning"].clone()),
            ("Schema", Value::Null),
            ("Subresources", Value::Null),
            ("AdditionalPrinterColumns", Value::Null),
            ("SelectableFields", Value::Null),
        ])
    };
    let versions: Vec<String> = versions.iter().map(printed).collect();
    format!("[{}]", versions.join(","))
}

struct VersionCheck<'a> {
    version: &'a Value,
    index: usize,
    own: &'a str,
    /// Whether all versions share this part, which is then validated once as part of the spec.
    shared: &'a dyn Fn(&str) -> bool,
}

impl VersionCheck<'_> {
    /// The path of a part; `None` if it was validated with an earlier version.
    fn path(&self, part: &str, path_when_shared: &str) -> Option<(String, bool)> {
        match ((self.shared)(part), self.index) {
            (true, 0) => Some((path_when_shared.to_owned(), true)),
            (true, _) => None,
            (false, _) => Some((format!("{}.{part}", self.own), false)),
        }
    }

    fn name_and_warning(&self, errors: &mut Vec<FieldError>) {
        let name = self.version["name"].as_str().unwrap_or_default();
        let problems = names::label_problems(name);
        if !problems.is_empty() {
            let field = format!("{}.name", self.own);
            errors.push(FieldError::invalid_text(field, name, &problems.join(",")));
        }
        let Some(warning) = self.version["deprecationWarning"].as_str() else {
            return;
        };
        let field = format!("{}.deprecationWarning", self.own);
        let mut blame =
            |detail: &str| errors.push(FieldError::invalid_text(field.clone(), warning, detail));
        if self.version["deprecated"] != true {
            return blame("can only be set for deprecated versions");
        }
        if warning.len() > LARGEST_WARNING {
            blame("must be <= 256 characters long");
        }
        if warning.is_empty() {
            blame("must not be an empty string");
        }
        if let Some((index, _)) = warning
            .char_indices()
            .find(|(_, character)| character.is_control())
        {
            blame(&format!(
                "must only contain printable UTF-8 characters; \
                 non-printable character found at index {index}"
            ));
        }
    }

    fn schema(
        &self,
        errors: &mut Vec<FieldError>,
        later: &mut Vec<FieldError>,
    ) -> Option<Arc<Schema>> {
        let schema = &self.version["schema"]["openAPIV3Schema"];
        let (path, is_shared) = self.path("schema", "spec.validation")?;
        if schema.is_null() {
            return None;
        }
        let errors = if is_shared { later } else { errors };
        let path = format!("{path}.openAPIV3Schema");
        if self.version["subresources"]["status"].is_object() {
            check_root_of_status(schema, &path, errors);
        }
        match Schema::compile(schema) {
            Ok(schema) => Some(Arc::new(schema)),
            Err(found) => {
                let place = |error: &FieldError| match error.reason {
                    MALFORMED => "spec.versions.schema.openAPIV3Schema",
                    _ => path.as_str(),
                };
                errors.extend(found.into_iter().map(|error| {
                    let place = place(&error);
                    error.below(place)
                }));
                None
            }
        }
    }

    fn subresources(&self, errors: &mut Vec<FieldError>, later: &mut Vec<FieldError>) {
        let Some((path, is_shared)) = self.path("subresources", "spec.subresources") else {
            return;
        };
        if !self.version["subresources"]["scale"].is_null() {
            let errors = if is_shared { later } else { errors };
            let detail = "the scale subresource is not supported by this server";
            errors.push(FieldError::forbidden(format!("{path}.scale"), detail));
        }
    }

    fn columns(&self, errors: &mut Vec<FieldError>, later: &mut Vec<FieldError>) {
        let path = self.path("additionalPrinterColumns", "spec.additionalPrinterColumns");
        let Some((path, is_shared)) = path else {
            return;
        };
        let errors = if is_shared { later } else { errors };
        let columns = self.version["additionalPrinterColumns"].as_array();
        for (index, column) in columns.into_iter().flatten().enumerate() {
            check_column(column, &format!("{path}[{index}]"), errors);
        }
    }

    fn selectable_fields(
        &self,
        schema: &Schema,
        errors: &mut Vec<FieldError>,
        later: &mut Vec<FieldError>,
    ) {
        let Some((path, is_shared)) = self.path("selectableFields", "spec.selectableFields") else {
            return;
        };
        let errors = if is_shared { later } else { errors };
        let mut seen: Vec<String> = Vec::new();
        let fields = self.version["selectableFields"].as_array();
        for (index, field) in fields.into_iter().flatten().enumerate() {
            let path = format!("{path}[{index}].jsonPath");
            check_selectable_field(schema, &field["jsonPath"], path, &mut seen, errors);
        }
        if seen.len() > MOST_SELECTABLE_FIELDS {
            let most = MOST_SELECTABLE_FIELDS as i64;
            errors.push(FieldError::too_many(path, seen.len(), most));
        }
    }
}

fn check_selectable_field(
    schema: &Schema,
    json_path: &Value,
    field: String,
    seen: &mut Vec<String>,
    errors: &mut Vec<FieldError>,
) {
    let json_path = json_path.as_str().unwrap_or_default();
    if json_path.is_empty() {
        return errors.push(FieldError::required(field, ""));
    }
    let (path, type_name) = match schema.type_at(json_path) {
        Ok(found) => found,
        Err(problem) => {
            let detail = format!("is an invalid path: {problem}");
            return errors.push(FieldError::invalid_text(field, json_path, &detail));
        }
    };
    if path == "metadata" || path.starts_with("metadata.") {
        let detail = "must not point to fields in metadata";
        errors.push(FieldError::invalid_text(field.clone(), json_path, detail));
    }
    if !["string", "boolean", "integer"].contains(&type_name) {
        let detail = "must point to a field of type string, boolean or integer. \
                      Enum string fields and strings with formats are allowed.";
        errors.push(FieldError::invalid_text(field.clone(), json_path, detail));
    }
    match seen.contains(&path) {
        true => errors.push(FieldError::duplicate(field, Some(&json_path.into()))),
        false => seen.push(path),
    }
}

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";

fn check_column(column: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let text = |name: &str| column[name].as_str().unwrap_or_default();
    if text("name").is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    let field = format!("{path}.type");
    let detail = format!("must be one of {}", COLUMN_TYPES.join(","));
    match text("type") {
        "" => errors.push(FieldError::required(field, &detail)),
        name if COLUMN_TYPES.contains(&name) => {}
        name => errors.push(FieldError::invalid_text(field, name, &detail)),
    }
    let format = text("format");
    if !format.is_empty() && !COLUMN_FORMATS.split(',').any(|known| known == format) {
        let detail = format!("must be one of {COLUMN_FORMATS}");
        let field = format!("{path}.format");
        errors.push(FieldError::invalid_text(field, format, &detail));
    }
    let field = format!("{path}.JSONPath");
    match text("jsonPath") {
        "" => errors.push(FieldError::required(field, "")),
        json_path if json_path.starts_with('.') => {}
        json_path => {
            let detail = "must be a simple json path starting with .";
            errors.push(FieldError::invalid_text(field, json_path, detail));
        }
    }
}

/// The root of a schema with a status subresource may only have certain keywords.
fn check_root_of_status(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    const REFUSED: [&str; 13] = [
        "nullable",
        "default",
        "enum",
        "maxProperties",
        "minProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "additionalProperties",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-map-type",
    ];
    let set = |keyword: &str| !matches!(schema[keyword], Value::Null | Value::Bool(false));
    if REFUSED.iter().any(|keyword| set(keyword)) {
        let detail = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum \
                      ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems \
                      MultipleOf Required Items Properties ExternalDocs Example \
                      XPreserveUnknownFields XValidations] fields are allowed at the root of the \
                      schema if the status subresource is enabled";
        errors.push(FieldError::invalid_unprinted(path, detail));
    }
}
