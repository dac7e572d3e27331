//! Drops the fields that a type does not have.

use serde_json::Value;

use super::Type;
use crate::json::FieldPath;

/// Removes the fields that values of this type cannot have, and returns their paths.
pub(crate) fn prune(kind: &Type, value: &mut Value) -> Vec<String> {
    let mut dropped = Vec::new();
    walk(kind, value, &FieldPath::Root, &mut dropped);
    dropped
}

fn walk(kind: &Type, value: &mut Value, path: &FieldPath<'_>, dropped: &mut Vec<String>) {
    match (kind.resolve(), value) {
        (Type::Map(map), Value::Object(fields)) => fields.retain(|name, value| {
            let path = FieldPath::Field(path, name);
            match map.field(name) {
                Some(kind) => walk(kind, value, &path, dropped),
                None => dropped.push(path.to_string()),
            }
            map.field(name).is_some()
        }),
        (Type::List(list), Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                walk(&list.items, item, &FieldPath::Item(path, index), dropped);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_are_named_where_they_are() {
        let mut deployment = json!({"kind": "Deployment", "x": 1, "spec": {"template": {"spec": {
            "containers": [{"name": "a", "imag": "b"}], "nodeSelector": {"any": "thing"},
        }}}});
        let dropped = prune(&Type::named("Deployment"), &mut deployment);
        assert_eq!(dropped, ["spec.template.spec.containers[0].imag", "x"]);
        assert_eq!(
            deployment["spec"]["template"]["spec"]["containers"][0],
            json!({"name": "a"})
        );
    }
}
