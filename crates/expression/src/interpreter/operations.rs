//! The operators of CEL on values.

use std::cmp::Ordering;
use std::sync::Arc;

use kube_cel::cel::common::ast::operators;
use kube_cel::cel::objects::{KeyRef, OptionalValue};
use kube_cel::cel::{ExecutionError, Value as Cel};

use super::EvaluationResult;
use crate::budget::Budget;

/// Whether a name is that of an operator on two values.
pub(super) fn is_binary(name: &str) -> bool {
    [
        operators::ADD,
        operators::SUBSTRACT,
        operators::MULTIPLY,
        operators::DIVIDE,
        operators::MODULO,
        operators::EQUALS,
        operators::NOT_EQUALS,
        operators::LESS,
        operators::LESS_EQUALS,
        operators::GREATER,
        operators::GREATER_EQUALS,
        operators::IN,
        operators::INDEX,
        operators::OPT_INDEX,
        operators::OPT_SELECT,
    ]
    .contains(&name)
}

/// What an operator makes of two values.
pub(super) fn binary(budget: &mut Budget, name: &str, left: Cel, right: Cel) -> EvaluationResult {
    match name {
        operators::ADD => budget.charge_for_sum(&left, &right)?,
        operators::IN => drop(budget.charge_for(&right)?),
        operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT => {}
        _ => budget.charge_for_comparison(&left, &right)?,
    }
    Ok(match name {
        operators::ADD => added(left, right)?,
        operators::SUBSTRACT => (left - right)?,
        operators::MULTIPLY => (left * right)?,
        operators::DIVIDE => (left / right)?,
        operators::MODULO => (left % right)?,
        operators::EQUALS => Cel::Bool(left == right),
        operators::NOT_EQUALS => Cel::Bool(left != right),
        operators::IN => Cel::Bool(contains(&right, &left)?),
        operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT => {
            indexed(&left, &right, name != operators::INDEX)?
        }
        _ => Cel::Bool(compared(name, &left, &right)?),
    })
}

fn added(left: Cel, right: Cel) -> Result<Cel, ExecutionError> {
    match (left, right) {
        (Cel::Bytes(left), Cel::Bytes(right)) => {
            Ok(Cel::Bytes(Arc::new([left.as_slice(), &right].concat())))
        }
        (left, right) => left + right,
    }
}

pub(super) fn negated(value: &Cel) -> Result<Cel, ExecutionError> {
    match value {
        Cel::Int(number) => match number.checked_neg() {
            Some(number) => Ok(Cel::Int(number)),
            None => Err(ExecutionError::Overflow(
                "minus",
                value.clone(),
                value.clone(),
            )),
        },
        Cel::Float(number) => Ok(Cel::Float(-number)),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn contains(container: &Cel, value: &Cel) -> Result<bool, ExecutionError> {
    match container {
        Cel::List(items) => Ok(items.contains(value)),
        Cel::Map(map) => {
            let key = KeyRef::try_from(value);
            Ok(key.is_ok_and(|key| map.get(&key).is_some()))
        }
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn compared(name: &str, left: &Cel, right: &Cel) -> Result<bool, ExecutionError> {
    let is_number = |value: &Cel| matches!(value, Cel::Int(_) | Cel::UInt(_) | Cel::Float(_));
    let order = match (left, right) {
        (Cel::Bytes(left), Cel::Bytes(right)) => Some(left.cmp(right)),
        _ => left.partial_cmp(right),
    };
    match (order, name) {
        (Some(order), operators::LESS) => Ok(order == Ordering::Less),
        (Some(order), operators::LESS_EQUALS) => Ok(order != Ordering::Greater),
        (Some(order), operators::GREATER) => Ok(order == Ordering::Greater),
        (Some(order), _) => Ok(order != Ordering::Less),
        // One of them is not a number, which is in no order with any.
        (None, _) if is_number(left) && is_number(right) => Ok(false),
        (None, _) => Err(ExecutionError::NoSuchOverload),
    }
}

/// `value[key]`, `value[?key]` and `value.?key`; what is looked up in an optional value is optional.
fn indexed(value: &Cel, key: &Cel, is_optional: bool) -> Result<Cel, ExecutionError> {
    match (as_optional(value), is_optional) {
        (Some(None), _) => Ok(optional(None)),
        (Some(Some(inner)), _) => Ok(optional(item(inner, key).ok())),
        (None, true) => match item(value, key) {
            Err(ExecutionError::NoSuchOverload) => Err(ExecutionError::NoSuchOverload),
            found => Ok(optional(found.ok())),
        },
        (None, false) => item(value, key),
    }
}

fn item(value: &Cel, key: &Cel) -> Result<Cel, ExecutionError> {
    match (value, key) {
        (Cel::List(items), Cel::Int(_) | Cel::UInt(_)) => {
            let index = match key {
                Cel::Int(index) => usize::try_from(*index).ok(),
                Cel::UInt(index) => usize::try_from(*index).ok(),
                _ => None,
            };
            let item = index.and_then(|index| items.get(index));
            let missing = || ExecutionError::IndexOutOfBounds(key.clone());
            item.cloned().ok_or_else(missing)
        }
        (Cel::Map(map), key) => {
            let key = KeyRef::try_from(key).map_err(|_| ExecutionError::NoSuchOverload)?;
            let missing = || match key {
                KeyRef::String(key) => ExecutionError::no_such_key(key),
                KeyRef::Int(key) => ExecutionError::no_such_key(&key.to_string()),
                KeyRef::Uint(key) => ExecutionError::no_such_key(&key.to_string()),
                KeyRef::Bool(key) => ExecutionError::no_such_key(&key.to_string()),
            };
            map.get(&key).cloned().ok_or_else(missing)
        }
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

/// What is in an optional value; `None` if it is no optional value.
pub(super) fn as_optional(value: &Cel) -> Option<Option<&Cel>> {
    <&OptionalValue>::try_from(value)
        .ok()
        .map(OptionalValue::value)
}

fn optional(value: Option<Cel>) -> Cel {
    Cel::Opaque(Arc::new(match value {
        Some(value) => OptionalValue::of(value),
        None => OptionalValue::none(),
    }))
}
