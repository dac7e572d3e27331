//! Points in time as the stored objects hold them: whole seconds.

pub use jiff::Timestamp;

use api::Time;

/// The moment as it reads once it has been stored, so that a stored status equals a computed one.
pub(crate) fn stored(moment: Timestamp) -> Time {
    let seconds = Timestamp::from_second(moment.as_second());
    Time(seconds.unwrap_or(moment))
}

/// Some time later. A moment beyond the calendar is its end.
pub(crate) fn later(moment: Timestamp, by: std::time::Duration) -> Timestamp {
    moment.saturating_add(by).unwrap_or(Timestamp::MAX)
}
