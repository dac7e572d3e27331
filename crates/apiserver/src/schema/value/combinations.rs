//! `allOf`, `anyOf`, `oneOf` and `not`.

use super::{Findings, Place, check};
use crate::schema::error::quoted;
use crate::schema::node::Node;

/// Checks the value against the combined schemas of `node`.
pub(super) fn check_all(node: &Node, place: Place<'_>) -> Findings {
    let mut findings = Findings {
        checks: 1,
        ..Findings::default()
    };
    let branches = [&node.any_of, &node.one_of, &node.all_of];
    if node.not.is_none() && branches.iter().all(|branches| branches.is_empty()) {
        return findings;
    }
    let path = quoted(place.path);
    if !node.any_of.is_empty() {
        check_any_of(&node.any_of, place, &path, &mut findings);
    }
    if !node.one_of.is_empty() {
        check_one_of(&node.one_of, place, &path, &mut findings);
    }
    if !node.all_of.is_empty() {
        check_all_of(&node.all_of, place, &path, &mut findings);
    }
    if node
        .not
        .as_ref()
        .is_some_and(|node| check(node, place.as_new()).is_valid())
    {
        findings.add_unplaced(format!("{path} must not validate the schema (not)"));
    }
    findings
}

impl<'a> Place<'a> {
    /// A branch is judged by the value alone; its fields may still be unchanged ones.
    fn as_new(self) -> Place<'a> {
        Place {
            old: self.old.filter(|old| *old != self.value),
            ..self
        }
    }
}

fn check_any_of(branches: &[Node], place: Place<'_>, path: &str, findings: &mut Findings) {
    let mut best: Option<Findings> = None;
    for branch in branches {
        let result = check(branch, place.as_new());
        if result.is_valid() {
            return findings.merge(result);
        }
        if best.as_ref().is_none_or(|best| result.checks > best.checks) {
            best = Some(result);
        }
    }
    findings.add_unplaced(format!("{path} must validate at least one schema (anyOf)"));
    findings.merge(best.unwrap_or_default());
}

fn check_one_of(branches: &[Node], place: Place<'_>, path: &str, findings: &mut Findings) {
    let mut best: Option<Findings> = None;
    let mut valid = Vec::new();
    for branch in branches {
        let result = check(branch, place.as_new());
        if result.is_valid() {
            valid.push(result);
        } else if best.as_ref().is_none_or(|best| result.checks > best.checks) {
            best = Some(result);
        }
    }
    let sentence = format!("{path} must validate one and only one schema (oneOf).");
    match valid.len() {
        0 => {
            findings.add_unplaced(format!("{sentence} Found none valid"));
            findings.merge(best.unwrap_or_default());
        }
        1 => valid.into_iter().for_each(|result| findings.merge(result)),
        count => findings.add_unplaced(format!("{sentence} Found {count} valid alternatives")),
    }
}

fn check_all_of(branches: &[Node], place: Place<'_>, path: &str, findings: &mut Findings) {
    let mut valid = 0;
    for branch in branches {
        let result = check(branch, place.as_new());
        valid += usize::from(result.is_valid());
        findings.merge(result);
    }
    if valid != branches.len() {
        let none = if valid == 0 { ". None validated" } else { "" };
        findings.add_unplaced(format!(
            "{path} must validate all the schemas (allOf){none}"
        ));
    }
}
