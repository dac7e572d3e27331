//! Evaluates CEL expressions within a [`Budget`].
//!
//! The library's own evaluator cannot be stopped and copies lists at every step, so that a short rule
//! over a few hundred items takes minutes. This one walks the same syntax tree, shares values instead
//! of copying them, and charges for every step. The functions are the library's.

mod functions;
mod operations;

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, MapExpr, SelectExpr,
    operators,
};
use kube_cel::cel::objects::{Key, KeyRef};
use kube_cel::cel::{Context, ExecutionError, Value as Cel};

use crate::budget::{Budget, EvaluationError, STEP, length};
use operations::as_optional;

pub(crate) type EvaluationResult = Result<Cel, EvaluationError>;

thread_local! {
    static FUNCTIONS: Context<'static> = {
        let mut context = Context::default();
        context.register_all();
        context.add_function("dyn", |value: Cel| -> Result<Cel, ExecutionError> { Ok(value) });
        context
    };
}

/// Evaluates an expression, at most as far as the budget reaches.
pub fn evaluate(
    expression: &IdedExpr,
    variables: &Variables<'_>,
    budget: &mut Budget,
) -> Result<Cel, EvaluationError> {
    FUNCTIONS.with(|functions| {
        let mut interpreter = Interpreter { functions, budget };
        interpreter.evaluate(expression, variables)
    })
}

/// The variables that an expression sees, innermost first.
pub struct Variables<'v> {
    /// The name of the innermost one.
    pub name: &'v str,
    /// Its value.
    pub value: &'v Cel,
    /// The others.
    pub outer: Option<&'v Variables<'v>>,
}

impl Variables<'_> {
    fn find(&self, name: &str) -> Option<&Cel> {
        let mut variables = Some(self);
        while let Some(variable) = variables {
            if variable.name == name {
                return Some(variable.value);
            }
            variables = variable.outer;
        }
        None
    }
}

pub(crate) struct Interpreter<'i> {
    /// Where the functions are.
    pub(crate) functions: &'i Context<'i>,
    pub(crate) budget: &'i mut Budget,
}

impl Interpreter<'_> {
    pub(crate) fn evaluate(
        &mut self,
        expression: &IdedExpr,
        variables: &Variables<'_>,
    ) -> EvaluationResult {
        self.budget.charge(STEP)?;
        match &expression.expr {
            Expr::Literal(literal) => Ok(Cel::try_from(literal.to_val().as_ref())?),
            Expr::Ident(name) => match variables.find(name) {
                Some(value) => Ok(value.clone()),
                None => Err(ExecutionError::undeclared_reference(name).into()),
            },
            Expr::Select(select) => self.select(select, variables),
            Expr::Call(call) => self.call(call, variables),
            Expr::List(list) => self.list(list, variables),
            Expr::Map(map) => self.map(map, variables),
            Expr::Comprehension(inner) => self.comprehension(inner, variables),
            Expr::Struct(_) | Expr::Unspecified => Err(ExecutionError::NoSuchOverload.into()),
        }
    }

    fn truth(
        &mut self,
        expression: &IdedExpr,
        variables: &Variables<'_>,
    ) -> Result<bool, EvaluationError> {
        match self.evaluate(expression, variables)? {
            Cel::Bool(truth) => Ok(truth),
            _ => Err(ExecutionError::NoSuchOverload.into()),
        }
    }

    fn select(&mut self, select: &SelectExpr, variables: &Variables<'_>) -> EvaluationResult {
        let operand = self.evaluate(&select.operand, variables)?;
        let found = match &operand {
            Cel::Map(map) => map.get(&KeyRef::String(&select.field)),
            _ if select.test => None,
            _ => return Err(ExecutionError::NoSuchOverload.into()),
        };
        match found {
            found if select.test => Ok(Cel::Bool(found.is_some())),
            Some(value) => Ok(value.clone()),
            None => Err(ExecutionError::no_such_key(&select.field).into()),
        }
    }

    fn call(&mut self, call: &CallExpr, variables: &Variables<'_>) -> EvaluationResult {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, yes, no]) => {
                let chosen = if self.truth(condition, variables)? {
                    yes
                } else {
                    no
                };
                self.evaluate(chosen, variables)
            }
            (operators::LOGICAL_AND, [left, right]) => self.logic(false, (left, right), variables),
            (operators::LOGICAL_OR, [left, right]) => self.logic(true, (left, right), variables),
            (operators::LOGICAL_NOT, [operand]) => Ok(Cel::Bool(!self.truth(operand, variables)?)),
            (operators::NOT_STRICTLY_FALSE, [operand]) => match self.truth(operand, variables) {
                Err(EvaluationError::Spent) => Err(EvaluationError::Spent),
                truth => Ok(Cel::Bool(truth.unwrap_or(true))),
            },
            (operators::NEGATE, [operand]) => {
                let value = self.evaluate(operand, variables)?;
                Ok(operations::negated(&value)?)
            }
            (name, [left, right]) if operations::is_binary(name) => {
                let left = self.evaluate(left, variables)?;
                let right = self.evaluate(right, variables)?;
                operations::binary(self.budget, name, left, right)
            }
            _ => self.function(call, variables),
        }
    }

    /// `&&` and `||`, of which `decisive` on one side settles it whatever the other side is.
    fn logic(
        &mut self,
        decisive: bool,
        (left, right): (&IdedExpr, &IdedExpr),
        variables: &Variables<'_>,
    ) -> EvaluationResult {
        let left = match self.truth(left, variables) {
            Err(EvaluationError::Spent) => return Err(EvaluationError::Spent),
            Ok(left) if left == decisive => return Ok(Cel::Bool(decisive)),
            left => left,
        };
        match (left, self.truth(right, variables)?) {
            (Ok(_), right) => Ok(Cel::Bool(right)),
            (Err(_), right) if right == decisive => Ok(Cel::Bool(decisive)),
            (Err(stop), _) => Err(stop),
        }
    }

    fn list(&mut self, list: &ListExpr, variables: &Variables<'_>) -> EvaluationResult {
        let mut items = Vec::with_capacity(list.elements.len());
        for (index, element) in list.elements.iter().enumerate() {
            let value = self.evaluate(element, variables)?;
            match as_optional(&value).filter(|_| list.optional_indices.contains(&index)) {
                Some(inner) => items.extend(inner.cloned()),
                None => items.push(value),
            }
        }
        Ok(Cel::List(items.into()))
    }

    fn map(&mut self, map: &MapExpr, variables: &Variables<'_>) -> EvaluationResult {
        let mut fields = std::collections::HashMap::with_capacity(map.entries.len());
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else {
                return Err(ExecutionError::NoSuchOverload.into());
            };
            let key: Result<Key, Cel> = self.evaluate(&entry.key, variables)?.try_into();
            let key = key.map_err(ExecutionError::unsupported_key_type)?;
            let value = self.evaluate(&entry.value, variables)?;
            match as_optional(&value).filter(|_| entry.optional) {
                Some(inner) => fields.extend(inner.cloned().map(|inner| (key, inner))),
                None => drop(fields.insert(key, value)),
            }
        }
        Ok(fields.into())
    }

    fn comprehension(
        &mut self,
        inner: &ComprehensionExpr,
        variables: &Variables<'_>,
    ) -> EvaluationResult {
        let range = self.evaluate(&inner.iter_range, variables)?;
        self.budget.charge(length(&range))?;
        let items = match range {
            Cel::List(items) => items,
            Cel::Map(map) => map.map.keys().map(Cel::from).collect::<Vec<_>>().into(),
            _ => return Err(ExecutionError::NoSuchOverload.into()),
        };
        if let Some(collected) = CollectLoop::of(inner) {
            return self.collect(inner, &collected, &items, variables);
        }
        let mut result = self.evaluate(&inner.accu_init, variables)?;
        for item in items.iter() {
            let so_far = Variables {
                name: &inner.accu_var,
                value: &result,
                outer: Some(variables),
            };
            if !self.truth(&inner.loop_cond, &so_far)? {
                break;
            }
            let with_item = Variables {
                name: &inner.iter_var,
                value: item,
                outer: Some(&so_far),
            };
            result = self.evaluate(&inner.loop_step, &with_item)?;
        }
        let result = Variables {
            name: &inner.accu_var,
            value: &result,
            outer: Some(variables),
        };
        self.evaluate(&inner.result, &result)
    }

    /// `map` and `filter`, without copying what was collected so far for every item.
    fn collect(
        &mut self,
        inner: &ComprehensionExpr,
        collected: &CollectLoop<'_>,
        items: &[Cel],
        variables: &Variables<'_>,
    ) -> EvaluationResult {
        let mut result = Vec::new();
        for item in items {
            let with_item = Variables {
                name: &inner.iter_var,
                value: item,
                outer: Some(variables),
            };
            let is_wanted = match collected.filter {
                Some(filter) => self.truth(filter, &with_item)?,
                None => true,
            };
            if is_wanted {
                result.push(self.evaluate(collected.element, &with_item)?);
            }
        }
        Ok(Cel::List(result.into()))
    }
}

/// The loop of `map` or `filter`, which appends `element` to a list where `filter` holds.
struct CollectLoop<'c> {
    filter: Option<&'c IdedExpr>,
    element: &'c IdedExpr,
}

impl<'c> CollectLoop<'c> {
    fn of(inner: &'c ComprehensionExpr) -> Option<Self> {
        let is_result =
            |it: &IdedExpr| matches!(&it.expr, Expr::Ident(name) if *name == inner.accu_var);
        let starts_empty =
            matches!(&inner.accu_init.expr, Expr::List(it) if it.elements.is_empty());
        let Expr::Call(compared) = &inner.loop_step.expr else {
            return None;
        };
        let (filter, append) = match (compared.func_name.as_str(), compared.args.as_slice()) {
            (operators::CONDITIONAL, [filter, append, unchanged]) if is_result(unchanged) => {
                let Expr::Call(append) = &append.expr else {
                    return None;
                };
                (Some(filter), append)
            }
            _ => (None, compared),
        };
        let element = match (append.func_name.as_str(), append.args.as_slice()) {
            (operators::ADD, [result, added]) if is_result(result) => match &added.expr {
                Expr::List(list) if list.optional_indices.is_empty() => list.elements.as_slice(),
                _ => return None,
            },
            _ => return None,
        };
        match element {
            [element] if starts_empty && is_result(&inner.result) => Some(Self { filter, element }),
            _ => None,
        }
    }
}
