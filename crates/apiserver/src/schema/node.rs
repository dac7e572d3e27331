//! The parsed form of an `openAPIV3Schema`.
//!
//! Reading only checks that each keyword has the right JSON type; whether the
//! schema makes sense is decided in [`super::structural`] and [`super::keywords`].
//! Keywords the API does not know are ignored, as kube-apiserver ignores them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::cel::ValidationRule;
use super::error::{FieldError, INSIDE, child};
use super::pattern::Pattern;

/// One level of a schema.
#[derive(Debug, Default)]
pub(super) struct SchemaNode {
    pub(super) type_name: String,
    pub(super) format: String,
    /// `title` and `description`, when they are not empty.
    pub(super) texts: Vec<&'static str>,
    pub(super) nullable: bool,
    pub(super) default: Option<Value>,
    pub(super) values: Vec<Value>,
    pub(super) number: NumberLimits,
    pub(super) sizes: SizeLimits,
    pub(super) pattern: Option<Pattern>,
    pub(super) unique_items: bool,
    pub(super) required: Vec<String>,
    pub(super) items: Option<Box<SchemaNode>>,
    pub(super) properties: BTreeMap<String, SchemaNode>,
    pub(super) additional: AdditionalProperties,
    pub(super) all_of: Vec<SchemaNode>,
    pub(super) any_of: Vec<SchemaNode>,
    pub(super) one_of: Vec<SchemaNode>,
    pub(super) not: Option<Box<SchemaNode>>,
    pub(super) preserve_unknown: Option<bool>,
    pub(super) embedded: bool,
    pub(super) int_or_string: bool,
    pub(super) list_type: Option<String>,
    pub(super) list_map_keys: Vec<String>,
    pub(super) map_type: Option<String>,
    pub(super) rules: Vec<ValidationRule>,
    /// Keywords of JSON Schema that the API refuses.
    pub(super) refused: Vec<&'static str>,
    /// Whether this node or one below it has rules.
    pub(super) has_rules: bool,
}

/// The value of `additionalProperties`.
#[derive(Debug, Default)]
pub(super) enum AdditionalProperties {
    #[default]
    Unset,
    Allowed(bool),
    Schema(Box<SchemaNode>),
}

#[derive(Debug, Default)]
pub(super) struct NumberLimits {
    pub(super) maximum: Option<f64>,
    pub(super) exclusive_maximum: bool,
    pub(super) minimum: Option<f64>,
    pub(super) exclusive_minimum: bool,
    pub(super) multiple_of: Option<f64>,
}

#[derive(Debug, Default)]
pub(super) struct SizeLimits {
    pub(super) max_length: Option<i64>,
    pub(super) min_length: Option<i64>,
    pub(super) max_items: Option<i64>,
    pub(super) min_items: Option<i64>,
    pub(super) max_properties: Option<i64>,
    pub(super) min_properties: Option<i64>,
}

impl SchemaNode {
    pub(super) fn preserves_unknown(&self) -> bool {
        self.preserve_unknown == Some(true)
    }

    /// The schema of what a map holds.
    pub(super) fn additional_schema(&self) -> Option<&SchemaNode> {
        match &self.additional {
            AdditionalProperties::Schema(node) => Some(node),
            _ => None,
        }
    }

    pub(super) fn takes_additional(&self) -> bool {
        !matches!(self.additional, AdditionalProperties::Unset)
    }

    /// The schema of the field `name`, declared or additional.
    pub(super) fn field(&self, name: &str) -> Option<&SchemaNode> {
        self.properties
            .get(name)
            .or_else(|| self.additional_schema())
    }

    /// Whether this node or one below it is such a one.
    pub(super) fn has_any(&self, is_it: &dyn Fn(&Self) -> bool) -> bool {
        is_it(self) || children(self).any(|node| node.has_any(is_it))
    }

    pub(super) fn is_list_type(&self, list_type: &str) -> bool {
        self.list_type.as_deref() == Some(list_type)
    }
}

/// Reads a schema. Wrong JSON types are added to `errors` and read as absent.
pub(super) fn read(schema: &Value, path: &str, errors: &mut Vec<FieldError>) -> Box<SchemaNode> {
    let mut node = Box::<SchemaNode>::default();
    let Some(keywords) = schema.as_object() else {
        errors.push(malformed(path, schema, "v1.JSONSchemaProps"));
        return node;
    };
    for (keyword, value) in keywords.iter().filter(|(_, value)| !value.is_null()) {
        let path = child(path, keyword);
        let mut reader = KeywordReader {
            value,
            path: &path,
            errors,
        };
        if !reader.scalar(&mut node, keyword) && !reader.limit(&mut node, keyword) {
            reader.structure(&mut node, keyword);
        }
    }
    node.has_rules = !node.rules.is_empty() || children(&node).any(|node| node.has_rules);
    node
}

/// A field of a schema has the wrong type.
fn malformed(path: &str, value: &Value, expected: &str) -> FieldError {
    let owner = if path.is_empty() {
        "CustomResourceValidation"
    } else {
        "JSONSchemaProps"
    };
    FieldError::malformed(owner, &format!("{INSIDE}{path}"), value, expected)
}

/// The nodes of the values in a value of this node.
fn children(node: &SchemaNode) -> impl Iterator<Item = &SchemaNode> {
    let items = node.items.as_deref().into_iter();
    items
        .chain(node.properties.values())
        .chain(node.additional_schema())
}

/// One keyword being read.
struct KeywordReader<'a> {
    value: &'a Value,
    path: &'a str,
    errors: &'a mut Vec<FieldError>,
}

impl<'a> KeywordReader<'a> {
    fn scalar(&mut self, node: &mut SchemaNode, keyword: &str) -> bool {
        match keyword {
            "type" => node.type_name = self.text(),
            "format" => node.format = self.text(),
            "title" if !self.text().is_empty() => node.texts.push("title"),
            "description" if !self.text().is_empty() => node.texts.push("description"),
            "nullable" => node.nullable = self.flag(),
            "default" => node.default = Some(self.value.clone()),
            "enum" => node.values = self.list("[]v1.JSON").to_vec(),
            "pattern" => node.pattern = Some(Pattern::new(self.text())),
            "uniqueItems" => node.unique_items = self.flag(),
            "required" => node.required = self.texts(),
            "x-kubernetes-preserve-unknown-fields" => node.preserve_unknown = Some(self.flag()),
            "x-kubernetes-embedded-resource" => node.embedded = self.flag(),
            "x-kubernetes-int-or-string" => node.int_or_string = self.flag(),
            "x-kubernetes-list-type" => node.list_type = Some(self.text()),
            "x-kubernetes-list-map-keys" => node.list_map_keys = self.texts(),
            "x-kubernetes-map-type" => node.map_type = Some(self.text()),
            _ => return false,
        }
        true
    }

    fn limit(&mut self, node: &mut SchemaNode, keyword: &str) -> bool {
        match keyword {
            "maximum" => node.number.maximum = self.float(),
            "minimum" => node.number.minimum = self.float(),
            "multipleOf" => node.number.multiple_of = self.float(),
            "exclusiveMaximum" => node.number.exclusive_maximum = self.flag(),
            "exclusiveMinimum" => node.number.exclusive_minimum = self.flag(),
            "maxLength" => node.sizes.max_length = self.integer(),
            "minLength" => node.sizes.min_length = self.integer(),
            "maxItems" => node.sizes.max_items = self.integer(),
            "minItems" => node.sizes.min_items = self.integer(),
            "maxProperties" => node.sizes.max_properties = self.integer(),
            "minProperties" => node.sizes.min_properties = self.integer(),
            _ => return false,
        }
        true
    }

    fn structure(&mut self, node: &mut SchemaNode, keyword: &str) {
        match keyword {
            "items" if self.value.is_array() => node.refused.push("items"),
            "items" if self.value.is_object() => node.items = Some(self.node()),
            "properties" => node.properties = self.nodes_by_name(),
            "additionalProperties" => {
                node.additional = match self.value {
                    Value::Bool(allowed) => AdditionalProperties::Allowed(*allowed),
                    Value::Object(_) => AdditionalProperties::Schema(self.node()),
                    _ => {
                        let message = "boolean or JSON schema expected";
                        self.errors.push(FieldError::undecodable(message));
                        AdditionalProperties::Unset
                    }
                }
            }
            "allOf" => node.all_of = self.nodes(),
            "anyOf" => node.any_of = self.nodes(),
            "oneOf" => node.one_of = self.nodes(),
            "not" => node.not = Some(self.node()),
            "x-kubernetes-validations" => node.rules = self.rules(),
            "id" => node.refused.push("id"),
            "$schema" => node.refused.push("$schema"),
            "$ref" => node.refused.push("$ref"),
            "additionalItems" => node.refused.push("additionalItems"),
            "patternProperties" => node.refused.push("patternProperties"),
            "definitions" => node.refused.push("definitions"),
            "dependencies" => node.refused.push("dependencies"),
            _ => {}
        }
    }

    fn node(&mut self) -> Box<SchemaNode> {
        read(self.value, self.path, self.errors)
    }

    fn nodes(&mut self) -> Vec<SchemaNode> {
        let mut nodes = Vec::new();
        for (index, value) in self.list("[]v1.JSONSchemaProps").iter().enumerate() {
            nodes.push(*read(
                value,
                &format!("{}[{index}]", self.path),
                self.errors,
            ));
        }
        nodes
    }

    fn nodes_by_name(&mut self) -> BTreeMap<String, SchemaNode> {
        let mut nodes = BTreeMap::new();
        let Some(fields) = self.value.as_object() else {
            self.complain("map[string]v1.JSONSchemaProps");
            return nodes;
        };
        for (name, value) in fields {
            let node = read(value, &format!("{}[{name}]", self.path), self.errors);
            nodes.insert(name.clone(), *node);
        }
        nodes
    }

    fn rules(&mut self) -> Vec<ValidationRule> {
        let mut rules = Vec::new();
        for (index, value) in self.list("v1.ValidationRules").iter().enumerate() {
            let path = format!("{}[{index}]", self.path);
            match ValidationRule::read(value) {
                Some(rule) => rules.push(rule),
                None => self
                    .errors
                    .push(malformed(&path, value, "v1.ValidationRule")),
            }
        }
        rules
    }

    fn text(&mut self) -> String {
        match self.value {
            Value::String(text) => text.clone(),
            _ => {
                self.complain("string");
                String::new()
            }
        }
    }

    fn texts(&mut self) -> Vec<String> {
        let mut texts = Vec::new();
        for value in self.list("[]string") {
            match value {
                Value::String(text) => texts.push(text.clone()),
                other => self.errors.push(malformed(self.path, other, "string")),
            }
        }
        texts
    }

    fn flag(&mut self) -> bool {
        self.value.as_bool().unwrap_or_else(|| {
            self.complain("bool");
            false
        })
    }

    fn float(&mut self) -> Option<f64> {
        let number = self.value.as_f64();
        if number.is_none() {
            self.complain("float64");
        }
        number
    }

    fn integer(&mut self) -> Option<i64> {
        let number = self.value.as_i64();
        if number.is_none() {
            self.complain("int64");
        }
        number
    }

    fn list(&mut self, expected: &str) -> &'a [Value] {
        match self.value {
            Value::Array(items) => items,
            _ => {
                self.complain(expected);
                &[]
            }
        }
    }

    fn complain(&mut self, expected: &str) {
        self.errors.push(malformed(self.path, self.value, expected));
    }
}
