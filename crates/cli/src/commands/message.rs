//! Messages on stderr: notes, results for people, and errors. Lines are as wide as the terminal at most.

use std::io::Write;

use super::{line_wrapper::LineWrapper, terminal};

/// Writes a message. It is lost if stderr is closed: a note must not make a command fail.
pub(crate) fn print_message(text: &str) {
    let mut stderr = anstream::stderr();
    let mut out = LineWrapper::with_width(&mut stderr, terminal::message_width());
    drop(writeln!(out, "{text}"));
}
