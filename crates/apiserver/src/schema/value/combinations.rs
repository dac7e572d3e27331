//! `allOf`, `anyOf`, `oneOf` and `not`.

use super::{CheckedValue, ValidationResult, check};
use crate::schema::error::quoted;
use crate::schema::node::SchemaNode;

/// Checks the value against the combined schemas of `node`.
pub(super) fn check_all(node: &SchemaNode, checked: CheckedValue<'_>) -> ValidationResult {
    let mut result = ValidationResult {
        checks: 1,
        ..ValidationResult::default()
    };
    let branches = [&node.any_of, &node.one_of, &node.all_of];
    if node.not.is_none() && branches.iter().all(|branches| branches.is_empty()) {
        return result;
    }
    let path = quoted(checked.path);
    if !node.any_of.is_empty() {
        check_any_of(&node.any_of, checked, &path, &mut result);
    }
    if !node.one_of.is_empty() {
        check_one_of(&node.one_of, checked, &path, &mut result);
    }
    if !node.all_of.is_empty() {
        check_all_of(&node.all_of, checked, &path, &mut result);
    }
    if node
        .not
        .as_ref()
        .is_some_and(|node| check(node, checked.as_new()).is_valid())
    {
        result.add_without_field(format!("{path} must not validate the schema (not)"));
    }
    result
}

impl<'a> CheckedValue<'a> {
    /// A branch is validated even if the value is unchanged; its fields may still be unchanged ones.
    fn as_new(self) -> CheckedValue<'a> {
        CheckedValue {
            old: self.old.filter(|old| *old != self.value),
            ..self
        }
    }
}

fn check_any_of(
    branches: &[SchemaNode],
    checked: CheckedValue<'_>,
    path: &str,
    result: &mut ValidationResult,
) {
    let mut best: Option<ValidationResult> = None;
    for branch in branches {
        let branch_result = check(branch, checked.as_new());
        if branch_result.is_valid() {
            return result.merge(branch_result);
        }
        if best
            .as_ref()
            .is_none_or(|best| branch_result.checks > best.checks)
        {
            best = Some(branch_result);
        }
    }
    result.add_without_field(format!("{path} must validate at least one schema (anyOf)"));
    result.merge(best.unwrap_or_default());
}

fn check_one_of(
    branches: &[SchemaNode],
    checked: CheckedValue<'_>,
    path: &str,
    result: &mut ValidationResult,
) {
    let mut best: Option<ValidationResult> = None;
    let mut valid = Vec::new();
    for branch in branches {
        let branch_result = check(branch, checked.as_new());
        if branch_result.is_valid() {
            valid.push(branch_result);
        } else if best
            .as_ref()
            .is_none_or(|best| branch_result.checks > best.checks)
        {
            best = Some(branch_result);
        }
    }
    let sentence = format!("{path} must validate one and only one schema (oneOf).");
    match valid.len() {
        0 => {
            result.add_without_field(format!("{sentence} Found none valid"));
            result.merge(best.unwrap_or_default());
        }
        1 => valid.into_iter().for_each(|valid| result.merge(valid)),
        count => result.add_without_field(format!("{sentence} Found {count} valid alternatives")),
    }
}

fn check_all_of(
    branches: &[SchemaNode],
    checked: CheckedValue<'_>,
    path: &str,
    result: &mut ValidationResult,
) {
    let mut valid = 0;
    for branch in branches {
        let branch_result = check(branch, checked.as_new());
        valid += usize::from(branch_result.is_valid());
        result.merge(branch_result);
    }
    if valid != branches.len() {
        let none = if valid == 0 { ". None validated" } else { "" };
        result.add_without_field(format!(
            "{path} must validate all the schemas (allOf){none}"
        ));
    }
}
