//! Compiling and running single rules.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use kube_cel::KubeCelExt;
use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, Program, Value as Cel};

use super::super::node::Node;
use super::bounds;
use super::check::{self, Checker, Fault, Kind};

/// A rule ready to run.
#[derive(Debug)]
pub(super) struct Compiled {
    rule: Program,
    message: Option<Program>,
    pub(super) uses_old_self: bool,
}

/// Why a rule is refused, and which of its two expressions is at fault.
pub(super) enum Refused {
    Rule(String),
    Message(String),
}

/// What a rule is about.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) node: &'a Node,
    /// Whether that is a whole resource, with kind and metadata.
    pub(super) is_resource: bool,
    /// Whether `oldSelf` is an optional value.
    pub(super) optional: bool,
}

/// What a rule can see.
pub(super) struct Scope<'a> {
    pub(super) current: &'a Cel,
    pub(super) previous: Option<&'a Cel>,
    /// Whether `oldSelf` is an optional value instead of the value itself.
    pub(super) optional: bool,
}

impl Compiled {
    pub(super) fn new(rule: &str, message: &str, subject: Subject<'_>) -> Result<Self, Refused> {
        let (rule, kind) = parse(rule, subject)
            .map_err(|detail| Refused::Rule(format!("compilation failed: {detail}")))?;
        if !kind.may_be("bool") {
            return Err(Refused::Rule(
                "cel expression must evaluate to a bool".to_owned(),
            ));
        }
        let message = match message.trim() {
            "" => None,
            text => Some(parse_message(text, subject).map_err(Refused::Message)?),
        };
        let uses_old_self = rule.references().has_variable("oldSelf");
        Ok(Self {
            rule,
            message,
            uses_old_self,
        })
    }

    pub(super) fn run(&self, scope: &Scope<'_>) -> Result<bool, Problem> {
        CONTEXT.with(|context| {
            let mut context = context.new_inner_scope();
            context.add_variable_from_value("self", scope.current.clone());
            let previous = match (scope.optional, scope.previous) {
                (true, Some(value)) => {
                    Some(Cel::Opaque(Arc::new(OptionalValue::of(value.clone()))))
                }
                (true, None) => Some(Cel::Opaque(Arc::new(OptionalValue::none()))),
                (false, value) => value.cloned(),
            };
            if let Some(previous) = previous {
                context.add_variable_from_value("oldSelf", previous);
            }
            match self.rule.execute(&context) {
                Ok(Cel::Bool(holds)) => Ok(holds),
                Ok(_) => Err(Problem::NotBoolean),
                Err(error) => Err(Problem::Failed(error)),
            }
        })
    }

    /// What the message expression says, when it says something usable.
    pub(super) fn message(&self, scope: &Scope<'_>) -> Option<String> {
        let program = self.message.as_ref()?;
        let text = CONTEXT.with(|context| {
            let mut context = context.new_inner_scope();
            context.add_variable_from_value("self", scope.current.clone());
            if let Some(previous) = scope.previous {
                context.add_variable_from_value("oldSelf", previous.clone());
            }
            match program.execute(&context) {
                Ok(Cel::String(text)) => Some(text.trim().to_owned()),
                _ => None,
            }
        })?;
        let usable = !text.is_empty() && !text.contains('\n') && text.len() <= 5 * 1024;
        usable.then_some(text)
    }
}

thread_local! {
    static CONTEXT: Context<'static> = {
        let mut context = Context::default();
        context.register_all();
        // The library counts bytes.
        context.add_function("size", size);
        context.add_function("dyn", |value: Cel| -> Result<Cel, ExecutionError> { Ok(value) });
        context
    };
}

/// How many characters, bytes, items or keys there are; a method and a function.
fn size(This(value): This<Cel>) -> Result<i64, ExecutionError> {
    let count = match &value {
        Cel::String(text) => text.chars().count(),
        Cel::Bytes(bytes) => bytes.len(),
        Cel::List(items) => items.len(),
        Cel::Map(map) => map.map.len(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Why a rule gave no answer.
pub(super) enum Problem {
    NotBoolean,
    Failed(ExecutionError),
}

impl Problem {
    /// The problem of the rule called `rule`, in the words of the real server.
    pub(super) fn told(&self, rule: &str) -> String {
        let cause = match self {
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

fn parse_message(text: &str, subject: Subject<'_>) -> Result<Program, String> {
    let (program, kind) = parse(text, subject)
        .map_err(|detail| format!("messageExpression compilation failed: {detail}"))?;
    match kind.may_be("string") {
        true => Ok(program),
        false => Err("messageExpression must evaluate to a string".to_owned()),
    }
}

fn parse<'a>(text: &str, subject: Subject<'a>) -> Result<(Program, Kind<'a>), String> {
    if let Some(problem) = bounds::problem(text) {
        return Err(problem);
    }
    let program = compile(text)?;
    let old_self = match subject.optional {
        true => Kind::Unknown,
        false => Kind::Described(subject.node),
    };
    let mut checker = Checker::new(subject.node, subject.is_resource, old_self);
    let kind = checker.visit(program.expression());
    match checker.fault {
        Some(fault) => Err(located(text, &fault)),
        None => Ok((program, kind)),
    }
}

/// A fault with its place in the text, drawn the way CEL draws it.
fn located(text: &str, fault: &Fault) -> String {
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

/// Parses on a thread of its own: the parser recurses deeply, and on some texts it
/// would not come back in this life.
fn compile(text: &str) -> Result<Program, String> {
    const STACK: usize = 128 << 20;
    const PATIENCE: Duration = Duration::from_secs(5);
    let (sender, receiver) = mpsc::channel();
    let text = text.to_owned();
    let parse = move || {
        let parsed =
            Program::compile(&text).map_err(|errors| errors.to_string().replace("\n|", "\n |"));
        // Too deep an expression must also be dropped on this stack.
        let checked = parsed.and_then(|program| match check::is_too_deep(program.expression()) {
            true => Err("expression has too many levels".to_owned()),
            false => Ok(program),
        });
        // Nobody listens any more when this took too long.
        let _ = sender.send(checked);
    };
    let builder = std::thread::Builder::new()
        .name("cel-parser".to_owned())
        .stack_size(STACK);
    builder
        .spawn(parse)
        .map_err(|error| format!("no thread to parse on: {error}"))?;
    receiver
        .recv_timeout(PATIENCE)
        .map_err(|error| match error {
            mpsc::RecvTimeoutError::Timeout => "expression takes too long to parse".to_owned(),
            mpsc::RecvTimeoutError::Disconnected => "expression cannot be parsed".to_owned(),
        })?
}
