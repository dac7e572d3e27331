//! Formats ages, such as `5m`.

use jiff::Timestamp;
use serde_json::Value;

use crate::metadata;

/// The age of an object.
pub(super) fn age(object: &Value, now: &str) -> String {
    match metadata::text(object, "/metadata/creationTimestamp") {
        "" => "<unknown>".to_owned(),
        time => since(time, now),
    }
}

/// The age of a timestamp.
pub(super) fn since(time: &str, now: &str) -> String {
    match (time.parse::<Timestamp>(), now.parse::<Timestamp>()) {
        (Ok(time), Ok(now)) => human(now.as_second() - time.as_second()),
        _ => "<invalid>".to_owned(),
    }
}

/// A number of seconds with at most two units, the fewer the longer it is.
pub(super) fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let two = |large: i64, unit: &str, small: i64, rest: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{rest}"),
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two(days, "d", hours % 24, "h"),
        _ if days < 730 => format!("{days}d"),
        _ if days < 2920 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn durations_get_coarser() {
        let drawn: Vec<String> = [
            -5,
            0,
            119,
            120,
            125,
            600,
            10_799,
            10_800,
            10_860,
            28_800,
            172_800,
            180_000,
            691_200,
            63_072_000,
            63_158_400,
            252_288_000,
        ]
        .into_iter()
        .map(human)
        .collect();
        assert_eq!(
            drawn.join(" "),
            "<invalid> 0s 119s 2m 2m5s 10m 179m 3h 3h1m 8h 2d 2d2h 8d 2y 2y1d 8y"
        );
    }
}
