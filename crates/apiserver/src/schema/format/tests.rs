//! Texts that have a format, and texts that have not.

use super::*;

fn check_all(format: &str, good: &[&str], bad: &[&str]) {
    for text in good {
        assert_eq!(check(format, text), Some(true), "{format} {text:?}");
    }
    for text in bad {
        assert_eq!(check(format, text), Some(false), "{format} {text:?}");
    }
}

#[test]
fn times() {
    check_all(
        "date",
        &["2024-02-29"],
        &["2023-02-29", "24-01-01", "2024-1-1", ""],
    );
    check_all(
        "date-time",
        &["2024-01-02T03:04:05Z", "2024-01-02t03:04:05.123+01:00"],
        &[
            "2024-01-02",
            "2024-01-02T24:00:00Z",
            "2024-01-02T03:04:05",
            "x",
        ],
    );
    check_all(
        "duration",
        &["1h30m", "22 ns", "2 days", "0", "-1.5h"],
        &["", "abc", "1x"],
    );
}

#[test]
fn names_and_numbers() {
    check_all(
        "uuid",
        &["123e4567-e89b-12d3-a456-426614174000"],
        &["123e4567"],
    );
    check_all("byte", &["aGk=", "aGVsbG8h"], &["", "a", "a*b="]);
    check_all("ipv4", &["10.0.0.1", "010.0.0.1"], &["10.0.0", "::1"]);
    check_all("ipv6", &["::1"], &["10.0.0.1", ":"]);
    check_all(
        "cidr",
        &["10.0.0.0/8", "::/0"],
        &["10.0.0.0", "10.0.0.0/33"],
    );
    check_all("mac", &["01:02:03:04:ab:cd", "0102.0304.abcd"], &["01:02"]);
    check_all("isbn", &["3836221195", "978-3401013190"], &["3836221190"]);
    check_all(
        "creditcard",
        &["4220-8554-2622-2389"],
        &["4220855426213389"],
    );
    check_all("k8s-short-name", &["a-b"], &["A", "-a", "a.b"]);
}

#[test]
fn addresses() {
    check_all(
        "uri",
        &[
            "http://foo.bar/#com",
            "mailto:a@b.c",
            "/abs/dir",
            "http://[::1]:80/x",
            "xyz://a",
        ],
        &[
            "",
            "foobar.com",
            "./rel",
            "http://a b/",
            "http://a/%zz",
            "http://a:x/",
        ],
    );
    check_all(
        "email",
        &["a@b.c", "Ann <a@b.c>"],
        &["", "a", "a@", "@b", "a b@c", "a..b@c"],
    );
    check_all(
        "hostname",
        &["a", "a.example", "a-b.example"],
        &["", "-a", "a_b", "a.b1"],
    );
}
