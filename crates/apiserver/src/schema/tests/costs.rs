//! What rules cost: hostile ones end soon, ordinary ones are never refused for it.

use serde_json::{Value, json};

use crate::schema::Schema;

fn schema(rule: &str) -> Schema {
    let list = json!({"type": "array", "items": {"type": "string"}});
    let root = json!({
        "type": "object",
        "properties": {"list": list, "text": {"type": "string"}},
        "x-kubernetes-validations": [{"rule": rule, "message": "no"}],
    });
    Schema::compile(&root).expect(rule)
}

fn object(items: usize) -> Value {
    let list: Vec<String> = (0..items).map(|index| format!("item {index}")).collect();
    json!({"list": list, "text": "a".repeat(items)})
}

fn refusals(rule: &str, items: usize) -> Vec<String> {
    let errors = schema(rule).validate(&object(items), None);
    errors.into_iter().map(|error| error.message).collect()
}

/// A list of 64 texts, mapped this often.
fn mapped(step: &str, times: usize) -> String {
    format!("self.list{}.size() > 0", step.repeat(times))
}

#[test]
fn what_costs_too_much_is_refused() {
    let nested = |inner: &str| {
        format!("self.list.all(a, self.list.all(b, self.list.all(c, self.list.all(d, {inner}))))")
    };
    let squared = "self.text".to_owned() + &".replace('a', self.text)".repeat(8) + " != ''";
    let shared = "self.list".to_owned() + &".map(x, [x, x, x, x])".repeat(16);
    for rule in [
        nested("a + b + c + d != ''"),
        // What is spent is spent, whatever an error would be worth.
        nested("1 / 0 == 1 || true"),
        mapped(".map(x, x + x)", 20),
        // Each list shares its items with others; whoever compares them looks at all.
        format!("{shared} == {shared}"),
        squared,
        "lists.range(1000000000000).size() > 0".to_owned(),
        "lists.range(100000).map(x, self.text).join(self.text) != ''".to_owned(),
        "lists.range(20000).distinct().size() > 0".to_owned(),
        "sets.contains(lists.range(20000), lists.range(20000))".to_owned(),
        "lists.range(5000).all(x, 'a'.matches('a{' + string(x) + '}') || true)".to_owned(),
    ] {
        let refused = refusals(&rule, 200);
        assert_eq!(refused.len(), 1, "{rule}: {refused:?}");
        let expected = "call cost exceeds limit for rule: no";
        assert!(refused[0].contains(expected), "{rule}: {refused:?}");
    }
}

#[test]
fn precision_is_bounded() {
    let refused = refusals("'%.99999f'.format([1.0]) != ''", 1);
    assert!(refused[0].contains("precision is too large"), "{refused:?}");
    assert_eq!(refusals("'%.2f'.format([1.0]) == '1.00'", 1).len(), 0);
}

#[test]
fn ordinary_rules_over_large_lists_hold() {
    for rule in [
        "self.list.all(x, x.startsWith('item ') && x.matches('^item [0-9]+$'))",
        "self.list.map(x, x.size()).all(x, x > 5)",
        "self.list.filter(x, x.endsWith('7')).size() == 200",
        "self.list.exists_one(x, x == 'item 17')",
        "!self.list.exists(x, x in ['a', 'b'])",
        "self.list.map(x, x.endsWith('9'), x.replace('item ', '')).join(',').size() > 100",
        "self.list.slice(0, 40).all(x, self.list.exists(y, x == y))",
    ] {
        assert_eq!(refusals(rule, 2000), Vec::<String>::new(), "{rule}");
    }
}

/// Many rules that each cost little cost too much together.
#[test]
fn all_rules_of_an_object_share_a_budget() {
    let rule = "lists.range(9000).all(x, x >= 0)";
    let item = json!({"type": "integer", "x-kubernetes-validations": [{"rule": rule}]});
    let list = json!({"type": "array", "items": item});
    let root = json!({"type": "object", "properties": {"list": list}});
    let schema = Schema::compile(&root).expect("a schema");
    let validate = |items: usize| schema.validate(&json!({"list": vec![1; items]}), None);
    assert!(validate(10).is_empty());
    let errors = validate(2000);
    assert_eq!(errors.len(), 1);
    let expected = "running out of cost budget";
    assert!(
        errors[0].message.contains(expected),
        "{}",
        errors[0].message
    );
}

/// As many items as fit into a body: looking for each among all others would take for ever.
#[test]
fn long_lists_that_are_maps_are_compared() {
    let rule = json!([{"rule": "self.v >= oldSelf.v", "message": "no"}]);
    let item = json!({
        "type": "object", "required": ["name"], "x-kubernetes-validations": rule,
        "properties": {"name": {"type": "string"}, "v": {"type": "integer"}},
    });
    let list = json!({
        "type": "array", "items": item,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
    });
    let root = json!({"type": "object", "properties": {"list": list}});
    let schema = Schema::compile(&root).expect("a schema");
    let object = |v: i64| {
        let item = |index: usize| json!({"name": format!("{index}"), "v": v});
        json!({"list": (0..60_000).map(item).collect::<Vec<_>>()})
    };
    assert!(schema.validate(&object(2), Some(&object(1))).is_empty());
    assert!(!schema.validate(&object(1), Some(&object(2))).is_empty());
}
