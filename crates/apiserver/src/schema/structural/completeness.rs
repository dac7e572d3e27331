//! Whether everything that branches talk about exists outside of them.

use crate::schema::error::{FieldError, INSIDE, child};
use crate::schema::node::Node;

/// Adds an error for each field a branch mentions and the structure does not have.
pub(super) fn check(root: &Node, errors: &mut Vec<FieldError>) {
    check_completeness(
        root,
        root,
        Paths {
            structure: "",
            branch: "",
        },
        errors,
    );
}

/// Whatever the branches of `node` talk about must exist in `structure`.
fn check_completeness(
    node: &Node,
    structure: &Node,
    paths: Paths<'_>,
    errors: &mut Vec<FieldError>,
) {
    let mut check = |branch: &Node, keyword: &str| {
        let path = child(paths.branch, keyword);
        let paths = Paths {
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

/// Where a branch stands and where the structure it talks about does.
#[derive(Clone, Copy)]
struct Paths<'a> {
    structure: &'a str,
    branch: &'a str,
}

fn check_branch_completeness(
    branch: &Node,
    structure: Option<&Node>,
    paths: Paths<'_>,
    errors: &mut Vec<FieldError>,
) {
    let Some(structure) = structure else {
        let detail = format!("because it is defined in {INSIDE}{}", paths.branch);
        return errors.push(FieldError::required(paths.structure, &detail));
    };
    check_completeness(branch, structure, paths, errors);
    let mut check = |branch: &Node, structure: Option<&Node>, part: &str| {
        let (there, here) = (child(paths.structure, part), child(paths.branch, part));
        let paths = Paths {
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
