//! Parses expressions within limits of length, nesting and time.

use std::sync::mpsc;
use std::time::Duration;

use kube_cel::cel::Program;
use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};

use crate::bounds;

/// Deeper expressions could overflow the stack when they are evaluated.
const DEEPEST: usize = 48;

/// Parses an expression; the error is a sentence for whoever wrote it.
pub fn parse(text: &str) -> Result<Program, String> {
    match bounds::problem(text) {
        Some(problem) => Err(problem),
        None => parse_bounded(text),
    }
}

/// Parses on a thread of its own: the parser recurses deeply, and on some texts it does not end.
fn parse_bounded(text: &str) -> Result<Program, String> {
    const STACK: usize = 128 << 20;
    const PATIENCE: Duration = Duration::from_secs(5);
    let (sender, receiver) = mpsc::channel();
    let text = text.to_owned();
    let parse = move || {
        let parsed =
            Program::compile(&text).map_err(|errors| errors.to_string().replace("\n|", "\n |"));
        // Too deep an expression must also be dropped on this stack.
        let checked =
            parsed.and_then(
                |program| match depth_exceeds(program.expression(), DEEPEST) {
                    true => Err("expression has too many levels".to_owned()),
                    false => Ok(program),
                },
            );
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

/// Whether an expression has more than `limit` levels; goes no deeper than that itself.
fn depth_exceeds(expression: &IdedExpr, limit: usize) -> bool {
    let Some(limit) = limit.checked_sub(1) else {
        return true;
    };
    let deep = |expression: &IdedExpr| depth_exceeds(expression, limit);
    match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => false,
        Expr::Select(select) => deep(&select.operand),
        Expr::Call(call) => call.target.as_deref().is_some_and(deep) || call.args.iter().any(deep),
        Expr::List(list) => list.elements.iter().any(deep),
        Expr::Map(map) => map.entries.iter().any(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => deep(&entry.key) || deep(&entry.value),
            EntryExpr::StructField(field) => deep(&field.value),
        }),
        Expr::Struct(_) => false,
        Expr::Comprehension(inner) => {
            let parts = [&inner.iter_range, &inner.accu_init, &inner.loop_cond];
            parts
                .into_iter()
                .chain([&inner.loop_step, &inner.result])
                .any(deep)
        }
    }
}
