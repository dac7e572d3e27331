//! Running the rules of a schema against an object.

use serde_json::Value;

use super::budget::Budget;
use super::{Rule, convert, program};
use crate::schema::error::{FieldError, NO_FIELD, child};
use crate::schema::lists::Counterparts;
use crate::schema::node::Node;

/// Runs the rules of `node` and below against `value`.
pub(in crate::schema) fn evaluate(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    errors: &mut Vec<FieldError>,
) {
    let unchanged = old == Some(value);
    let step = Step {
        value,
        old,
        unchanged,
    };
    let budget = Budget::new();
    let is_over = false;
    let mut evaluation = Evaluation {
        errors,
        budget,
        is_over,
    };
    evaluation.node(node, step, "");
}

/// A value on the way down and the value it replaces.
#[derive(Clone, Copy)]
struct Step<'a> {
    value: &'a Value,
    old: Option<&'a Value>,
    /// Whether this, or what contains it where there is no counterpart, is as it was.
    unchanged: bool,
}

impl<'a> Step<'a> {
    fn into(self, value: &'a Value, old: Option<&'a Value>) -> Self {
        let unchanged = old.map_or(self.unchanged, |old| old == value);
        Self {
            value,
            old,
            unchanged,
        }
    }
}

struct Evaluation<'e> {
    errors: &'e mut Vec<FieldError>,
    budget: Budget,
    /// Whether no further rules are run.
    is_over: bool,
}

impl Evaluation<'_> {
    fn node(&mut self, node: &Node, step: Step<'_>, path: &str) {
        if step.value.is_null() || !node.has_rules || self.is_over {
            return;
        }
        if !node.rules.is_empty() {
            self.rules(node, step, path);
        }
        match step.value {
            Value::Array(items) => {
                let Some(item_node) = &node.items else { return };
                let counterparts = Counterparts::of(node, step.old);
                for (index, item) in items.iter().enumerate() {
                    let old = counterparts.find(node, item);
                    self.node(item_node, step.into(item, old), &format!("{path}[{index}]"));
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    let step = step.into(value, step.old.and_then(|old| old.get(name)));
                    if let Some(node) = node.additional_schema() {
                        self.node(node, step, &format!("{path}[{name}]"));
                    }
                    if let Some(node) = node.properties.get(name) {
                        self.node(node, step, &child(path, name));
                    }
                }
            }
            _ => {}
        }
    }

    /// Charges for so many values looked at; says so where that is too much.
    fn can_afford(&mut self, values: usize, node: &Node, path: &str) -> bool {
        let cost = u64::try_from(values).unwrap_or(u64::MAX);
        self.budget.next_expression();
        // One such charge is never the whole of what an expression may cost.
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

    fn rules(&mut self, node: &Node, step: Step<'_>, path: &str) {
        let values = values_in(step.value) + step.old.map_or(0, values_in);
        if !self.can_afford(values, node, path) {
            return;
        }
        let current = convert::to_cel(step.value, Some(node));
        let previous = step
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
            let scope = program::Scope {
                current: &current,
                previous: previous.as_ref(),
                optional: rule.is_optional(),
            };
            match compiled.run(&scope, &mut self.budget) {
                Ok(true) => {}
                Ok(false) if step.unchanged && !compiled.uses_old_self => {}
                Ok(false) => {
                    let message = compiled.message(&scope, &mut self.budget);
                    let detail = message.unwrap_or_else(|| rule.detail());
                    self.errors
                        .push(failure(rule, node, step.value, path, &detail));
                }
                Err(program::Problem::Spent) if self.budget.is_spent() => {
                    self.can_afford(0, node, path);
                    return;
                }
                Err(problem) => {
                    self.is_over = matches!(problem, program::Problem::Spent);
                    let detail = problem.told(rule.called());
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

/// How many values a value consists of.
fn values_in(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(values_in).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(values_in).sum::<usize>(),
        _ => 1,
    }
}

fn failure(rule: &Rule, node: &Node, value: &Value, path: &str, detail: &str) -> FieldError {
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
