//! Durations as people write them in manifests: `90s`, `1h30m`.
//!
//! The notation is Go's, limited to the units that make sense for deployments.
//! What the CRD's pattern lets through always parses and never overflows.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The API server refuses anything else.
pub const PATTERN: &str = r"^([0-9]{1,6}(\.[0-9]{1,3})?(ms|s|m|h))+$";
const MAX_LENGTH: usize = 32;

/// A length of time that remembers how it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duration {
    text: String,
    length: std::time::Duration,
}

/// The text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotADuration {
    text: String,
}

impl fmt::Display for NotADuration {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            text,
            "{:?} is not a duration such as 90s or 1h30m",
            self.text
        )
    }
}

impl std::error::Error for NotADuration {}

impl Duration {
    /// The length itself.
    pub fn length(&self) -> std::time::Duration {
        self.length
    }
}

impl From<&Duration> for std::time::Duration {
    fn from(duration: &Duration) -> Self {
        duration.length
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str(&self.text)
    }
}

impl FromStr for Duration {
    type Err = NotADuration;

    fn from_str(text: &str) -> Result<Self, NotADuration> {
        let length = (text.len() <= MAX_LENGTH)
            .then(|| sum_of_parts(text))
            .flatten();
        match length {
            Some(length) => Ok(Self {
                text: text.to_owned(),
                length,
            }),
            None => Err(NotADuration {
                text: text.to_owned(),
            }),
        }
    }
}

fn sum_of_parts(text: &str) -> Option<std::time::Duration> {
    let mut total = std::time::Duration::ZERO;
    let mut rest = text;
    loop {
        let unit_at = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let (number, tail) = rest.split_at(unit_at);
        let unit_ends = tail
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_ends);
        let milliseconds = thousandths(number)?.checked_mul(milliseconds_in(unit)?)? / 1000;
        total = total.checked_add(std::time::Duration::from_millis(milliseconds))?;
        if tail.is_empty() {
            return Some(total);
        }
        rest = tail;
    }
}

/// `1.5` as 1500.
fn thousandths(number: &str) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let fits = (1..=6).contains(&whole.len()) && (1..=3).contains(&fraction.len());
    if !fits || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let fraction: u64 = format!("{fraction:0<3}").parse().ok()?;
    Some(whole.parse::<u64>().ok()? * 1000 + fraction)
}

fn milliseconds_in(unit: &str) -> Option<u64> {
    match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": MAX_LENGTH, "pattern": PATTERN })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, milliseconds: Option<u64>) {
        let parsed = text.parse::<Duration>().ok();
        let length = parsed.map(|duration| duration.length().as_millis() as u64);
        assert_eq!(length, milliseconds, "{text:?}");
    }

    #[test]
    fn reads_what_people_write() {
        check("90s", Some(90_000));
        check("1h30m", Some(5_400_000));
        check("1.5h", Some(5_400_000));
        check("250ms", Some(250));
        check("0s", Some(0));
        check("1h0m0s", Some(3_600_000));
        check(
            "999999h999999h999999h999999h",
            Some(4 * 999_999 * 3_600_000),
        );
    }

    #[test]
    fn refuses_everything_else() {
        for text in [
            "", "5", "h", "-5m", "+5m", "1d", "1h 30m", "1e3s", "infs", "NaNs", "1..5s", ".5s",
            "5.s",
        ] {
            check(text, None);
        }
        check("9999999h", None);
        check("1.2345s", None);
        check("1µs", None);
        check(&"1h".repeat(17), None);
    }

    #[test]
    fn is_written_as_it_was_read() {
        let duration: Duration = serde_json::from_str("\"90s\"").unwrap();
        assert_eq!(serde_json::to_string(&duration).unwrap(), "\"90s\"");
        assert!(serde_json::from_str::<Duration>("\"soon\"").is_err());
    }
}
