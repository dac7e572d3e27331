//! Conditions on a fixed set of variables: `value < 0.01`, `status == 200 && body.contains('ok')`.
//!
//! A condition has no loops, refers to the given variables only, and is compiled once: the same text gives
//! the same compiled condition until it is evicted. Evaluating it is bounded by a [`Budget`] and may still
//! take milliseconds: call it where blocking is allowed.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{ExecutionError, Program, Value as Cel};
use parking_lot::Mutex;
use serde_json::Value;

use crate::functions::{FUNCTIONS, lists};
use crate::{Budget, EvaluationError, Variables, evaluate, parse};

/// How many compiled conditions, and errors of invalid ones, are kept.
const CACHED: usize = 4096;

/// The value of a variable.
#[derive(Clone, Debug)]
pub enum Variable {
    /// A number that may be infinite or not a number.
    Number(f64),
    /// JSON.
    Json(Value),
    /// A list of numbers.
    Numbers(Vec<f64>),
}

/// A condition that is ready to be evaluated.
#[derive(Debug)]
pub struct Condition {
    program: Program,
}

/// Why a condition has no result.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConditionError {
    /// It refers to a variable that has no value this time.
    #[error("`{0}` has no value")]
    NoValue(String),
    /// It takes too long.
    #[error("the expression costs too much to evaluate")]
    TooExpensive,
    /// Its result is something else than true or false.
    #[error("the expression is neither true nor false")]
    NotBoolean,
    /// It failed.
    #[error("the expression failed: {0}")]
    Failed(&'static str),
}

type Compiled = Result<Arc<Condition>, String>;

/// The text of a condition, and its variables.
type ConditionKey = (String, &'static [&'static str]);

static COMPILED: LazyLock<Mutex<HashMap<ConditionKey, Compiled>>> = LazyLock::new(Mutex::default);

impl Condition {
    /// Compiles a condition on these variables; the error is a sentence for whoever wrote it.
    pub fn compile(text: &str, variables: &'static [&'static str]) -> Compiled {
        let key = (text.to_owned(), variables);
        if let Some(compiled) = COMPILED.lock().get(&key) {
            return compiled.clone();
        }
        let compiled = parse(text).and_then(|program| {
            check(program.expression(), variables)?;
            match is_boolean(program.expression()) {
                true => Ok(Arc::new(Self { program })),
                false => Err("the expression must be true or false".to_owned()),
            }
        });
        let mut cache = COMPILED.lock();
        if cache.len() >= CACHED {
            cache.clear();
        }
        cache.insert(key, compiled.clone());
        compiled
    }

    /// Whether it holds for these values.
    pub fn holds(&self, values: &[(&str, Variable)]) -> Result<bool, ConditionError> {
        let values: Vec<(&str, Cel)> = values
            .iter()
            .map(|(name, value)| (*name, value.to_cel()))
            .collect();
        let result = with_variables(&values, None, &mut |variables| {
            evaluate(self.program.expression(), variables, &mut Budget::new())
        });
        match result {
            Ok(Cel::Bool(holds)) => Ok(holds),
            Ok(_) => Err(ConditionError::NotBoolean),
            Err(EvaluationError::Spent) => Err(ConditionError::TooExpensive),
            Err(EvaluationError::Failed(ExecutionError::UndeclaredReference(name))) => {
                Err(ConditionError::NoValue(name.to_string()))
            }
            Err(EvaluationError::Failed(error)) => Err(ConditionError::Failed(describe(&error))),
        }
    }
}

/// Calls `then` with all variables in scope.
fn with_variables(
    values: &[(&str, Cel)],
    outer: Option<&Variables<'_>>,
    then: &mut dyn FnMut(&Variables<'_>) -> Result<Cel, EvaluationError>,
) -> Result<Cel, EvaluationError> {
    let nothing = Variables {
        name: "",
        value: &Cel::Null,
        outer: None,
    };
    match values.split_first() {
        None => then(outer.unwrap_or(&nothing)),
        Some(((name, value), rest)) => {
            let inner = Variables { name, value, outer };
            with_variables(rest, Some(&inner), then)
        }
    }
}

/// What failed. Never contains a value, which may be part of an answer that is not shown.
fn describe(error: &ExecutionError) -> &'static str {
    match error {
        ExecutionError::NoSuchKey(_) => "no such key",
        ExecutionError::IndexOutOfBounds(_) => "index out of bounds",
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "division by zero"
        }
        ExecutionError::Overflow(..) => "integer overflow",
        ExecutionError::FunctionError { .. } => "a function refused its arguments",
        _ => "an operator or function does not take values of these types",
    }
}

/// Finds variables and functions that do not exist, and loops.
fn check(expression: &IdedExpr, variables: &[&str]) -> Result<(), String> {
    let all = |expressions: &[IdedExpr]| expressions.iter().try_for_each(|it| check(it, variables));
    match &expression.expr {
        Expr::Unspecified | Expr::Literal(_) => Ok(()),
        Expr::Ident(name) if variables.contains(&name.as_str()) => Ok(()),
        Expr::Ident(name) => Err(format!(
            "there is no variable `{name}`; use {}",
            variables.join(", ")
        )),
        Expr::Select(select) => check(&select.operand, variables),
        Expr::Call(call) => check_call(call, variables),
        Expr::List(list) => all(&list.elements),
        Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => {
                check(&entry.key, variables)?;
                check(&entry.value, variables)
            }
            EntryExpr::StructField(field) => check(&field.value, variables),
        }),
        Expr::Struct(_) => Err("messages are not supported".to_owned()),
        Expr::Comprehension(_) => {
            Err("all, exists, exists_one, map and filter are not allowed".to_owned())
        }
    }
}

fn check_call(call: &CallExpr, variables: &[&str]) -> Result<(), String> {
    let mut name = call.func_name.clone();
    match call.target.as_deref().map(|target| (&target.expr, target)) {
        Some((Expr::Ident(space), _)) if !variables.contains(&space.as_str()) => {
            name = format!("{space}.{name}");
        }
        Some((_, target)) => check(target, variables)?,
        None => {}
    }
    let is_operator = name.starts_with(['_', '!', '-', '@']);
    if !is_operator && !lists(FUNCTIONS, &name) {
        return Err(format!("there is no function `{name}`"));
    }
    call.args.iter().try_for_each(|it| check(it, variables))
}

/// Whether the result can be true or false, as far as that shows.
fn is_boolean(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Literal(literal) => matches!(literal, LiteralValue::Boolean(_)),
        Expr::List(_) | Expr::Map(_) => false,
        Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
            ("_+_" | "_-_" | "_*_" | "_/_" | "_%_" | "-_" | "size", _) => false,
            ("_?_:_", [_, yes, no]) => is_boolean(yes) && is_boolean(no),
            _ => true,
        },
        _ => true,
    }
}

impl Variable {
    fn to_cel(&self) -> Cel {
        match self {
            Self::Number(number) => Cel::Float(*number),
            Self::Numbers(numbers) => {
                Cel::List(Arc::new(numbers.iter().map(|it| Cel::Float(*it)).collect()))
            }
            Self::Json(value) => json_to_cel(value),
        }
    }
}

fn json_to_cel(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Cel::Int(number),
            None => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(json_to_cel).collect())),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                (Key::String(Arc::new(name.clone())), json_to_cel(value))
            };
            Cel::Map(Map {
                map: Arc::new(fields.iter().map(field).collect()),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const VARIABLES: &[&str] = &["value", "values", "status", "body", "json", "headers"];

    fn holds(text: &str) -> Result<bool, ConditionError> {
        let condition = Condition::compile(text, VARIABLES).expect(text);
        condition.holds(&[
            ("value", Variable::Number(0.5)),
            ("values", Variable::Numbers(vec![0.5, f64::NAN])),
            ("status", Variable::Json(json!(200))),
            ("body", Variable::Json(json!("all ok"))),
            (
                "json",
                Variable::Json(json!({"items": [{"ready": true}], "n": 3})),
            ),
            (
                "headers",
                Variable::Json(json!({"content-type": "text/plain"})),
            ),
        ])
    }

    #[test]
    fn conditions_read_all_variables() {
        for text in [
            "value < 1.0",
            "value < 1",
            "value > 0.0 && value < 0.51",
            "size(values) == 2 && values[0] == 0.5",
            "!(values[1] < 1.0) && !(values[1] >= 1.0)",
            "status == 200 && body.contains('ok')",
            "status in [200, 204]",
            "json.items[0].ready && json.n >= 3",
            "has(json.items) && !has(json.missing)",
            "headers['content-type'].startsWith('text/')",
            "body.matches('^all .k$')",
        ] {
            assert_eq!(holds(text), Ok(true), "{text}");
        }
        assert_eq!(holds("value > 1.0"), Ok(false));
    }

    #[test]
    fn errors_name_no_values() {
        for (text, expected) in [
            ("json.secret == 1", ConditionError::Failed("no such key")),
            (
                "json.items[7].ready",
                ConditionError::Failed("index out of bounds"),
            ),
            ("json.n", ConditionError::NotBoolean),
            (
                "status / 0 == 1",
                ConditionError::Failed("division by zero"),
            ),
            (
                "body < 3",
                ConditionError::Failed(
                    "an operator or function does not take values of these types",
                ),
            ),
        ] {
            assert_eq!(holds(text), Err(expected), "{text}");
        }
        let condition = Condition::compile("value < 1.0", VARIABLES).expect("a condition");
        let no_value = condition.holds(&[("values", Variable::Numbers(vec![]))]);
        assert_eq!(no_value, Err(ConditionError::NoValue("value".to_owned())));
        let either = Condition::compile("size(values) == 0 || value < 1.0", VARIABLES);
        let holds = either
            .expect("a condition")
            .holds(&[("values", Variable::Numbers(vec![]))]);
        assert_eq!(holds, Ok(true));
    }

    #[test]
    fn what_is_no_condition_is_refused_with_a_sentence() {
        for (text, expected) in [
            (
                "valu < 1",
                "there is no variable `valu`; use value, values, status",
            ),
            (
                "values.all(v, v < 1.0)",
                "all, exists, exists_one, map and filter",
            ),
            (
                "values.map(v, v).size() > 0",
                "all, exists, exists_one, map and filter",
            ),
            (
                "json.exists(k, k == 'a')",
                "all, exists, exists_one, map and filter",
            ),
            ("fetch('http://a')", "there is no function `fetch`"),
            ("env.get('HOME') == ''", "there is no function `env.get`"),
            ("value + 1.0", "must be true or false"),
            ("'ok'", "must be true or false"),
            ("value <", "ERROR"),
            ("", ""),
        ] {
            let error = Condition::compile(text, VARIABLES).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    /// Each would take minutes or gigabytes without the limits.
    #[test]
    fn hostile_conditions_are_refused_or_stopped() {
        let refused = [
            "!![".repeat(27),
            "a(".repeat(33),
            "1+".repeat(2049),
            format!("{}value < 1.0{}", "(".repeat(40), ")".repeat(40)),
            format!("value < 1.0{}", " && value < 1.0".repeat(400)),
        ];
        for text in refused {
            assert!(Condition::compile(&text, VARIABLES).is_err(), "{text}");
        }
        let long = json!("a".repeat(1 << 20));
        for text in [
            "body.matches('(a*)*(a*)*(a*)*(a*)*(a*)*(a*)*(a*)*(a*)*(a*)*$')",
            "body.replace('a', body).size() > 0",
            "body.split('').size() > 0 && body.matches('[a-z]{1,500}b')",
            "lists.range(1000000000).size() > 0",
            "'%.1000000000f'.format([1.0]) == ''",
            "(body + body + body + body + body + body + body + body).contains('b')",
        ] {
            let condition = Condition::compile(text, VARIABLES).expect(text);
            let result = condition.holds(&[("body", Variable::Json(long.clone()))]);
            assert!(result.is_err(), "{text}: {result:?}");
        }
    }

    #[test]
    fn a_text_is_compiled_once() {
        let first = Condition::compile("value < 0.125", VARIABLES).expect("a condition");
        let second = Condition::compile("value < 0.125", VARIABLES).expect("a condition");
        assert!(Arc::ptr_eq(&first, &second));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_text_panics(text in "[a-z0-9.()\\[\\]!<>=&|'\" +-]{0,60}") {
            if let Ok(condition) = Condition::compile(&text, VARIABLES) {
                let _ = condition.holds(&[("value", Variable::Number(1.0))]);
            }
        }
    }
}
