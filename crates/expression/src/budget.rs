//! Limits the cost of evaluating rules.
//!
//! It counts as kube-apiserver does: about one unit for each step, a tenth of it for each byte or item
//! that a step has to look at. The limits are also the same: a million units for one expression, ten
//! million for all rules of one object. Here everything is in tenths.

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};
use kube_cel::cel::{ExecutionError, Value as Cel};

use crate::functions::{CHEAP, lists};

/// One step of an evaluation.
pub(crate) const STEP: u64 = 10;
/// One item of a list or a map that is copied or compared.
const ITEM: u64 = 5;
/// Compiling a regular expression.
pub(crate) const PATTERN: u64 = 10_000 * STEP;
const EXPRESSION_LIMIT: u64 = 1_000_000 * STEP;
const OBJECT_LIMIT: u64 = 10_000_000 * STEP;
/// More digits after the point than `format` can write.
const MOST_DIGITS: usize = 3;

/// Why an expression has no value.
#[derive(Debug)]
pub enum EvaluationError {
    /// The expression itself failed.
    Failed(ExecutionError),
    /// It costs more than is left.
    Spent,
}

impl From<ExecutionError> for EvaluationError {
    fn from(error: ExecutionError) -> Self {
        Self::Failed(error)
    }
}

/// The remaining budget.
#[derive(Debug)]
pub struct Budget {
    object: u64,
    expression: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new()
    }
}

impl Budget {
    /// The budget for all rules of one object.
    pub fn new() -> Self {
        Self {
            object: OBJECT_LIMIT,
            expression: EXPRESSION_LIMIT,
        }
    }

    /// Starts the next expression.
    pub fn next_expression(&mut self) {
        self.expression = EXPRESSION_LIMIT;
    }

    /// Whether the budget of the object is used up.
    pub fn is_spent(&self) -> bool {
        self.object == 0
    }

    /// Charges for a step; fails if that is more than is left.
    pub fn charge(&mut self, cost: u64) -> Result<(), EvaluationError> {
        // An expression that exceeds its limit is not evaluated and costs no more than the limit.
        let cost = cost.min(self.expression);
        self.object = self.object.saturating_sub(cost);
        self.expression = self.expression.saturating_sub(cost);
        match self.object == 0 || self.expression == 0 {
            true => Err(EvaluationError::Spent),
            false => Ok(()),
        }
    }

    /// Charges for reading a whole value; returns the cost.
    pub(crate) fn charge_for(&mut self, value: &Cel) -> Result<u64, EvaluationError> {
        let mut cost = own_cost(value);
        self.charge(cost)?;
        match value {
            Cel::List(items) => {
                for item in items.iter() {
                    cost += self.charge_for(item)?;
                }
            }
            Cel::Map(map) => {
                for item in map.map.values() {
                    cost += self.charge_for(item)?;
                }
            }
            _ => {}
        }
        Ok(cost)
    }

    /// Charges for combining two values.
    pub(crate) fn charge_for_sum(
        &mut self,
        left: &Cel,
        right: &Cel,
    ) -> Result<(), EvaluationError> {
        self.charge(own_cost(left).saturating_add(own_cost(right)))
    }

    /// Charges for comparing two values, which ends with the smaller one.
    pub(crate) fn charge_for_comparison(
        &mut self,
        left: &Cel,
        right: &Cel,
    ) -> Result<(), EvaluationError> {
        let smaller = if length(left) < length(right) {
            left
        } else {
            right
        };
        self.charge_for(smaller).map(drop)
    }

    /// Charges for a function call before it runs: the result can be much larger than the arguments.
    pub(crate) fn charge_for_call(
        &mut self,
        name: &str,
        arguments: &[Cel],
    ) -> Result<(), EvaluationError> {
        let mut size = 0_u64;
        for argument in arguments {
            size += self.charge_for(argument)?;
        }
        let length = |index: usize| arguments.get(index).map_or(0, length);
        let number = |index: usize| match arguments.get(index) {
            Some(Cel::Int(number)) => u64::try_from(*number).unwrap_or(0),
            _ => 0,
        };
        let more = match name {
            "replace" => (length(0) / length(1).max(1) + 1).saturating_mul(length(2)),
            "join" | "indexOf" | "lastIndexOf" => length(0).saturating_mul(length(1)),
            "distinct" | "sum" => size.saturating_mul(length(0)),
            name if name.starts_with("sets.") => size.saturating_mul(length(1)),
            "lists.range" => number(0).saturating_mul(ITEM),
            "sort" => size.saturating_mul(8),
            "findAll" => PATTERN.saturating_add(length(0)),
            "format" => return check_format(arguments),
            _ => 0,
        };
        self.charge(more)
    }
}

/// The cost of reading a value without its items.
fn own_cost(value: &Cel) -> u64 {
    match value {
        Cel::List(_) | Cel::Map(_) => length(value).saturating_mul(ITEM),
        other => length(other),
    }
}

/// The number of bytes or items of a value, without what is in the items.
pub(crate) fn length(value: &Cel) -> u64 {
    let length = match value {
        Cel::String(text) => text.len(),
        Cel::Bytes(bytes) => bytes.len(),
        Cel::List(items) => items.len(),
        Cel::Map(map) => map.map.len(),
        _ => 0,
    };
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// A number with a million digits after the point would be a million bytes long.
fn check_format(arguments: &[Cel]) -> Result<(), EvaluationError> {
    let Some(Cel::String(text)) = arguments.first() else {
        return Ok(());
    };
    let digits = |part: &str| part.chars().take_while(char::is_ascii_digit).count();
    match text
        .split("%.")
        .skip(1)
        .any(|part| digits(part) > MOST_DIGITS)
    {
        true => Err(ExecutionError::function_error("format", "the precision is too large").into()),
        false => Ok(()),
    }
}

/// Whether evaluating an expression can take long.
pub fn is_costly(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) => false,
        Expr::Comprehension(_) => true,
        Expr::Select(select) => is_costly(&select.operand),
        Expr::List(list) => list.elements.iter().any(is_costly),
        Expr::Map(map) => map.entries.iter().any(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => is_costly(&entry.key) || is_costly(&entry.value),
            EntryExpr::StructField(field) => is_costly(&field.value),
        }),
        Expr::Call(call) => {
            let is_operator = call.func_name.starts_with(['_', '!', '-', '@']);
            let is_cheap = is_operator || lists(CHEAP, &call.func_name);
            !is_cheap
                || call.target.as_deref().is_some_and(is_costly)
                || call.args.iter().any(is_costly)
        }
    }
}
