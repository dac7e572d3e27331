//! Evaluates the rules of a schema for an object.

use expression::Budget;
use serde_json::Value;

use super::{ValidationRule, convert, program};
use crate::schema::error::{FieldError, NO_FIELD, child};
use crate::schema::lists::OldItems;
use crate::schema::node::SchemaNode;

/// Runs the rules of `node` and below against `value`.
pub(in crate::schema) fn evaluate(
    node: &SchemaNode,
    value: &Value,
    old: Option<&Value>,
    errors: &mut Vec<FieldError>,
) {
    let unchanged = old == Some(value);
    let compared = ComparedValue {
        value,
        old,
        unchanged,
    };
    let budget = Budget::new();
    let is_over = false;
    let mut evaluation = RuleEvaluation {
        errors,
        budget,
        is_over,
    };
    evaluation.node(node, compared, "");
}

/// A value and the value that it replaces.
#[derive(Clone, Copy)]
struct ComparedValue<'a> {
    value: &'a Value,
    old: Option<&'a Value>,
    /// Whether the value, or what contains it if there is no old value, is unchanged.
    unchanged: bool,
}

impl<'a> ComparedValue<'a> {
    fn into(self, value: &'a Value, old: Option<&'a Value>) -> Self {
        let unchanged = old.map_or(self.unchanged, |old| old == value);
        Self {
            value,
            old,
            unchanged,
        }
    }
}

struct RuleEvaluation<'e> {
    errors: &'e mut Vec<FieldError>,
    budget: Budget,
    /// Whether no further rules are run.
    is_over: bool,
}

impl RuleEvaluation<'_> {
    fn node(&mut self, node: &SchemaNode, compared: ComparedValue<'_>, path: &str) {
        if compared.value.is_null() || !node.has_rules || self.is_over {
            return;
        }
        if !node.rules.is_empty() {
            self.rules(node, compared, path);
        }
        match compared.value {
            Value::Array(items) => {
                let Some(item_node) = &node.items else { return };
                let old_items = OldItems::of(node, compared.old);
                for (index, item) in items.iter().enumerate() {
                    let old = old_items.find(node, item);
                    self.node(
                        item_node,
                        compared.into(item, old),
                        &format!("{path}[{index}]"),
                    );
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    let compared = compared.into(value, compared.old.and_then(|old| old.get(name)));
                    if let Some(node) = node.additional_schema() {
                        self.node(node, compared, &format!("{path}[{name}]"));
                    }
                    if let Some(node) = node.properties.get(name) {
                        self.node(node, compared, &child(path, name));
                    }
                }
            }
            _ => {}
        }
    }

    /// Charges for reading this many values; reports an error if that is too much.
    fn charge_for_values(&mut self, values: usize, node: &SchemaNode, path: &str) -> bool {
        let cost = u64::try_from(values).unwrap_or(u64::MAX);
        self.budget.next_expression();
        // One such charge never exceeds the limit of an expression.
        let _ = self.budget.charge(cost);
        if self.budget.is_spent() && !self.is_over {
            self.is_over = true;
            let detail = "validation failed due to running out of cost budget, no further \
                          validation rules will be run";
            let field = if path.is_empty() { NO_FIELD } else { path };
            self.errors
                .push(FieldError::invalid_text(field, &node.type_name, detail));
        }
        !self.is_over
    }

    fn rules(&mut self, node: &SchemaNode, compared: ComparedValue<'_>, path: &str) {
        let values = values_in(compared.value) + compared.old.map_or(0, values_in);
        if !self.charge_for_values(values, node, path) {
            return;
        }
        let current = convert::to_cel(compared.value, Some(node));
        let previous = compared
            .old
            .filter(|old| !old.is_null())
            .map(|old| convert::to_cel(old, Some(node)));
        for rule in &node.rules {
            let Some(compiled) = &rule.compiled else {
                continue;
            };
            if compiled.uses_old_self && previous.is_none() && !rule.is_optional() {
                continue;
            }
            let input = program::RuleInput {
                current: &current,
                previous: previous.as_ref(),
                optional: rule.is_optional(),
            };
            match compiled.run(&input, &mut self.budget) {
                Ok(true) => {}
                Ok(false) if compared.unchanged && !compiled.uses_old_self => {}
                Ok(false) => {
                    let message = compiled.message(&input, &mut self.budget);
                    let detail = message.unwrap_or_else(|| rule.detail());
                    self.errors
                        .push(failure(rule, node, compared.value, path, &detail));
                }
                Err(program::RuleError::Spent) if self.budget.is_spent() => {
                    self.charge_for_values(0, node, path);
                    return;
                }
                Err(problem) => {
                    self.is_over = matches!(problem, program::RuleError::Spent);
                    let detail = problem.message(rule.display_name());
                    let field = if path.is_empty() { NO_FIELD } else { path };
                    self.errors
                        .push(FieldError::invalid_text(field, &node.type_name, &detail));
                    if self.is_over {
                        return;
                    }
                }
            }
        }
    }
}

/// The number of values in a value.
fn values_in(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(values_in).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(values_in).sum::<usize>(),
        _ => 1,
    }
}

fn failure(
    rule: &ValidationRule,
    node: &SchemaNode,
    value: &Value,
    path: &str,
    detail: &str,
) -> FieldError {
    let field = match (path.is_empty(), rule.named_field.is_empty()) {
        (true, true) => NO_FIELD.to_owned(),
        (_, true) => path.to_owned(),
        (_, false) => child(path, &rule.named_field),
    };
    let is_large = ["object", "array"].contains(&node.type_name.as_str());
    match rule.reason.as_deref() {
        Some("FieldValueForbidden") => FieldError::forbidden(field, detail),
        Some("FieldValueRequired") => FieldError::required(field, detail),
        Some("FieldValueDuplicate") => FieldError::duplicate(field, (!is_large).then_some(value)),
        _ if is_large => FieldError::invalid_unprinted(field, detail),
        _ => FieldError::invalid(field, value, detail),
    }
}
