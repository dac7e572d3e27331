//! The cells of events, whose fields have different names in their two groups.

use serde_json::Value;

use super::duration::since;
use crate::metadata::text;

/// One cell of an event.
pub(super) fn cell(event: &Value, head: &str, now: &str) -> Value {
    let about = event.get("regarding").unwrap_or(&event["involvedObject"]);
    match head {
        "Last Seen" => ago(event, LAST_SEEN, now),
        "First Seen" => ago(event, FIRST_SEEN, now),
        "Type" => event["type"].clone(),
        "Reason" => event["reason"].clone(),
        "Object" => {
            let kind = text(about, "/kind").to_lowercase();
            format!("{kind}/{}", text(about, "/name")).into()
        }
        "Subobject" => text(about, "/fieldPath").into(),
        "Source" => first(event, SOURCE).into(),
        "Message" => first(event, &["/message", "/note"]).trim().into(),
        "Count" => {
            let counts = ["/series/count", "/count", "/deprecatedCount"];
            let count = counts
                .iter()
                .find_map(|place| event.pointer(place)?.as_i64());
            count.unwrap_or(1).into()
        }
        _ => Value::Null,
    }
}

const LAST_SEEN: &[&str] = &[
    "/lastTimestamp",
    "/deprecatedLastTimestamp",
    "/series/lastObservedTime",
    "/eventTime",
];
const FIRST_SEEN: &[&str] = &["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"];
const SOURCE: &[&str] = &[
    "/source/component",
    "/deprecatedSource/component",
    "/reportingComponent",
    "/reportingController",
];

/// The first of these fields that is not empty.
fn first<'e>(event: &'e Value, places: &[&str]) -> &'e str {
    let mut texts = places.iter().map(|place| text(event, place));
    texts.find(|text| !text.is_empty()).unwrap_or_default()
}

fn ago(event: &Value, places: &[&str], now: &str) -> Value {
    match first(event, places) {
        "" => "<unknown>".into(),
        time => since(time, now).into(),
    }
}
