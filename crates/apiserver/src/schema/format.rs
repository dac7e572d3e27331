//! The string formats that kube-apiserver validates; others are ignored.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use super::node::SchemaNode;

const TEXT_FORMATS: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// The format of a node, or nothing when its type has no such format.
pub(super) fn supported(node: &SchemaNode) -> &str {
    let format = node.format.as_str();
    let known = match (node.int_or_string, node.type_name.as_str()) {
        (true, _) | (_, "" | "string") => TEXT_FORMATS.contains(&normalized(format).as_str()),
        (_, "integer") => ["int32", "int64"].contains(&format),
        (_, "number") => ["float", "double"].contains(&format),
        _ => false,
    };
    if known { format } else { "" }
}

fn normalized(format: &str) -> String {
    format.replace('-', "")
}

/// Whether `text` has the format; `None` when that is no format of text.
pub(super) fn check(format: &str, text: &str) -> Option<bool> {
    let fits = match normalized(format).as_str() {
        "password" => true,
        "uri" => is_uri(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.contains('.') && (is_ipv4(text) || text.parse::<Ipv6Addr>().is_ok()),
        "ipv6" => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "date" => is_date(text),
        "datetime" => is_date_time(text),
        "duration" => is_duration(text),
        "k8sshortname" => text.len() <= 63 && expression("k8sshortname")?.is_match(text),
        "k8slongname" => text.len() <= 253 && expression("k8slongname")?.is_match(text),
        "ssn" => text.len() == 11 && expression("ssn")?.is_match(text),
        other => expression(other)?.is_match(text),
    };
    Some(fits)
}

/// Formats that are one regular expression.
fn expression(format: &str) -> Option<&'static Regex> {
    static EXPRESSIONS: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
        let channel = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*";
        let label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
        let quad = r"[A-Za-z0-9+/]";
        [
            ("bsonobjectid", "(?i)^[0-9a-f]{24}$".to_owned()),
            ("uuid", uuid("[0-9a-f]{4}", "[0-9a-f]{4}")),
            ("uuid3", uuid("3[0-9a-f]{3}", "[0-9a-f]{4}")),
            ("uuid4", uuid("4[0-9a-f]{3}", "[89ab][0-9a-f]{3}")),
            ("uuid5", uuid("5[0-9a-f]{3}", "[89ab][0-9a-f]{3}")),
            ("ssn", r"^\d{3}[- ]?\d{2}[- ]?\d{4}$".to_owned()),
            ("hexcolor", "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$".to_owned()),
            (
                "rgbcolor",
                format!(r"^rgb\({channel},{channel},{channel}\)$"),
            ),
            (
                "byte",
                format!("^(?:{quad}{{4}})*(?:{quad}{{2}}==|{quad}{{3}}=|{quad}{{4}})$"),
            ),
            ("k8sshortname", format!("^{label}$")),
            ("k8slongname", format!(r"^{label}(\.{label})*$")),
        ]
        .into_iter()
        .map(|(name, text)| (name, Regex::new(&text).expect("a constant expression")))
        .collect()
    });
    EXPRESSIONS
        .iter()
        .find(|(name, _)| *name == format)
        .map(|(_, regex)| regex)
}

fn uuid(third: &str, fourth: &str) -> String {
    format!("(?i)^[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}-?{fourth}-?[0-9a-f]{{12}}$")
}

/// An absolute URI or an absolute path.
fn is_uri(text: &str) -> bool {
    static URI: LazyLock<Regex> = LazyLock::new(|| {
        let escaped = "(?:[^%]|%[0-9a-fA-F]{2})*";
        let host = r"(?:[^@/?#]*@)?(?:\[[0-9a-fA-F:.%]+\]|[^\s/?#\[\]:<>^`{}|\\]*)(?::\d*)?";
        let scheme = "[a-zA-Z][a-zA-Z0-9+.-]*:";
        let text = format!(
            "^(?:/{escaped}|{scheme}//{host}(?:[/?#]{escaped})?|{scheme}(?:[^/].*|/[^/].*|/)?)$"
        );
        Regex::new(&text).expect("a constant expression")
    });
    !text.chars().any(|character| character.is_ascii_control()) && URI.is_match(text)
}

/// A mailbox, with or without a name before it.
fn is_email(text: &str) -> bool {
    static EMAIL: LazyLock<Regex> = LazyLock::new(|| {
        let atom = r"[^\s@<>(),:;\\\x22\[\]\x00-\x1f]+";
        let quoted = r"\x22(?:[^\x22\\]|\\.)*\x22";
        let address = format!(r"(?:{atom}|{quoted})@(?:{atom}|\[[^\[\]\\]*\])");
        let text = format!(r"^\s*(?:{address}|(?:[^<>@,]*|{quoted}\s*)<{address}>)\s*$");
        Regex::new(&text).expect("a constant expression")
    });
    let dots = |part: &str| part.starts_with('.') || part.ends_with('.') || part.contains("..");
    EMAIL.is_match(text) && !text.contains('"') && !text.split('@').any(dots) || {
        EMAIL.is_match(text) && text.contains('"')
    }
}

fn is_hostname(text: &str) -> bool {
    static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
        let sign = r"[a-zA-Z0-9\p{S}\p{L}]";
        let inner = r"[a-zA-Z0-9\-\p{S}\p{L}]";
        let text = format!(
            r"^({sign}((-?{sign}{{0,62}})?)|({sign}(({inner}{{0,61}}{sign})?)(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}})$"
        );
        Regex::new(&text).expect("a constant expression")
    });
    text.len() <= 255 && text.split('.').all(|part| part.len() <= 63) && HOSTNAME.is_match(text)
}

/// Leading zeros are tolerated, as they were once.
fn is_ipv4(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let fits = |part: &&str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && part.parse::<u32>().is_ok_and(|number| number < 256)
    };
    text.parse::<Ipv4Addr>().is_ok() || (parts.len() == 4 && parts.iter().all(fits))
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let digits = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let most = match (is_ipv4(address), address.parse::<Ipv6Addr>().is_ok()) {
        (true, _) => 32,
        (_, true) => 128,
        _ => return false,
    };
    digits && bits.parse::<u32>().is_ok_and(|bits| bits <= most)
}

fn is_mac(text: &str) -> bool {
    let hexadecimal = |length: usize| {
        move |part: &str| part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let pairs = |separator: char| {
        let count = text.split(separator).count();
        [6, 8, 20].contains(&count) && text.split(separator).all(hexadecimal(2))
    };
    let quads =
        [3, 4, 10].contains(&text.split('.').count()) && text.split('.').all(hexadecimal(4));
    pairs(':') || pairs('-') || quads
}

fn digits_of_isbn(text: &str) -> Vec<u32> {
    let kept = text
        .chars()
        .filter(|character| !character.is_whitespace() && *character != '-');
    kept.map(|character| match character {
        'X' => 10,
        other => other.to_digit(10).unwrap_or(99),
    })
    .collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = digits_of_isbn(text);
    let well_formed = digits.len() == 10
        && digits.iter().take(9).all(|digit| *digit < 10)
        && digits.iter().all(|digit| *digit <= 10);
    well_formed
        && (1..)
            .zip(&digits)
            .map(|(place, digit)| place * digit)
            .sum::<u32>()
            % 11
            == 0
}

fn is_isbn13(text: &str) -> bool {
    let digits = digits_of_isbn(text);
    if digits.len() != 13 || digits.iter().any(|digit| *digit > 9) {
        return false;
    }
    let weighted = digits
        .iter()
        .zip([1, 3].iter().cycle())
        .map(|(digit, factor)| digit * factor);
    weighted.sum::<u32>() % 10 == 0
}

fn is_credit_card(text: &str) -> bool {
    static ISSUERS: LazyLock<Regex> = LazyLock::new(|| {
        let text = r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$";
        Regex::new(text).expect("a constant expression")
    });
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let doubled = |(place, digit): (usize, u32)| match place % 2 {
        0 => digit,
        _ => digit * 2 / 10 + digit * 2 % 10,
    };
    let values = digits.chars().rev().filter_map(|digit| digit.to_digit(10));
    ISSUERS.is_match(&digits) && values.enumerate().map(doubled).sum::<u32>() % 10 == 0
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else {
        return false;
    };
    let digits = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !digits(year, 4) || !digits(month, 2) || !digits(day, 2) {
        return false;
    }
    match (year.parse(), month.parse(), day.parse()) {
        (Ok(year), Ok(month), Ok(day)) => jiff::civil::Date::new(year, month, day).is_ok(),
        _ => false,
    }
}

fn is_date_time(text: &str) -> bool {
    static TIME: LazyLock<Regex> = LazyLock::new(|| {
        let text = "^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
        Regex::new(text).expect("a constant expression")
    });
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    let Some(found) = TIME.captures(time) else {
        return false;
    };
    is_date(date) && &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}

/// A Go duration, or a Scala duration such as `2 days`.
fn is_duration(text: &str) -> bool {
    static GO: LazyLock<Regex> = LazyLock::new(|| {
        let number = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)";
        let text = format!(r"^[-+]?(?:0|(?:{number}(?:ns|us|µs|μs|ms|s|m|h))+)$");
        Regex::new(&text).expect("a constant expression")
    });
    static WORDS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"([0-9]+)\s*([A-Za-zµ]+)").expect("a constant expression"));
    if GO.is_match(text) {
        return true;
    }
    let mut found = false;
    for part in WORDS.captures_iter(text) {
        if part[1].parse::<i64>().is_err() {
            return false;
        }
        found = found || is_time_unit(&part[2].to_lowercase());
    }
    found
}

fn is_time_unit(word: &str) -> bool {
    let short = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    let long = [
        "nano", "micro", "milli", "sec", "min", "hour", "day", "week",
    ];
    short.contains(&word) || long.iter().any(|unit| word.starts_with(unit))
}

#[cfg(test)]
mod tests;
