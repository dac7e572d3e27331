//! Applies the operations of a JSON patch.
//!
//! Before each operation, the size of all copies together and the nesting are checked against the
//! limits of a request body, as in kube-apiserver. Otherwise a small patch could double an object
//! with every operation.

use std::io;

use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;

use crate::{
    body, json,
    status::{ApiError, Result},
};

/// The object with all operations applied.
pub(super) fn applied(mut object: Value, operations: &[PatchOperation]) -> Result<Value> {
    let mut copied = 0;
    for operation in operations {
        copied += copied_by(operation, &object);
        if copied > body::LIMIT || nests_too_deep(operation, &object) {
            return Err(ApiError::unprocessable());
        }
        if let Some(operation) = lenient(operation, &object) {
            // Without undo: a patch that fails half-way leaves nothing behind but this copy.
            json_patch::patch_unsafe(&mut object, &[operation])
                .map_err(|_| ApiError::unprocessable())?;
        }
    }
    Ok(object)
}

/// By how many bytes of JSON a `copy` enlarges the object.
fn copied_by(operation: &PatchOperation, object: &Value) -> usize {
    let PatchOperation::Copy(copy) = operation else {
        return 0;
    };
    object.pointer(copy.from.as_str()).map_or(0, size)
}

/// How long a value is as JSON.
fn size(value: &Value) -> usize {
    struct Length(usize);
    impl io::Write for Length {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut length = Length(0);
    match serde_json::to_writer(&mut length, value) {
        Ok(()) => length.0,
        // A value that cannot be written cannot be stored either.
        Err(_) => usize::MAX / 2,
    }
}

/// Whether the result of an operation would be nested deeper than a body may be.
fn nests_too_deep(operation: &PatchOperation, object: &Value) -> bool {
    let (path, value) = match operation {
        PatchOperation::Add(add) => (&add.path, Some(&add.value)),
        PatchOperation::Replace(replace) => (&replace.path, Some(&replace.value)),
        PatchOperation::Copy(copy) => (&copy.path, object.pointer(copy.from.as_str())),
        PatchOperation::Move(moved) => (&moved.path, object.pointer(moved.from.as_str())),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return false,
    };
    let around = path.tokens().count();
    value.is_some_and(|value| json::is_deeper(value, json::DEPTH_LIMIT.saturating_sub(around)))
}

/// The operation as kube-apiserver interprets it: `replace` may add a missing member, and a missing
/// member passes a `test` for null.
fn lenient(operation: &PatchOperation, object: &Value) -> Option<PatchOperation> {
    let is_missing = |path: &str| object.pointer(path).is_none();
    match operation {
        PatchOperation::Test(test) if test.value.is_null() && is_missing(test.path.as_str()) => {
            None
        }
        PatchOperation::Replace(replace) if is_missing(replace.path.as_str()) => {
            Some(PatchOperation::Add(AddOperation {
                path: replace.path.clone(),
                value: replace.value.clone(),
            }))
        }
        other => Some(other.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn apply(object: Value, operations: &[Value]) -> Result<Value> {
        let operations: Vec<PatchOperation> =
            serde_json::from_value(operations.into()).expect("operations of a JSON patch");
        applied(object, &operations)
    }

    /// Copies everything into itself, this often.
    fn doubled(times: usize) -> Vec<Value> {
        let double = |index| json!({"op": "copy", "from": "/x", "path": format!("/x/{index}")});
        (0..times).map(double).collect()
    }

    #[test]
    fn copies_are_bounded_in_sum() {
        let object = json!({"x": {"text": "a".repeat(1000)}});
        assert!(apply(object.clone(), &doubled(10)).is_ok());
        assert!(apply(object.clone(), &doubled(13)).is_err());
        assert!(apply(object, &doubled(4000)).is_err());
        // Also where each copy replaces the one before it.
        let object = json!({"x": "a".repeat(1_000_000)});
        let copy = json!({"op": "copy", "from": "/x", "path": "/y"});
        assert!(apply(object.clone(), &[copy.clone(), copy.clone(), copy.clone()]).is_ok());
        assert!(apply(object, &[copy.clone(), copy.clone(), copy.clone(), copy]).is_err());
    }

    #[test]
    fn nesting_is_bounded_after_each_operation() {
        let inside = |op: &str| {
            let step = json!({"op": op, "from": "/x", "path": "/y/x", "value": {}});
            let wrap = json!({"op": "add", "path": "/y", "value": {}});
            let back = json!({"op": "move", "from": "/y", "path": "/x"});
            [wrap, step, back]
        };
        for op in ["move", "copy"] {
            let operations: Vec<Value> = (0..120).flat_map(|_| inside(op)).collect();
            assert!(apply(json!({"x": {}}), &operations).is_ok(), "{op}");
            let operations: Vec<Value> = (0..3000).flat_map(|_| inside(op)).collect();
            assert!(apply(json!({"x": {}}), &operations).is_err(), "{op}");
        }
        let deepen = |times: u32| {
            let path = format!("/x{}", "/a".repeat(2_usize.pow(times)));
            json!({"op": "copy", "from": "/x", "path": path})
        };
        let deeper: Vec<Value> = (0..16).map(deepen).collect();
        assert!(apply(json!({"x": {}}), &deeper[..6]).is_ok());
        assert!(apply(json!({"x": {}}), &deeper).is_err());
    }
}
