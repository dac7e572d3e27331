//! CEL expressions that others wrote: CRD rules of the embedded API and `passExpr` of checks.
//!
//! Parsing is bounded in length, nesting and time, evaluation by a [`Budget`] that counts as
//! kube-apiserver does. No I/O, no clock, no schema: what an expression may refer to is decided by
//! whoever compiles it.
#![warn(missing_docs)]

mod bounds;
mod budget;
pub mod condition;
pub mod functions;
mod interpreter;
mod parse;

pub use budget::{Budget, EvaluationError, is_costly};
pub use condition::{Condition, ConditionError};
pub use interpreter::{Variables, evaluate};
pub use parse::parse;
