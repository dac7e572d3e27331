//! Timestamps as stored objects have them: in whole seconds.

pub use jiff::Timestamp;

use api::Time;

/// The timestamp as it is stored, so that a stored status equals a computed one.
pub(crate) fn stored(timestamp: Timestamp) -> Time {
    let seconds = Timestamp::from_second(timestamp.as_second());
    Time(seconds.unwrap_or(timestamp))
}

/// The timestamp before a duration, at least the first one there is.
pub(crate) fn earlier(timestamp: Timestamp, by: std::time::Duration) -> Timestamp {
    timestamp.saturating_sub(by).unwrap_or(Timestamp::MIN)
}

/// The timestamp after a duration, at most the last one there is.
pub(crate) fn later(timestamp: Timestamp, by: std::time::Duration) -> Timestamp {
    timestamp.saturating_add(by).unwrap_or(Timestamp::MAX)
}
