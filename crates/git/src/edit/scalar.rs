//! Writes a value as a YAML scalar.

use super::document::Quotes;

/// Writes a value with the current quotes. An unquoted value gets double quotes if a YAML 1.1 or 1.2
/// parser would not read it as text.
pub(super) fn render(value: &str, quotes: Quotes) -> String {
    match quotes {
        Quotes::Single => format!("'{}'", value.replace('\'', "''")),
        Quotes::Double => double_quoted(value),
        Quotes::None if is_plain(value) => value.to_owned(),
        Quotes::None => double_quoted(value),
    }
}

fn double_quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

fn is_plain(value: &str) -> bool {
    let starts_well = value.starts_with(|c: char| c.is_alphanumeric() || "./_+-".contains(c));
    let is_marker = value == "-"
        || value.starts_with("- ")
        || value.starts_with("---")
        || value.starts_with("...");
    let has_syntax = value.contains([',', '[', ']', '{', '}', '"', '\'', '\u{feff}'])
        || value.contains(": ")
        || value.contains(" #")
        || value.contains("\t")
        || value.ends_with([' ', ':']);
    starts_well && !is_marker && !has_syntax && !is_not_text(value)
}

/// Whether a YAML parser reads it as a number, boolean, date or null.
fn is_not_text(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let words = [
        "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", ".inf", "+.inf", "-.inf",
        ".nan", "=", "<<",
    ];
    words.contains(&lower.as_str()) || is_number(&lower) || is_date(&lower)
}

fn is_number(lower: &str) -> bool {
    let digits = lower.strip_prefix(['+', '-']).unwrap_or(lower);
    if digits.is_empty() || !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return false;
    }
    let with_base = [("0x", 16), ("0o", 8), ("0b", 2)]
        .into_iter()
        .find_map(|(prefix, base)| digits.strip_prefix(prefix).map(|rest| (rest, base)));
    if let Some((rest, base)) = with_base {
        return !rest.is_empty() && rest.chars().all(|c| c.is_digit(base) || c == '_');
    }
    let without_underscores = digits.replace('_', "");
    let is_decimal = without_underscores.parse::<f64>().is_ok();
    // Minutes and seconds: 190:20:30 is a number to YAML 1.1.
    let is_sexagesimal = digits.contains(':')
        && digits.split(':').all(|part| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_digit() || "._".contains(c))
        });
    is_decimal || is_sexagesimal
}

/// `2026-11-15`, with or without a time behind it.
fn is_date(lower: &str) -> bool {
    let mut parts = lower.splitn(3, '-');
    let (Some(year), Some(month), Some(day)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let day_digits = day.bytes().take_while(u8::is_ascii_digit).count();
    let behind = &day[day_digits..];
    year.len() == 4
        && is_digits(year)
        && is_digits(month)
        && month.len() <= 2
        && (1..=2).contains(&day_digits)
        && (behind.is_empty() || behind.starts_with(['t', ' ']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, plain: &str) {
        assert_eq!(render(value, Quotes::None), plain);
    }

    #[test]
    fn versions_stay_plain() {
        for value in [
            "1.2.3",
            "v1.2.3",
            "6.5.0-rc.1",
            "main@sha1:abc",
            "a/b:1.2",
            "0.0.1",
            "1.2.3+build",
            "2026-11-15-1",
            // Nearly dates and numbers.
            "20265-11-15",
            "abcd-11-15",
            "2026-xx-15",
            "2026-111-15",
            "2026-11-155",
            "2026-11-x",
            "2026-11-15x",
            "0x",
            "0xyz",
            "nan",
            "infinity",
            "1a:2b",
            "12::30",
        ] {
            check(value, value);
        }
    }

    #[test]
    fn values_that_a_parser_does_not_read_as_text_are_quoted() {
        for value in [
            "1",
            "1.10",
            "-1",
            "+1",
            ".5",
            "1e3",
            "12345e7",
            "0x1f",
            "0x1_f",
            "0o17",
            "0b1",
            "017",
            "1_000",
            "190:20:30",
            "true",
            "Yes",
            "NO",
            "on",
            "off",
            "y",
            "null",
            "~",
            ".inf",
            ".NaN",
            "2026-11-15",
            "2026-11-15T10:00:00Z",
            "<<",
            "=",
        ] {
            check(value, &format!("\"{value}\""));
        }
    }

    #[test]
    fn values_with_yaml_syntax_are_quoted() {
        for (value, quoted) in [
            ("a: b", "\"a: b\""),
            ("a #b", "\"a #b\""),
            ("*a", "\"*a\""),
            ("&a", "\"&a\""),
            ("- a", "\"- a\""),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \\\"hi\\\"\""),
            ("a\\b: ", "\"a\\\\b: \""),
            ("---", "\"---\""),
        ] {
            check(value, quoted);
        }
    }

    #[test]
    fn quotes_are_kept() {
        assert_eq!(render("it's", Quotes::Single), "'it''s'");
        assert_eq!(render("1.2.3", Quotes::Double), "\"1.2.3\"");
    }
}
