//! Compares ownership with a simple model: each leaf has a value and a set of managers.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::schema::Schema;

/// The leaves of a spec: `/color`, `/notes/x`, `/tags/x`, `/parts/x`, `/parts/x/count`.
type Leaves = BTreeMap<String, i64>;

fn kind() -> Type {
    let number = json!({"type": "integer"});
    let part = json!({"type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}, "count": number}});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "color": number,
        "size": number,
        "notes": {"type": "object", "additionalProperties": number},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "parts": {"type": "array", "items": part, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"]},
    }}}});
    Schema::compile(&schema)
        .expect("a valid schema")
        .object_type()
}

/// The object that has these leaves.
fn object(leaves: &Leaves) -> Value {
    let mut spec = json!({});
    for (path, value) in leaves {
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        match segments[..] {
            ["notes", key] => spec["notes"][key] = json!(value),
            ["tags", tag] => push(&mut spec["tags"], json!(tag)),
            ["parts", name] => push(&mut spec["parts"], json!({"name": name})),
            ["parts", _, "count"] => {
                let parts = spec["parts"].as_array_mut().expect("the part comes first");
                parts.last_mut().expect("the part comes first")["count"] = json!(value);
            }
            [field] => spec[field] = json!(value),
            _ => unreachable!("no such leaf: {path}"),
        }
    }
    let mut object =
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}});
    if spec != json!({}) {
        object["spec"] = spec;
    }
    object
}

fn push(list: &mut Value, item: Value) {
    if list.is_null() {
        *list = json!([]);
    }
    list.as_array_mut().expect("a list").push(item);
}

/// The leaves that an object has.
fn leaves(object: &Value) -> Leaves {
    let spec = &object["spec"];
    let mut leaves = Leaves::new();
    for field in ["color", "size"] {
        leaves.extend(
            spec[field]
                .as_i64()
                .map(|value| (format!("/{field}"), value)),
        );
    }
    for (key, value) in spec["notes"].as_object().into_iter().flatten() {
        leaves.insert(format!("/notes/{key}"), value.as_i64().expect("a number"));
    }
    for tag in spec["tags"].as_array().into_iter().flatten() {
        leaves.insert(format!("/tags/{}", tag.as_str().expect("text")), 0);
    }
    for part in spec["parts"].as_array().into_iter().flatten() {
        let path = format!("/parts/{}", part["name"].as_str().expect("text"));
        let count = part["count"].as_i64();
        leaves.extend(count.map(|count| (format!("{path}/count"), count)));
        leaves.insert(path, 0);
    }
    leaves
}

/// Who owns which leaf, by the object's `managedFields`.
fn managed_fields(object: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let mut managed_fields: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let entries = object["metadata"]["managedFields"].as_array();
    for entry in entries.into_iter().flatten() {
        let fields = FieldSet::deserialize(&entry["fieldsV1"]).expect("well-formed");
        for path in fields.paths() {
            let leaf = path
                .replace("[name=\"", "/")
                .replace("[=\"", "/")
                .replace("\"]", "")
                .replace('.', "/")
                .replace("/spec", "");
            let is_leaf = !matches!(leaf.as_str(), "" | "/notes" | "/tags" | "/parts")
                && !leaf.ends_with("/name");
            if is_leaf {
                let manager = entry["manager"].as_str().expect("text").to_owned();
                managed_fields.entry(leaf).or_default().insert(manager);
            }
        }
    }
    managed_fields
}

/// What the object should be.
#[derive(Default, Debug)]
struct Model {
    values: Leaves,
    managed_fields: BTreeMap<String, BTreeSet<String>>,
}

impl Model {
    fn apply(&mut self, manager: &str, config: &Leaves, force: bool) -> bool {
        let differs = |model: &Self, path: &String| model.values.get(path) != config.get(path);
        let is_contested = config.keys().any(|path| {
            let managed_fields = self.managed_fields.get(path).into_iter().flatten();
            let mut others = managed_fields.filter(|owner| *owner != manager);
            differs(self, path) && others.next().is_some()
        });
        if is_contested && !force {
            return false;
        }
        for (path, value) in config {
            let managed_fields = self.managed_fields.entry(path.clone()).or_default();
            if self.values.get(path) != Some(value) {
                managed_fields.clear();
            }
            managed_fields.insert(manager.to_owned());
            self.values.insert(path.clone(), *value);
        }
        for path in self.managed_fields.keys().cloned().collect::<Vec<_>>() {
            if config.contains_key(&path) {
                continue;
            }
            let managed_fields = self.managed_fields.entry(path.clone()).or_default();
            if managed_fields.remove(manager) && managed_fields.is_empty() {
                self.values.remove(&path);
            }
            if managed_fields.is_empty() {
                self.managed_fields.remove(&path);
            }
        }
        self.drop_parts_of_nothing();
        true
    }

    /// An item that nobody owns goes with all that is in it, whoever owns that.
    fn drop_parts_of_nothing(&mut self) {
        let present = self.values.clone();
        let stays = |path: &String| match path.strip_suffix("/count") {
            Some(part) => present.contains_key(part),
            None => true,
        };
        self.values.retain(|path, _| stays(path));
        self.managed_fields.retain(|path, _| stays(path));
    }

    fn update(&mut self, manager: &str, new: Leaves) {
        for path in self.values.keys().chain(new.keys()) {
            match (self.values.get(path), new.get(path)) {
                (old, Some(value)) if old != Some(value) => {
                    self.managed_fields
                        .insert(path.clone(), [manager.to_owned()].into());
                }
                (_, None) => {
                    self.managed_fields.remove(path);
                }
                _ => {}
            }
        }
        self.values = new;
    }
}

#[derive(Debug, Clone)]
enum ModelWrite {
    Apply {
        manager: usize,
        config: Leaves,
        force: bool,
    },
    Update {
        manager: usize,
        new: Leaves,
    },
}

fn any_leaves() -> impl Strategy<Value = Leaves> {
    let leaf = prop_oneof![
        Just("/color".to_owned()),
        Just("/size".to_owned()),
        "[xyz]".prop_map(|key| format!("/notes/{key}")),
        "[xyz]".prop_map(|tag| format!("/tags/{tag}")),
        "[xyz]".prop_map(|name| format!("/parts/{name}")),
        "[xyz]".prop_map(|name| format!("/parts/{name}/count")),
    ];
    let leaves = prop::collection::btree_map(leaf, 0_i64..3, 0..6);
    leaves.prop_map(|leaves| {
        let mut whole = Leaves::new();
        for (path, value) in leaves {
            if let Some(part) = path.strip_suffix("/count") {
                whole.insert(part.to_owned(), 0);
            }
            let is_number = !path.starts_with("/tags") && path.matches('/').count() != 2
                || path.starts_with("/notes");
            whole.insert(path, if is_number { value } else { 0 });
        }
        whole
    })
}

fn any_write() -> impl Strategy<Value = ModelWrite> {
    prop_oneof![
        3 => (0_usize..3, any_leaves(), any::<bool>())
            .prop_map(|(manager, config, force)| ModelWrite::Apply { manager, config, force }),
        1 => (0_usize..2, any_leaves()).prop_map(|(manager, new)| ModelWrite::Update { manager, new }),
    ]
}

fn field_manager(manager: &str, operation: ManagerOperation) -> FieldManager {
    FieldManager {
        manager: manager.to_owned(),
        operation,
        api_version: "example.com/v1".to_owned(),
        subresource: String::new(),
        time: "2026-01-01T00:00:00Z".to_owned(),
    }
}

/// An object without its owners, and those.
fn apart(object: &Value) -> (Value, String) {
    let mut object = object.clone();
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let managed_fields = metadata.and_then(|it| it.remove("managedFields"));
    (
        object,
        managed_fields.map_or_else(String::new, |it| it.to_string()),
    )
}

fn together(mut object: Value, managed_fields: &str) -> Value {
    if !managed_fields.is_empty() {
        object["metadata"]["managedFields"] = serde_json::from_str(managed_fields).expect("JSON");
    }
    object
}

fn apply(
    context: &OwnershipContext<'_>,
    live: &Value,
    config: &Value,
    field_manager: &FieldManager,
    force: bool,
) -> Result<Value, ApplyError> {
    let (bare, managed_fields) = apart(live);
    let live = LiveObject {
        object: &bare,
        managed_fields: managed_fields.as_bytes(),
    };
    applied(context, live, config, field_manager, force)
        .map(|(object, managed_fields)| together(object, &managed_fields))
}

fn check(writes: Vec<ModelWrite>) {
    let kind = kind();
    let context = OwnershipContext {
        kind: &kind,
        reset: &FieldSet::default(),
    };
    let mut model = Model::default();
    let mut live = json!({});
    for write in writes {
        match &write {
            ModelWrite::Apply {
                manager,
                config,
                force,
            } => {
                let manager = format!("applier{manager}");
                let field_manager = field_manager(&manager, ManagerOperation::Apply);
                let outcome = apply(&context, &live, &object(config), &field_manager, *force);
                assert_eq!(
                    outcome.is_ok(),
                    model.apply(&manager, config, *force),
                    "{write:?}"
                );
                live = outcome.unwrap_or(live);
            }
            ModelWrite::Update { manager, new } => {
                let manager = format!("updater{manager}");
                let field_manager = field_manager(&manager, ManagerOperation::Update);
                let mut object = object(new);
                object["metadata"]["uid"] = json!("u");
                let (bare, managed_fields) = apart(&live);
                let before = LiveObject {
                    object: &bare,
                    managed_fields: managed_fields.as_bytes(),
                };
                let managed_fields =
                    after_update(&context, before, &object, &Value::Null, &field_manager);
                object = together(object, &managed_fields);
                // Without managedFields nothing is tracked; the conformance suite covers that.
                if object["metadata"]["managedFields"].is_null() {
                    return;
                }
                model.update(&manager, new.clone());
                live = object;
            }
        }
        live["metadata"]["uid"] = json!("u");
        assert_eq!(leaves(&live), model.values, "{write:?}: {live}");
        assert_eq!(
            managed_fields(&live),
            model.managed_fields,
            "{write:?}: {live}"
        );
        if live["metadata"]["managedFields"].is_null() {
            return;
        }
    }
}

/// As many items as fit into a body: looking for each among all others would take for ever.
#[test]
fn long_lists_are_applied() {
    let object = |field: &str| {
        let item = |index: usize| json!({"name": format!("{index}"), field: "x"});
        json!({"containers": (0..60_000).map(item).collect::<Vec<_>>()})
    };
    let kind = Type::named("PodSpec");
    let config = object("tty");
    let merged = super::merge::merged(&kind, &object("image"), &config);
    let last = json!({"name": "59999", "image": "x", "tty": "x"});
    assert_eq!(merged["containers"][59_999], last);
    assert_eq!(
        super::named_fields::named_fields(&kind, &config).children["f:containers"]
            .children
            .len(),
        60_000
    );
}

proptest! {
    #[test]
    fn apply_agrees_with_a_simple_model(writes in prop::collection::vec(any_write(), 1..12)) {
        check(writes);
    }

    #[test]
    fn applying_twice_changes_nothing(config in any_leaves(), other in any_leaves()) {
        let kind = kind();
        let context = OwnershipContext { kind: &kind, reset: &FieldSet::default() };
        let live = apply(&context, &json!({}), &object(&other), &field_manager("other", ManagerOperation::Apply), false);
        let live = live.expect("nobody else is there");
        let again = |live: &Value| {
            apply(&context, live, &object(&config), &field_manager("one", ManagerOperation::Apply), true).expect("forced")
        };
        let once = again(&live);
        prop_assert_eq!(&again(&once), &once);
    }
}
