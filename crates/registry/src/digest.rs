//! Digests of contents: `sha256:…` and `sha512:…`.

use std::fmt;

use sha2::{Digest as _, Sha256, Sha512};

use crate::Error;

/// The digest of some bytes, with its algorithm.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest(String);

impl Digest {
    /// Parses a digest.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let is_hex = |digits: &str, length| {
            let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            digits.len() == length && digits.bytes().all(is_digit)
        };
        let is_valid = match text.split_once(':') {
            Some(("sha256", digits)) => is_hex(digits, 64),
            Some(("sha512", digits)) => is_hex(digits, 128),
            _ => false,
        };
        match is_valid {
            true => Ok(Self(text.to_owned())),
            false => Err(Error::InvalidDigest),
        }
    }

    /// The SHA-256 of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(format!("sha256:{}", hex(&Sha256::digest(bytes))))
    }

    /// The digest of other bytes by the same algorithm.
    pub(crate) fn of_same_algorithm(&self, bytes: &[u8]) -> Self {
        match self.0.starts_with("sha512:") {
            true => Self(format!("sha512:{}", hex(&Sha512::digest(bytes)))),
            false => Self::of(bytes),
        }
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digests_that_can_be_verified_are_accepted() {
        let empty = Digest::of(b"");
        assert_eq!(Digest::parse(empty.as_str()).ok(), Some(empty.clone()));
        let long = format!("sha512:{}", "0".repeat(128));
        let long = Digest::parse(&long).expect("a digest");
        assert!(
            long.of_same_algorithm(b"")
                .as_str()
                .starts_with("sha512:cf83e1357eefb8bd")
        );
        for text in [
            "",
            "sha256:",
            "sha256:ab",
            &empty.as_str().to_uppercase(),
            &format!("{empty}0"),
            &format!("blake3:{}", "0".repeat(64)),
        ] {
            assert!(Digest::parse(text).is_err(), "{text}");
        }
    }
}
