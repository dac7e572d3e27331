//! A time on the command line: `2026-12-24T18:00:00Z`, or `2h` for in two hours.

use std::str::FromStr;

use jiff::Timestamp;

/// A time, or a duration from now on.
#[derive(Clone, Copy, Debug)]
pub(super) enum PointInTime {
    At(Timestamp),
    After(std::time::Duration),
}

impl FromStr for PointInTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(time) = text.parse() {
            return Ok(Self::At(time));
        }
        let duration: Result<api::Duration, _> = text.parse();
        let duration = duration.map(|duration| Self::After(duration.length()));
        duration.map_err(|_| {
            "write a time such as 2026-12-24T18:00:00Z or a duration such as 2h".to_owned()
        })
    }
}

impl PointInTime {
    /// The time itself; `None` if it is too far away.
    pub(super) fn time(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::At(time) => Some(time),
            Self::After(duration) => now.checked_add(duration).ok(),
        }
    }
}
