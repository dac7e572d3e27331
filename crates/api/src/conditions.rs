//! Looking things up in a list of conditions.

use crate::Condition;

/// The condition type every object here uses for "as it should be".
pub const READY: &str = "Ready";

/// The condition of one type, the first if there are several.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of one type is there and `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == "True")
}
