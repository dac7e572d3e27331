//! Structural schemas of CustomResourceDefinitions.
//!
//! A [`Schema`] is compiled once and then prunes, defaults and validates
//! objects as kube-apiserver does, with kube-apiserver's messages. It never
//! panics and never overflows the stack on anything a JSON parser accepts.

mod cel;
mod defaults;
mod embedded;
mod error;
mod format;
mod keywords;
mod lists;
mod node;
mod number;
mod object_type;
mod path;
mod pattern;
mod prune;
mod structural;
mod value;

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use error::NO_FIELD;
pub(crate) use error::{FieldError, MALFORMED, ordered};
use node::SchemaNode;

use crate::{blocking, types::Type};

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct Schema {
    root: Box<SchemaNode>,
    fingerprint: u64,
    /// Whether any list in it is a set or a map.
    has_keyed_lists: bool,
    /// Whether there are resources in the resource.
    has_embedded: bool,
    validates_status_alone: bool,
    /// Whether running its rules may take long.
    has_costly_rules: bool,
}

impl Schema {
    /// Compiles an `openAPIV3Schema`, with all patterns and rules in it.
    ///
    /// Refuses what is malformed, not structural or not supported; the fields of
    /// the errors lie inside the schema.
    pub(crate) fn compile(open_api_v3_schema: &Value) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let mut root = node::read(open_api_v3_schema, "", &mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }
        errors.extend(structural::check(&root));
        let is_structural = errors.is_empty();
        keywords::check(&root, &mut errors);
        if errors.is_empty() {
            cel::compile(&mut root, &mut errors);
        }
        if is_structural && errors.is_empty() {
            defaults::check(&root, &mut errors);
        }
        match errors.is_empty() {
            true => Ok(Self {
                fingerprint: fingerprint(open_api_v3_schema),
                has_keyed_lists: root.has_any(&|node| node.list_type.is_some()),
                has_embedded: root.has_any(&|node| node.embedded),
                validates_status_alone: validates_status_alone(&root),
                has_costly_rules: root
                    .has_any(&|node| node.rules.iter().any(cel::ValidationRule::is_costly)),
                root,
            }),
            false => Err(errors),
        }
    }

    /// Removes the fields the schema does not know and returns their paths.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(&self.root, object, true)
    }

    /// Fills in defaults; a null where none may be counts as nothing.
    pub(crate) fn default(&self, object: &mut Value) {
        defaults::fill(&self.root, object);
    }

    /// Everything wrong with `new`, which replaces `old` in an update.
    ///
    /// Unchanged values are not reported as invalid. A single error with the
    /// reason [`MALFORMED`] means that the object cannot be decoded at all.
    pub(crate) fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let checked = value::CheckedValue {
            value: new,
            path: "",
            old,
        };
        if self.has_embedded
            && let Some(problem) = embedded::undecodable(&self.root, new, "")
        {
            return vec![problem];
        }
        let mut errors = value::check(&self.root, checked).into_errors();
        if self.has_embedded {
            embedded::check(&self.root, new, "", &mut errors);
        }
        self.check_lists_and_rules(new, old, &mut errors);
        errors
    }

    /// Like [`Schema::validate`] for a write to the status subresource: the
    /// status is checked in full, the rest only by lists and rules.
    pub(crate) fn validate_status(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let (Some(node), Some(status)) = (self.root.field("status"), new.get("status")) {
            let checked = value::CheckedValue {
                value: status,
                path: "",
                old: old.get("status"),
            };
            let found = value::check(node, checked).into_errors();
            errors.extend(found.into_iter().map(|error| error.below("status")));
        }
        self.check_lists_and_rules(new, Some(old), &mut errors);
        errors
    }

    fn check_lists_and_rules(
        &self,
        new: &Value,
        old: Option<&Value>,
        errors: &mut Vec<FieldError>,
    ) {
        if self.has_keyed_lists {
            let mut repeated_before = Vec::new();
            if let Some(old) = old {
                lists::check(&self.root, old, "", &mut repeated_before);
            }
            if repeated_before.is_empty() {
                lists::check(&self.root, new, "", errors);
            }
        }
        if !self.root.has_rules {
            return;
        }
        if errors.iter().any(blocks_rules) {
            let detail = "some validation rules were not checked because the object was invalid; \
                          correct the existing errors to complete validation";
            return errors.push(FieldError::invalid(NO_FIELD, &Value::Null, detail));
        }
        match self.has_costly_rules {
            true => blocking::run(|| cel::evaluate(&self.root, new, old, errors)),
            false => cel::evaluate(&self.root, new, old, errors),
        }
    }

    /// Whether a change of only the status can be validated without the rest of an object that this
    /// schema validated before.
    pub(crate) fn validates_status_alone(&self) -> bool {
        self.validates_status_alone
    }

    /// Identifies the schema.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The types of the fields, for server-side apply.
    pub(crate) fn object_type(&self) -> Type {
        object_type::of(&self.root)
    }

    /// The type of the field at a simple path such as `.spec.color`, and that path without
    /// the dot in front.
    pub(crate) fn type_at(&self, json_path: &str) -> Result<(String, &str), String> {
        let (path, node) = path::follow(&self.root, json_path, false)?;
        Ok((path, &node.type_name))
    }
}

fn validates_status_alone(root: &SchemaNode) -> bool {
    let compares = |node: &SchemaNode| node.rules.iter().any(cel::ValidationRule::uses_old_self);
    let mut others = root.properties.iter().filter(|(name, _)| *name != "status");
    root.rules.is_empty()
        && root.additional_schema().is_none()
        && others.all(|(_, node)| node.default.is_none() && !node.has_any(&compares))
}

fn fingerprint(schema: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    schema.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Whether rules are not evaluated because of this error.
fn blocks_rules(error: &FieldError) -> bool {
    [
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    ]
    .contains(&error.reason)
}

#[cfg(test)]
mod tests;
