//! A version as people see it: shortened where it is long, and in one colour on every page.

use api::revision::identity;

use super::html::{Element, tag};

/// How many colours the style sheet has.
const COLOURS: u64 = 11;
/// How much of a digest and of a commit is shown.
const DIGEST_LENGTH: usize = 12;
const COMMIT_LENGTH: usize = 7;

/// The class with the colour of a version. Releases that follow each other differ.
pub(super) fn colour(version: &str) -> String {
    format!("v{}", colour_number(identity(version)) % COLOURS)
}

fn colour_number(version: &str) -> u64 {
    let version = version.strip_prefix('v').unwrap_or(version);
    let is_number = |character: char| character.is_ascii_digit() || character == '.';
    let end = version.find(|character| !is_number(character));
    let (core, rest) = version.split_at(end.unwrap_or(version.len()));
    let numbers: Result<Vec<u64>, _> = core.split('.').map(str::parse).collect();
    match numbers {
        Ok(numbers) if numbers.len() > 1 => {
            let weighted = numbers.iter().zip([7, 4, 1]);
            let sum: u64 = weighted
                .map(|(number, weight)| number % COLOURS * weight)
                .sum();
            sum + hash(rest)
        }
        _ => hash(version),
    }
}

/// FNV-1a; 0 for no text.
fn hash(text: &str) -> u64 {
    if text.is_empty() {
        return 0;
    }
    let start = 0xcbf2_9ce4_8422_2325_u64;
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(start, mix) >> 7
}

/// A version without what only machines read: the tag of a digest, else the start of a digest or commit.
pub(super) fn shortened(version: &str) -> String {
    let (reference, digest) = match version.split_once('@') {
        Some((reference, digest)) => (Some(reference), digest),
        None => (None, version),
    };
    let is_hash = |text: &str| text.len() >= 40 && text.bytes().all(|it| it.is_ascii_hexdigit());
    let Some((algorithm, hex)) = digest.split_once(':') else {
        return match is_hash(version) {
            true => version[..COMMIT_LENGTH].to_owned(),
            false => version.to_owned(),
        };
    };
    let is_hex = is_hash(hex);
    match (algorithm, reference) {
        _ if !is_hex => version.to_owned(),
        ("sha1", Some(reference)) => format!("{reference}@{}", &hex[..COMMIT_LENGTH]),
        (_, Some(reference)) if !reference.is_empty() => reference.to_owned(),
        _ => format!("{algorithm}:{}", &hex[..DIGEST_LENGTH]),
    }
}

/// A version in its colour, with the whole text as its title where it is shortened.
pub(super) fn chip(version: &str) -> Element {
    text_of(version, "version")
}

/// A version as the largest text of a card.
pub(super) fn headline(version: &str) -> Element {
    let size = match shortened(version).chars().count() {
        0..=9 => "headline",
        10..=14 => "headline long",
        _ => "headline longer",
    };
    text_of(version, size)
}

fn text_of(version: &str, class: &str) -> Element {
    let text = shortened(version);
    let element = tag("code").class(format_args!("{class} {}", colour(version)));
    match text == version {
        true => element.text(text),
        false => element.with("title", version).text(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_that_follow_each_other_have_different_colours() {
        for (one, other) in [
            ("6.1.0", "6.2.0"),
            ("6.1.0", "6.1.1"),
            ("6.9.0", "7.0.0"),
            ("v1.2.3", "v1.2.4"),
            ("1.0.0-rc.1", "1.0.0"),
        ] {
            assert_ne!(colour(one), colour(other), "{one} and {other}");
        }
        // The style sheet has neighbours on the colour wheel five numbers apart.
        for (one, other) in [("6.2.0", "6.4.0"), ("6.2.0", "6.3.0"), ("1.0.1", "1.0.3")] {
            let [one, other] = [one, other].map(|it| colour_number(it) % COLOURS);
            let distance = one.abs_diff(other);
            let distance = distance.min(COLOURS - distance);
            assert!((1..5).contains(&distance), "{one} and {other}");
        }
        assert_eq!(colour("v1.2.3"), colour("1.2.3"));
        assert_eq!(colour(""), "v0");
    }

    #[test]
    fn a_digest_has_one_colour_with_and_without_its_tag() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        assert_eq!(colour(&digest), colour(&format!("6.2.0@{digest}")));
    }

    #[test]
    fn digests_and_commits_are_shortened() {
        let (digest, commit) = ("ab".repeat(32), "0123456789".repeat(4));
        for (version, expected) in [
            ("6.2.0".to_owned(), "6.2.0"),
            (format!("6.2.0@sha256:{digest}"), "6.2.0"),
            (format!("sha256:{digest}"), "sha256:abababababab"),
            (format!("main@sha1:{commit}"), "main@0123456"),
            ("main@sha1:ab".to_owned(), "main@sha1:ab"),
            ("a:b@c".to_owned(), "a:b@c"),
        ] {
            assert_eq!(shortened(&version), expected);
        }
    }
}
