//! Finds objects whose kind or API version is almost one of ours: the API server would refuse them, and
//! without this they would be taken for objects of others.

use serde_json::Value;

use super::{super::format::closest_name, schema::EmbeddedSchema};

/// How many letters of an API group may be wrong.
const WRONG_LETTERS: usize = 3;

/// The field that is wrong, and what is probably meant.
pub(super) fn near_miss(value: &Value, schema: &EmbeddedSchema) -> Option<(&'static str, String)> {
    let (version, kind) = (value["apiVersion"].as_str()?, value["kind"].as_str()?);
    let (group, _) = version.split_once('/')?;
    let known: Vec<(&str, &str)> = schema.kinds().collect();
    let group_of = |version: &'_ str| version.split('/').next().unwrap_or_default().to_owned();
    let mut of_group = known
        .iter()
        .filter(|(it, _)| group_of(it) == group)
        .peekable();
    if of_group.peek().is_none() {
        let near = |it: &&(&str, &str)| {
            it.1 == kind && strsim::damerau_levenshtein(&group_of(it.0), group) <= WRONG_LETTERS
        };
        let (meant, _) = known.iter().find(near)?;
        let text = format!("there is no API group {group}: did you mean {meant}?");
        return Some(("apiVersion", text));
    }
    let of_group: Vec<&(&str, &str)> = of_group.collect();
    if let Some((meant, _)) = of_group.iter().find(|(_, it)| *it == kind) {
        let text = format!("{kind} has no version {version}: did you mean {meant}?");
        return Some(("apiVersion", text));
    }
    let meant = closest_name(kind, of_group.iter().map(|(_, kind)| *kind))?;
    let text = format!("{group} has no kind {kind}: did you mean {meant}?");
    Some(("kind", text))
}
