//! Compiles and runs single rules.

use std::sync::Arc;

use expression::{Budget, EvaluationError, Variables};
use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{ExecutionError, Program, Value as Cel};

use super::super::node::SchemaNode;
use super::check::{CheckError, Checker, ExpressionType};

/// A rule ready to run.
#[derive(Debug)]
pub(super) struct CompiledRule {
    rule: Program,
    message: Option<Program>,
    pub(super) uses_old_self: bool,
}

/// Why a rule does not compile, by the expression that is invalid.
pub(super) enum CompileError {
    ValidationRule(String),
    Message(String),
}

/// What a rule validates.
#[derive(Clone, Copy)]
pub(super) struct RuleSubject<'a> {
    pub(super) node: &'a SchemaNode,
    /// Whether that is a whole resource, with kind and metadata.
    pub(super) is_resource: bool,
    /// Whether `oldSelf` is an optional value.
    pub(super) optional: bool,
}

/// The values that a rule can read.
pub(super) struct RuleInput<'a> {
    pub(super) current: &'a Cel,
    pub(super) previous: Option<&'a Cel>,
    /// Whether `oldSelf` is an optional value instead of the value itself.
    pub(super) optional: bool,
}

impl CompiledRule {
    pub(super) fn new(
        rule: &str,
        message: &str,
        subject: RuleSubject<'_>,
    ) -> Result<Self, CompileError> {
        let (rule, kind) = parse(rule, subject).map_err(|detail| {
            CompileError::ValidationRule(format!("compilation failed: {detail}"))
        })?;
        if !kind.may_be("bool") {
            return Err(CompileError::ValidationRule(
                "cel expression must evaluate to a bool".to_owned(),
            ));
        }
        let message = match message.trim() {
            "" => None,
            text => Some(parse_message(text, subject).map_err(CompileError::Message)?),
        };
        let uses_old_self = rule.references().has_variable("oldSelf");
        Ok(Self {
            rule,
            message,
            uses_old_self,
        })
    }

    /// Whether it can take long: it has loops or calls functions with large results.
    pub(super) fn is_costly(&self) -> bool {
        let mut programs = [Some(&self.rule), self.message.as_ref()].into_iter();
        programs.any(|it| it.is_some_and(|it| expression::is_costly(it.expression())))
    }

    pub(super) fn run(
        &self,
        input: &RuleInput<'_>,
        budget: &mut Budget,
    ) -> Result<bool, RuleError> {
        match input.evaluate(&self.rule, budget) {
            Ok(Cel::Bool(holds)) => Ok(holds),
            Ok(_) => Err(RuleError::NotBoolean),
            Err(EvaluationError::Failed(error)) => Err(RuleError::Failed(error)),
            Err(EvaluationError::Spent) => Err(RuleError::Spent),
        }
    }

    /// The value of the message expression, if it is a valid message.
    pub(super) fn message(&self, input: &RuleInput<'_>, budget: &mut Budget) -> Option<String> {
        let Ok(Cel::String(text)) = input.evaluate(self.message.as_ref()?, budget) else {
            return None;
        };
        let text = text.trim();
        let usable = !text.is_empty() && !text.contains('\n') && text.len() <= 5 * 1024;
        usable.then(|| text.to_owned())
    }
}

impl RuleInput<'_> {
    fn evaluate(&self, program: &Program, budget: &mut Budget) -> Result<Cel, EvaluationError> {
        budget.next_expression();
        let previous = match (self.optional, self.previous) {
            (true, Some(value)) => Some(Cel::Opaque(Arc::new(OptionalValue::of(value.clone())))),
            (true, None) => Some(Cel::Opaque(Arc::new(OptionalValue::none()))),
            (false, value) => value.cloned(),
        };
        let previous = previous.as_ref().map(|value| Variables {
            name: "oldSelf",
            value,
            outer: None,
        });
        let variables = Variables {
            name: "self",
            value: self.current,
            outer: previous.as_ref(),
        };
        expression::evaluate(program.expression(), &variables, budget)
    }
}

/// Why a rule has no result.
pub(super) enum RuleError {
    NotBoolean,
    Failed(ExecutionError),
    /// It exceeds the cost limit.
    Spent,
}

impl RuleError {
    /// The message of kube-apiserver for the rule named `rule`.
    pub(super) fn message(&self, rule: &str) -> String {
        let cause = match self {
            Self::Spent => {
                return format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation \
                     rules will be run due to call cost exceeds limit for rule: {rule}"
                );
            }
            Self::NotBoolean => "no such overload".to_owned(),
            Self::Failed(ExecutionError::NoSuchKey(key)) => format!("no such key: {key}"),
            Self::Failed(ExecutionError::IndexOutOfBounds(Cel::Int(index))) => {
                format!("index out of bounds: {index}")
            }
            Self::Failed(ExecutionError::DivisionByZero(_)) => "division by zero".to_owned(),
            Self::Failed(ExecutionError::RemainderByZero(_)) => "modulus by zero".to_owned(),
            Self::Failed(ExecutionError::Overflow(..)) => "integer overflow".to_owned(),
            Self::Failed(
                ExecutionError::NoSuchOverload
                | ExecutionError::ValuesNotComparable(..)
                | ExecutionError::UnsupportedBinaryOperator(..)
                | ExecutionError::UnsupportedUnaryOperator(..)
                | ExecutionError::UnexpectedType { .. },
            ) => "no such overload".to_owned(),
            Self::Failed(other) => other.to_string(),
        };
        match cause.as_str() {
            "no such overload" => format!(
                "'{cause}': call arguments did not match a supported operator, \
                 function or macro signature for rule: {rule}"
            ),
            _ => format!("{cause} evaluating rule: {rule}"),
        }
    }
}

fn parse_message(text: &str, subject: RuleSubject<'_>) -> Result<Program, String> {
    let (program, kind) = parse(text, subject)
        .map_err(|detail| format!("messageExpression compilation failed: {detail}"))?;
    match kind.may_be("string") {
        true => Ok(program),
        false => Err("messageExpression must evaluate to a string".to_owned()),
    }
}

fn parse<'a>(
    text: &str,
    subject: RuleSubject<'a>,
) -> Result<(Program, ExpressionType<'a>), String> {
    let program = expression::parse(text)?;
    let old_self = match subject.optional {
        true => ExpressionType::Unknown,
        false => ExpressionType::Described(subject.node),
    };
    let mut checker = Checker::new(subject.node, subject.is_resource, old_self);
    let kind = checker.visit(program.expression());
    match checker.fault {
        Some(fault) => Err(located(text, &fault)),
        None => Ok((program, kind)),
    }
}

/// An error with its position in the text, formatted as CEL does.
fn located(text: &str, fault: &CheckError) -> String {
    let offset = text.find(&fault.at).unwrap_or_default();
    let offset = if fault.at.ends_with('(') {
        offset + fault.at.len() - 1
    } else {
        offset
    };
    let before = &text[..offset];
    let line = before.matches('\n').count() + 1;
    let column = before
        .chars()
        .rev()
        .take_while(|character| *character != '\n')
        .count()
        + 1;
    let source = text.lines().nth(line - 1).unwrap_or_default();
    let dots = ".".repeat(column - 1);
    format!(
        "ERROR: <input>:{line}:{column}: {}\n | {source}\n | {dots}^",
        fault.message
    )
}
