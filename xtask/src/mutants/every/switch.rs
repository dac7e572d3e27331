//! Writes all mutations of a source file into it, each behind a switch that is read when the code runs.
//!
//! `a == b` becomes `((a == b) != is(7))`: without a selected mutation the file does what it did. The text of
//! a mutation is between the comments `/*<7*/` and `/*>*/`, by which [`mutation_at`] finds the mutation that a
//! compiler error is about.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::Result;

use super::known::{Genre, Mutant};
use super::places::Places;

#[cfg(test)]
mod tests;

/// Text above this length is not repeated for another operator.
const LONGEST: usize = 20_000;

/// A source file with switches.
pub(super) struct Switched {
    pub(super) text: String,
    /// The mutations that are not in the text, and why.
    pub(super) left_out: BTreeMap<usize, &'static str>,
    /// The expressions whose operators are mutated.
    pub(super) expressions: BTreeMap<usize, String>,
}

/// A change of one place of the file.
struct Edit {
    range: Range<usize>,
    change: Change,
}

enum Change {
    /// Mutations that return at the start of a function.
    Function(Vec<(usize, String)>),
    Binary {
        left: Range<usize>,
        operator: Range<usize>,
        right: Range<usize>,
        mutations: Vec<(usize, String)>,
    },
    Unary {
        operand: Range<usize>,
        operator: String,
        id: usize,
    },
    Guard {
        always: Option<usize>,
        never: Option<usize>,
        deleted: Option<usize>,
    },
    /// An arm without guard.
    Arm { id: usize },
    /// The value of a field, which is the one of the base if the field is deleted.
    Field {
        id: usize,
        name: String,
        value: Range<usize>,
        base: Range<usize>,
    },
}

/// Writes mutations into the source; `ids` are their numbers.
pub(super) fn switched<'a>(
    source: &str,
    mutants: impl IntoIterator<Item = (usize, &'a Mutant)>,
) -> Result<Switched> {
    let mut writer = Writer {
        source,
        places: Places::of(source)?,
        edits: BTreeMap::new(),
        left_out: BTreeMap::new(),
        expressions: BTreeMap::new(),
    };
    for (id, mutant) in mutants {
        if let Err(reason) = writer.add(id, mutant) {
            writer.left_out.insert(id, reason);
        }
    }
    let edits: Vec<Edit> = writer.edits.into_values().collect();
    Ok(Switched {
        text: render(source, &edits, 0..source.len()),
        left_out: writer.left_out,
        expressions: writer.expressions,
    })
}

/// Start, end and rank: what contains comes before what is contained.
type Order = (usize, std::cmp::Reverse<usize>, u8);

struct Writer<'a> {
    source: &'a str,
    places: Places,
    edits: BTreeMap<Order, Edit>,
    left_out: BTreeMap<usize, &'static str>,
    expressions: BTreeMap<usize, String>,
}

const NOT_FOUND: &str = "the expression was not found, probably in a macro";

impl Writer<'_> {
    fn add(&mut self, id: usize, mutant: &Mutant) -> Result<(), &'static str> {
        let start = mutant.span.start.offset(self.source);
        match mutant.genre {
            Genre::FnValue => self.add_function(id, mutant, start),
            Genre::BinaryOperator => self.add_binary(id, mutant, start),
            Genre::UnaryOperator => self.add_unary(id, start),
            Genre::MatchArmGuard => {
                let end = mutant.span.end.offset(self.source);
                self.add_guard(id, start..end, &mutant.replacement)
            }
            Genre::MatchArm => self.add_arm(id, start),
            Genre::StructField => self.add_field(id, start),
            Genre::Unknown => Err("this kind of mutation is new"),
        }
    }

    fn edit(&mut self, range: Range<usize>, rank: u8, new: Change) -> &mut Change {
        let order = (range.start, std::cmp::Reverse(range.end), rank);
        let edit = self.edits.entry(order);
        &mut edit.or_insert(Edit { range, change: new }).change
    }

    fn add_function(
        &mut self,
        id: usize,
        mutant: &Mutant,
        start: usize,
    ) -> Result<(), &'static str> {
        let returned = mutant.function.as_ref().map(|it| it.return_type.as_str());
        if returned.is_some_and(|it| it.contains("impl ")) {
            return Err(
                "the returned type is `impl Trait`, and both returns must have the same type",
            );
        }
        let order = (start, std::cmp::Reverse(usize::MAX), 0);
        let edit = self.edits.entry(order).or_insert(Edit {
            range: start..start,
            change: Change::Function(Vec::new()),
        });
        if let Change::Function(mutations) = &mut edit.change {
            mutations.push((id, mutant.replacement.clone()));
        }
        Ok(())
    }

    fn add_binary(&mut self, id: usize, mutant: &Mutant, start: usize) -> Result<(), &'static str> {
        let place = self.places.binary.get(&start).ok_or(NOT_FOUND)?;
        if place.is_let_chain {
            return Err("an operand is a `let` condition");
        }
        let whole = place.left.start..place.right.end;
        if whole.len() > LONGEST {
            return Err("the expression is too long to be repeated");
        }
        let empty = Change::Binary {
            left: place.left.clone(),
            operator: place.operator.clone(),
            right: place.right.clone(),
            mutations: Vec::new(),
        };
        self.expressions
            .insert(id, shown(&self.source[whole.clone()]));
        if let Change::Binary { mutations, .. } = self.edit(whole, 3, empty) {
            mutations.push((id, mutant.replacement.clone()));
        }
        Ok(())
    }

    fn add_unary(&mut self, id: usize, start: usize) -> Result<(), &'static str> {
        let place = self.places.unary.get(&start).ok_or(NOT_FOUND)?;
        let (whole, operand) = (place.whole.clone(), place.operand.clone());
        let operator = self.source[start..operand.start].trim_end().to_owned();
        self.expressions
            .insert(id, shown(&self.source[whole.clone()]));
        let change = Change::Unary {
            operand,
            operator,
            id,
        };
        self.edit(whole, 3, change);
        Ok(())
    }

    fn add_guard(
        &mut self,
        id: usize,
        range: Range<usize>,
        replacement: &str,
    ) -> Result<(), &'static str> {
        if self.source[range.clone()].starts_with("let ") {
            return Err("the guard is a `let` condition");
        }
        let empty = Change::Guard {
            always: None,
            never: None,
            deleted: None,
        };
        if let Change::Guard {
            always,
            never,
            deleted,
        } = self.edit(range, 2, empty)
        {
            *match replacement {
                "true" => always,
                "false" => never,
                _ => deleted,
            } = Some(id);
        }
        Ok(())
    }

    fn add_arm(&mut self, id: usize, start: usize) -> Result<(), &'static str> {
        let arm = self.places.arms.get(&start).ok_or(NOT_FOUND)?;
        match arm.guard.clone() {
            Some(guard) => self.add_guard(id, guard, "deleted"),
            None => {
                let arrow = arm.arrow;
                self.edit(arrow..arrow, 1, Change::Arm { id });
                Ok(())
            }
        }
    }

    fn add_field(&mut self, id: usize, start: usize) -> Result<(), &'static str> {
        let field = self.places.fields.get(&start).ok_or(NOT_FOUND)?;
        let change = Change::Field {
            id,
            name: self.source[field.name.clone()].to_owned(),
            value: field.value.clone(),
            base: field.base.clone(),
        };
        let range = field.name.start..field.value.end;
        self.edit(range, 2, change);
        Ok(())
    }
}

/// The text of a range with the edits in it, which are sorted.
fn render(source: &str, edits: &[Edit], range: Range<usize>) -> String {
    let mut text = String::new();
    let mut position = range.start;
    for (index, edit) in edits.iter().enumerate() {
        let is_inside = edit.range.start >= position && edit.range.end <= range.end;
        // Before the range, after it, or part of an edit that was rendered as a whole.
        if !is_inside {
            continue;
        }
        text.push_str(&source[position..edit.range.start]);
        text.push_str(&render_edit(source, edit, &edits[index + 1..]));
        position = edit.range.end;
    }
    text.push_str(&source[position..range.end]);
    text
}

fn render_edit(source: &str, edit: &Edit, inner: &[Edit]) -> String {
    let part = |range: &Range<usize>| render(source, inner, range.clone());
    match &edit.change {
        Change::Function(mutations) => returns(mutations),
        Change::Binary {
            left,
            operator,
            right,
            mutations,
        } => binary(
            &part(left),
            &source[operator.clone()],
            &part(right),
            mutations,
        ),
        Change::Unary {
            operand,
            operator,
            id,
        } => unary(operator, &part(operand), *id),
        Change::Guard {
            always,
            never,
            deleted,
        } => guard(&part(&edit.range), *always, *never, *deleted),
        Change::Arm { id } => format!("if {} ", marked(*id, &format!("!{}", is(*id)))),
        Change::Field {
            id,
            name,
            value,
            base,
        } => {
            let from_base = marked(*id, &format!("{{ ({}).{name} }}", part(base)));
            let value = part(value);
            format!("{name}: (if {} {from_base} else {{ {value} }})", is(*id))
        }
    }
}

fn returns(mutations: &[(usize, String)]) -> String {
    let returns = mutations.iter().map(|(id, value)| {
        let text = format!("if {} {{ return {value}; }}", is(*id));
        format!("{} ", marked(*id, &text))
    });
    returns.collect()
}

fn unary(operator: &str, operand: &str, id: usize) -> String {
    let switch = marked(id, &is(id));
    match operator {
        "!" => format!("((!{operand}) != {switch})"),
        _ => format!("(if {switch} {{ {operand} }} else {{ {operator}{operand} }})"),
    }
}

/// `&&`, `||` and comparisons for equality without repeating operands, so that long chains stay short.
fn binary(left: &str, operator: &str, right: &str, mutations: &[(usize, String)]) -> String {
    if let [(id, replacement)] = mutations {
        let switch = marked(*id, &is(*id));
        match (operator, replacement.as_str()) {
            ("==", "!=") | ("!=", "==") => {
                return format!("(({left} {operator} {right}) != {switch})");
            }
            // What the left side decides alone is decided by the right side if the mutation is selected.
            ("&&", "||") | ("||", "&&") => {
                let comparison = if operator == "&&" { "!=" } else { "==" };
                return format!(
                    "({{ let mutated_{id}: bool = {left}; if mutated_{id} {comparison} {switch} {{ {right} }} else {{ mutated_{id} }} }})"
                );
            }
            _ => {}
        }
    }
    let branches = mutations.iter().map(|(id, replacement)| {
        let text = marked(*id, &format!("{{ {left} {replacement} {right} }}"));
        format!("if {} {text} else ", is(*id))
    });
    let branches: String = branches.collect();
    format!("({branches}{{ {left} {operator} {right} }})")
}

fn guard(
    text: &str,
    always: Option<usize>,
    never: Option<usize>,
    deleted: Option<usize>,
) -> String {
    let mut guard = format!("({text})");
    if let Some(id) = never {
        guard = format!("({} && {guard})", marked(id, &format!("!{}", is(id))));
    }
    if let Some(id) = always {
        guard = format!("({} || {guard})", marked(id, &is(id)));
    }
    if let Some(id) = deleted {
        guard = format!("{} && {guard}", marked(id, &format!("!{}", is(id))));
    }
    guard
}

fn is(id: usize) -> String {
    format!("::mutation_switch::is({id})")
}

fn marked(id: usize, text: &str) -> String {
    format!("/*<{id}*/{text}/*>*/")
}

/// The innermost mutation whose text contains a position of a file with switches.
pub(super) fn mutation_at(text: &str, position: usize) -> Option<usize> {
    let mut open = Vec::new();
    let mut rest = &text[..text.floor_char_boundary(position)];
    while let Some(start) = rest.find("/*") {
        rest = &rest[start + 2..];
        if let Some(after) = rest.strip_prefix('<') {
            let digits = after.split('*').next().unwrap_or_default();
            open.extend(digits.parse::<usize>());
        } else if rest.starts_with(">*/") {
            open.pop();
        }
    }
    open.pop()
}

/// The mutations whose text starts in a part of a file with switches.
pub(super) fn mutations_in(text: &str) -> Vec<usize> {
    let starts = text.split("/*<").skip(1);
    let digits = starts.filter_map(|it| it.split('*').next());
    digits.filter_map(|it| it.parse().ok()).collect()
}

/// An expression in one line.
fn shown(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
