//! Finds the expressions of a source file that a switch needs as a whole: operands, match arms, struct fields.
//!
//! The list of mutations has only the position of an operator or the start of an arm or a field. Everything
//! here is keyed by that position, in bytes from the start of the file.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, Pat};

/// An expression with an operator between two operands.
pub(super) struct Binary {
    pub(super) left: Range<usize>,
    pub(super) operator: Range<usize>,
    pub(super) right: Range<usize>,
    /// An operand of a let chain cannot be moved into parentheses.
    pub(super) is_let_chain: bool,
}

/// An expression with an operator before its operand.
pub(super) struct Unary {
    pub(super) whole: Range<usize>,
    pub(super) operand: Range<usize>,
}

/// An arm of a `match`.
pub(super) struct Arm {
    /// Where its `=>` starts.
    pub(super) arrow: usize,
    pub(super) guard: Option<Range<usize>>,
}

/// A field of a struct expression that has a base (`..base`).
pub(super) struct Field {
    pub(super) name: Range<usize>,
    pub(super) value: Range<usize>,
    pub(super) base: Range<usize>,
}

/// The expressions of a file.
#[derive(Default)]
pub(super) struct Places {
    /// By the start of the operator.
    pub(super) binary: BTreeMap<usize, Binary>,
    /// By the start of the operator.
    pub(super) unary: BTreeMap<usize, Unary>,
    /// By the start of the arm.
    pub(super) arms: BTreeMap<usize, Arm>,
    /// By the start of the field.
    pub(super) fields: BTreeMap<usize, Field>,
}

impl Places {
    pub(super) fn of(source: &str) -> Result<Self> {
        let file = syn::parse_file(source).context("parsing a source file")?;
        let mut places = Self::default();
        places.visit_file(&file);
        Ok(places)
    }
}

impl<'ast> Visit<'ast> for Places {
    fn visit_expr_binary(&mut self, node: &'ast syn::ExprBinary) {
        let binary = Binary {
            left: range(&node.left),
            operator: range(&node.op),
            right: range(&node.right),
            is_let_chain: is_let(&node.left) || is_let(&node.right),
        };
        self.binary.insert(binary.operator.start, binary);
        visit::visit_expr_binary(self, node);
    }

    fn visit_expr_unary(&mut self, node: &'ast syn::ExprUnary) {
        let unary = Unary {
            whole: range(node),
            operand: range(&node.expr),
        };
        self.unary.insert(range(&node.op).start, unary);
        visit::visit_expr_unary(self, node);
    }

    fn visit_arm(&mut self, node: &'ast syn::Arm) {
        let guard = match &node.pat {
            Pat::Guard(with_guard) => Some(range(&with_guard.guard)),
            _ => None,
        };
        let arrow = range(&node.fat_arrow_token).start;
        self.arms.insert(range(node).start, Arm { arrow, guard });
        visit::visit_arm(self, node);
    }

    fn visit_expr_struct(&mut self, node: &'ast syn::ExprStruct) {
        for field in node.rest.iter().flat_map(|_| &node.fields) {
            let place = Field {
                name: range(&field.member),
                value: range(&field.expr),
                base: range(&node.rest),
            };
            self.fields.insert(range(field).start, place);
        }
        visit::visit_expr_struct(self, node);
    }
}

fn range(node: &impl Spanned) -> Range<usize> {
    node.span().byte_range()
}

/// Whether a `let` condition is part of it.
fn is_let(node: &Expr) -> bool {
    match node {
        Expr::Let(_) => true,
        Expr::Binary(node) => is_let(&node.left) || is_let(&node.right),
        _ => false,
    }
}
