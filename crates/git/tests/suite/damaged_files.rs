//! Manifests that are damaged at random: an edit fails, or changes the marked values and nothing else, as
//! another parser reads the file.

use git::edit::{markers, set_marked};
use serde_json::Value;
use testbed::damage::{Damage, for_each_case};

const MARKER: &str = "team:app:prod";

const FILES: &[&str] = &[
    "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata:\n  name: app\nspec:\n  chart:\n    \
     spec:\n      version: 1.0.0 # {\"$promotion\": \"team:app:prod\"}\n      chart: app\n  values:\n    \
     text: |\n      version: 1.0.0 # {\"$promotion\": \"team:app:prod\"}\n    more: &a {x: 1, y: [2, '3']}\n    \
     again: *a\n",
    "# {\"$promotion\": \"team:app:prod\"}\ntag: 'v1'\nother: \"v1\" # {\"$promotion\": \"team:app:dev\"}\n---\n\
     list:\n- 1.0 # {\"$promotion\": \"team:app:prod\"}\n- >-\n  folded\n  text\n...\n",
    "\u{feff}{a: 1, # {\"$promotion\": \"team:app:prod\"}\r\n b: \"x # y\", c: !!str 5}\r\n",
];

const VALUES: &[&str] = &[
    "2.0.0", "true", "it's", "a: b", "#", "0644", "- x", "é", "\"q\"", "~",
];

/// The documents as another parser reads them. Nothing if it does not, as for duplicate keys.
fn parsed(text: &str) -> Option<Vec<Value>> {
    serde_saphyr::from_multiple(text).ok()
}

/// Where two values differ: the value after the change.
fn differences<'a>(before: &'a Value, after: &'a Value, found: &mut Vec<&'a Value>) {
    match (before, after) {
        (Value::Object(one), Value::Object(other)) if one.keys().eq(other.keys()) => {
            let pairs = one.values().zip(other.values());
            pairs.for_each(|(one, other)| differences(one, other, found));
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let pairs = one.iter().zip(other);
            pairs.for_each(|(one, other)| differences(one, other, found));
        }
        (before, after) if before == after => {}
        (_, after) => found.push(after),
    }
}

fn damaged(damage: &mut Damage) -> Vec<u8> {
    let mut file = damage.pick(FILES).as_bytes().to_vec();
    for _ in 0..damage.below(3) {
        file = damage.bytes(&file);
    }
    file
}

fn check(file: &[u8], value: &str) -> bool {
    let _ = markers(file);
    let Ok(edited) = set_marked(file, MARKER, value) else {
        return false;
    };
    let again = set_marked(&edited.content, MARKER, value).expect("what was edited can be edited");
    assert_eq!((again.changed, &again.content), (0, &edited.content));
    if edited.changed == 0 {
        assert_eq!(file, edited.content);
        return false;
    }
    let before = std::str::from_utf8(file).expect("only text is edited");
    let after = String::from_utf8(edited.content.clone()).expect("text stays text");
    let (Some(before), Some(after)) = (parsed(before), parsed(&after)) else {
        return false;
    };
    let (before, after) = (Value::Array(before), Value::Array(after));
    let mut found = Vec::new();
    differences(&before, &after, &mut found);
    for changed in found {
        assert_eq!(changed, &Value::String(value.to_owned()));
    }
    true
}

#[test]
fn an_edit_of_a_damaged_file_changes_the_marked_values_or_nothing() {
    let edited = std::cell::Cell::new(0);
    for_each_case(|damage| {
        for _ in 0..20 {
            let file = damaged(damage);
            let value = damage.pick(VALUES);
            let is_edited = check(&file, value);
            edited.set(edited.get() + usize::from(is_edited));
        }
    });
    assert!(
        edited.get() > 20,
        "enough files are still edited: {}",
        edited.get()
    );
}
