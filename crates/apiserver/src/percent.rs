//! Percent-encoding of URLs.

/// Decodes percent-encoded text; `None` if an escape is malformed. Invalid UTF-8 becomes replacement
/// characters.
pub(crate) fn decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        if *byte != b'%' {
            bytes.push(*byte);
            rest = after;
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The pairs of a query string, in order; malformed ones are left out, as kube-apiserver does.
pub(crate) fn pairs(query: &str) -> Vec<(String, String)> {
    let decode = |text: &str| decode(&text.replace('+', " "));
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((decode(name)?, decode(value)?))
    };
    query
        .split('&')
        .filter(|text| !text.is_empty())
        .filter_map(pair)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_or_refused() {
        assert_eq!(decode("a%2Fb").as_deref(), Some("a/b"));
        assert_eq!(decode("%ff").as_deref(), Some("\u{fffd}"));
        for malformed in ["%", "%2", "%zz", "%+1"] {
            assert_eq!(decode(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn malformed_pairs_are_left_out() {
        let expected = [
            ("a".to_owned(), "x y".to_owned()),
            ("b".to_owned(), String::new()),
        ];
        assert_eq!(pairs("a=x+y&c=%zz&&b"), expected);
    }
}
