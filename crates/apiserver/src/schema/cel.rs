//! Rules in CEL: `x-kubernetes-validations`.
//!
//! Rules come from definitions only, never from objects. They are compiled once;
//! one that this server cannot run as kube-apiserver would is refused with the
//! definition, never skipped. What they may cost is bounded: an object whose rules
//! cost more is refused.

mod check;
mod convert;
mod evaluate;
mod program;

use serde_json::Value;

use super::error::{FieldError, INSIDE, child, ordered};
use super::node::{AdditionalProperties, SchemaNode};
use super::path;
pub(super) use evaluate::evaluate;
use program::CompiledRule;

/// One rule as written and, later, ready to run.
#[derive(Debug, Default)]
pub(super) struct ValidationRule {
    rule: String,
    message: String,
    message_expression: String,
    reason: Option<String>,
    field_path: String,
    optional_old_self: Option<bool>,
    /// The path `field_path` names, as messages print it.
    named_field: String,
    compiled: Option<CompiledRule>,
}

const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

impl ValidationRule {
    /// Reads a rule; `None` when it does not have the shape of one.
    pub(super) fn read(value: &Value) -> Option<Self> {
        let fields = value.as_object()?;
        let text = |name: &str| match fields.get(name) {
            None | Some(Value::Null) => Some(String::new()),
            Some(value) => value.as_str().map(str::to_owned),
        };
        let optional_old_self = match fields.get("optionalOldSelf") {
            None | Some(Value::Null) => None,
            Some(value) => Some(value.as_bool()?),
        };
        Some(Self {
            rule: text("rule")?,
            message: text("message")?,
            message_expression: text("messageExpression")?,
            reason: Some(text("reason")?)
                .filter(|_| fields.get("reason").is_some_and(Value::is_string)),
            field_path: text("fieldPath")?,
            optional_old_self,
            ..Self::default()
        })
    }

    /// Whether it compares a value with the one that it replaces.
    pub(super) fn uses_old_self(&self) -> bool {
        self.compiled.as_ref().is_none_or(|it| it.uses_old_self)
    }

    /// Whether running it may take long.
    pub(super) fn is_costly(&self) -> bool {
        self.compiled.as_ref().is_some_and(CompiledRule::is_costly)
    }

    fn is_optional(&self) -> bool {
        self.optional_old_self == Some(true)
    }

    /// The name of this rule in error messages.
    fn display_name(&self) -> &str {
        let name = if self.message.is_empty() {
            &self.rule
        } else {
            &self.message
        };
        name.trim()
    }

    fn detail(&self) -> String {
        match self.message.is_empty() {
            true => format!("failed rule: {}", self.display_name()),
            false => self.message.trim().to_owned(),
        }
    }
}

/// Checks everything about the rules of one node that does not need them compiled.
pub(super) fn check_rules(node: &SchemaNode, path: &str, errors: &mut Vec<FieldError>) {
    for (index, rule) in node.rules.iter().enumerate() {
        let path = child(path, &format!("x-kubernetes-validations[{index}]"));
        check_texts(rule, &path, errors);
        let field = child(&path, "fieldPath");
        let field_path = rule.field_path.as_str();
        if let Some(reason) = rule
            .reason
            .as_ref()
            .filter(|reason| !REASONS.contains(&reason.as_str()))
        {
            let field = child(&path, "reason");
            errors.push(FieldError::not_supported(
                field,
                &reason.as_str().into(),
                &REASONS,
            ));
        }
        if !field_path.is_empty() && field_path.trim().is_empty() {
            let detail = "must be non-empty if specified";
            errors.push(FieldError::invalid_text(field.clone(), field_path, detail));
        }
        if has_newlines(field_path) {
            let detail = "must not contain line breaks";
            errors.push(FieldError::invalid_text(field.clone(), field_path, detail));
        }
        if !field_path.is_empty() && path::follow(node, field_path, true).is_err() {
            errors.push(FieldError::invalid_text(
                field,
                field_path,
                "must be a valid path",
            ));
        }
    }
}

fn check_texts(rule: &ValidationRule, path: &str, errors: &mut Vec<FieldError>) {
    let message = child(path, "message");
    let (text, trimmed) = (rule.message.as_str(), rule.message.trim());
    if rule.rule.trim().is_empty() {
        errors.push(FieldError::required(
            child(path, "rule"),
            "rule is not specified",
        ));
    } else if !text.is_empty() && trimmed.is_empty() {
        errors.push(FieldError::invalid_text(
            message,
            text,
            "must be non-empty if specified",
        ));
    } else if has_newlines(trimmed) {
        errors.push(FieldError::invalid_text(
            message,
            text,
            "must not contain line breaks",
        ));
    } else if has_newlines(rule.rule.trim()) && trimmed.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(message, detail));
    }
    if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(
            child(path, "messageExpression"),
            detail,
        ));
    }
}

fn has_newlines(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

/// Compiles every rule below `root`.
pub(super) fn compile(root: &mut SchemaNode, errors: &mut Vec<FieldError>) {
    if root.has_rules {
        compile_node(root, "", None, errors);
    }
}

/// `uncorrelated` is the outermost list whose items have no counterpart in the old object.
fn compile_node(
    node: &mut SchemaNode,
    path: &str,
    uncorrelated: Option<&str>,
    errors: &mut Vec<FieldError>,
) {
    let mut rules = std::mem::take(&mut node.rules);
    for (index, rule) in rules.iter_mut().enumerate() {
        let path = child(path, &format!("x-kubernetes-validations[{index}]"));
        compile_rule(rule, node, &path, uncorrelated, errors);
    }
    node.rules = rules;
    for (name, property) in &mut node.properties {
        let path = child(path, &format!("properties[{name}]"));
        compile_node(property, &path, uncorrelated, errors);
    }
    if let AdditionalProperties::Schema(additional) = &mut node.additional {
        let path = child(path, "additionalProperties");
        compile_node(additional, &path, uncorrelated, errors);
    }
    let list_path = (!node.is_list_type("map")).then_some(path);
    if let Some(items) = &mut node.items {
        let uncorrelated = uncorrelated.or(list_path);
        compile_node(items, &child(path, "items"), uncorrelated, errors);
    }
}

fn compile_rule(
    rule: &mut ValidationRule,
    node: &SchemaNode,
    path: &str,
    uncorrelated: Option<&str>,
    errors: &mut Vec<FieldError>,
) {
    let field = child(path, "rule");
    let subject = program::RuleSubject {
        node,
        is_resource: path.starts_with("x-kubernetes-validations") || node.embedded,
        optional: rule.is_optional(),
    };
    let compiled = match CompiledRule::new(&rule.rule, &rule.message_expression, subject) {
        Ok(compiled) => compiled,
        Err(program::CompileError::ValidationRule(detail)) => {
            return errors.push(FieldError::invalid_printed(field, &printed(rule), &detail));
        }
        Err(program::CompileError::Message(detail)) => {
            let field = child(path, "messageExpression");
            return errors.push(FieldError::invalid_printed(field, &printed(rule), &detail));
        }
    };
    if let Some(list) = uncorrelated.filter(|_| compiled.uses_old_self) {
        let detail = format!(
            "oldSelf cannot be used on the uncorrelatable portion of the schema within {INSIDE}{list}"
        );
        errors.push(FieldError::invalid_text(field, &rule.rule, &detail));
    }
    if let Some(optional) = rule.optional_old_self.filter(|_| !compiled.uses_old_self) {
        let detail = "may not be set if oldSelf is not used in rule";
        let field = child(path, "optionalOldSelf");
        errors.push(FieldError::invalid(field, &optional.into(), detail));
    }
    if let Ok((named, _)) = path::follow(node, &rule.field_path, true) {
        rule.named_field = named;
    }
    rule.compiled = Some(compiled);
}

/// A rule as kube-apiserver prints it in messages.
fn printed(rule: &ValidationRule) -> String {
    ordered(&[
        ("Rule", rule.rule.as_str().into()),
        ("Message", rule.message.as_str().into()),
        ("MessageExpression", rule.message_expression.as_str().into()),
        ("Reason", rule.reason.clone().into()),
        ("FieldPath", rule.field_path.as_str().into()),
        ("OptionalOldSelf", rule.optional_old_self.into()),
    ])
}
