//! Calls of functions: a few are here, where the library's would copy or compile too much; all others
//! are the library's, with arguments that were evaluated and charged for before.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};
use kube_cel::cel::{ExecutionError, Value as Cel};
use regex::{Regex, RegexBuilder};

use super::{EvaluationResult, Interpreter, Variables};
use crate::budget::{EvaluationError, PATTERN, length};
use crate::functions::{FUNCTIONS, lists};

/// How many compiled patterns a thread remembers.
const PATTERNS: usize = 256;
/// How large a compiled pattern may be.
const PATTERN_SIZE: usize = 4 << 20;

thread_local! {
    static COMPILED: RefCell<HashMap<String, Regex>> = RefCell::default();
}

impl Interpreter<'_> {
    pub(super) fn function(
        &mut self,
        call: &CallExpr,
        variables: &Variables<'_>,
    ) -> EvaluationResult {
        let namespace = namespace(call, variables);
        let target = call.target.as_deref().filter(|_| namespace.is_none());
        let mut values = Vec::with_capacity(call.args.len() + 1);
        for operand in target.into_iter().chain(&call.args) {
            values.push(self.evaluate(operand, variables)?);
        }
        let name = match namespace {
            Some(namespace) => format!("{namespace}.{}", call.func_name),
            None => call.func_name.clone(),
        };
        match (name.as_str(), values.as_slice()) {
            ("size", [value]) => {
                self.budget.charge(length(value))?;
                Ok(Cel::Int(size(value)?))
            }
            ("matches", [Cel::String(text), Cel::String(pattern)]) => {
                let is_match = self.with_pattern(text, pattern, |it| it.is_match(text))?;
                Ok(Cel::Bool(is_match))
            }
            ("find", [Cel::String(text), Cel::String(pattern)]) => {
                let find = |it: &Regex| it.find(text).map_or("", |found| found.as_str()).to_owned();
                Ok(self.with_pattern(text, pattern, find)?.into())
            }
            _ => {
                self.budget.charge_for_call(&name, &values)?;
                self.call_library(call, target.is_some(), values)
            }
        }
    }

    /// Calls a function of the library with values instead of expressions.
    fn call_library(
        &mut self,
        call: &CallExpr,
        has_target: bool,
        values: Vec<Cel>,
    ) -> EvaluationResult {
        let mut context = self.functions.new_inner_scope();
        let mut operands = Vec::with_capacity(values.len());
        for (index, value) in values.into_iter().enumerate() {
            let name = format!("@{index}");
            context.add_variable_from_value(name.clone(), value);
            operands.push(IdedExpr {
                id: 0,
                expr: Expr::Ident(name),
            });
        }
        let target = match has_target {
            true => Some(Box::new(operands.remove(0))),
            // The namespace of the function, if any.
            false => call.target.clone(),
        };
        let call = CallExpr {
            func_name: call.func_name.clone(),
            target,
            args: operands,
        };
        let call = IdedExpr {
            id: 0,
            expr: Expr::Call(call),
        };
        let result = Cel::resolve(&call, &context)?;
        self.budget.charge_for(&result)?;
        Ok(result)
    }

    /// Uses a pattern on a text. Patterns are compiled once and remembered.
    fn with_pattern<T>(
        &mut self,
        text: &Arc<String>,
        pattern: &Arc<String>,
        with: impl FnOnce(&Regex) -> T,
    ) -> Result<T, EvaluationError> {
        let lengths = (text.len() as u64).saturating_mul(pattern.len() as u64);
        self.budget.charge(lengths / 4)?;
        COMPILED.with_borrow_mut(|compiled| {
            if !compiled.contains_key(pattern.as_str()) {
                self.budget.charge(PATTERN)?;
                let regex = RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).build();
                let unusable = |error| ExecutionError::function_error("matches", error);
                if compiled.len() >= PATTERNS {
                    compiled.clear();
                }
                compiled.insert(pattern.to_string(), regex.map_err(unusable)?);
            }
            let regex = compiled.get(pattern.as_str());
            regex
                .map(with)
                .ok_or_else(|| ExecutionError::NoSuchOverload.into())
        })
    }
}

/// What stands before the dot, where that is no variable: `sets` in `sets.contains(a, b)`.
fn namespace<'c>(call: &'c CallExpr, variables: &Variables<'_>) -> Option<&'c str> {
    match &call.target.as_deref()?.expr {
        Expr::Ident(name) if variables.find(name).is_none() => {
            let qualified = format!("{name}.{}", call.func_name);
            lists(FUNCTIONS, &qualified).then_some(name.as_str())
        }
        _ => None,
    }
}

/// How many characters, bytes, items or keys there are.
fn size(value: &Cel) -> Result<i64, ExecutionError> {
    let count = match value {
        Cel::String(text) => text.chars().count(),
        Cel::Bytes(bytes) => bytes.len(),
        Cel::List(items) => items.len(),
        Cel::Map(map) => map.map.len(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(i64::try_from(count).unwrap_or(i64::MAX))
}
