//! Checks that every field in a branch is declared outside of the branches.

use crate::schema::error::{FieldError, INSIDE, child};
use crate::schema::node::SchemaNode;

/// Adds an error for each field a branch mentions and the structure does not have.
pub(super) fn check(root: &SchemaNode, errors: &mut Vec<FieldError>) {
    check_completeness(
        root,
        root,
        BranchPaths {
            structure: "",
            branch: "",
        },
        errors,
    );
}

/// The fields in the branches of `node` must exist in `structure`.
fn check_completeness(
    node: &SchemaNode,
    structure: &SchemaNode,
    paths: BranchPaths<'_>,
    errors: &mut Vec<FieldError>,
) {
    let mut check = |branch: &SchemaNode, keyword: &str| {
        let path = child(paths.branch, keyword);
        let paths = BranchPaths {
            branch: &path,
            ..paths
        };
        check_branch_completeness(branch, Some(structure), paths, errors);
    };
    if let Some(branch) = &node.not {
        check(branch, "not");
    }
    for (keyword, branches) in [
        ("allOf", &node.all_of),
        ("anyOf", &node.any_of),
        ("oneOf", &node.one_of),
    ] {
        for (index, branch) in branches.iter().enumerate() {
            check(branch, &format!("{keyword}[{index}]"));
        }
    }
}

/// The paths of a branch and of the structure that it refers to.
#[derive(Clone, Copy)]
struct BranchPaths<'a> {
    structure: &'a str,
    branch: &'a str,
}

fn check_branch_completeness(
    branch: &SchemaNode,
    structure: Option<&SchemaNode>,
    paths: BranchPaths<'_>,
    errors: &mut Vec<FieldError>,
) {
    let Some(structure) = structure else {
        let detail = format!("because it is defined in {INSIDE}{}", paths.branch);
        return errors.push(FieldError::required(paths.structure, &detail));
    };
    check_completeness(branch, structure, paths, errors);
    let mut check = |branch: &SchemaNode, structure: Option<&SchemaNode>, part: &str| {
        let (there, here) = (child(paths.structure, part), child(paths.branch, part));
        let paths = BranchPaths {
            structure: &there,
            branch: &here,
        };
        check_branch_completeness(branch, structure, paths, errors);
    };
    if let Some(items) = &branch.items {
        check(items, structure.items.as_deref(), "items");
    }
    for (name, property) in &branch.properties {
        check(
            property,
            structure.properties.get(name),
            &format!("properties[{name}]"),
        );
    }
}
