//! Signatures of requests: `X-Signature: <algorithm>=<hex>`, compared in constant time.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

/// The header with the signature.
pub(crate) const SIGNATURE: &str = "x-signature";
/// The header with the time of the signature, in seconds since 1970.
pub(crate) const TIMESTAMP: &str = "x-signature-timestamp";

/// A key. It has neither `Debug` nor `Display`, so that it cannot be logged.
pub(crate) struct HookSigningKey(Vec<u8>);

impl HookSigningKey {
    /// Nothing if there are no bytes: anybody could sign with an empty key.
    pub(crate) fn new(bytes: Vec<u8>) -> Option<Self> {
        (!bytes.is_empty()).then_some(Self(bytes))
    }

    /// Whether the signature was made with this key over the concatenated parts.
    pub(crate) fn has_signed(&self, parts: &[&[u8]], signature: &str) -> bool {
        let Some((algorithm, digest)) = signature.split_once('=') else {
            return false;
        };
        let Some(digest) = decode_hex(digest) else {
            return false;
        };
        match algorithm {
            "sha224" => self.verify::<Hmac<Sha224>>(parts, &digest),
            "sha256" => self.verify::<Hmac<Sha256>>(parts, &digest),
            "sha384" => self.verify::<Hmac<Sha384>>(parts, &digest),
            "sha512" => self.verify::<Hmac<Sha512>>(parts, &digest),
            _ => false,
        }
    }

    /// Whether this is the token, apart from white space around it.
    pub(crate) fn is_token(&self, token: &str) -> bool {
        let own = Self(self.0.trim_ascii().to_vec());
        let given = Self(token.trim().as_bytes().to_vec());
        // Equal keys make equal signatures, and those are compared in constant time.
        let signature = <Hmac<Sha256> as KeyInit>::new_from_slice(&own.0).map(Mac::finalize);
        let signature = signature.map(|signature| signature.into_bytes());
        !own.0.is_empty()
            && signature.is_ok_and(|signature| given.verify::<Hmac<Sha256>>(&[], &signature))
    }

    fn verify<M: Mac + KeyInit>(&self, parts: &[&[u8]], digest: &[u8]) -> bool {
        let Ok(mut mac) = <M as KeyInit>::new_from_slice(&self.0) else {
            return false;
        };
        for part in parts {
            mac.update(part);
        }
        mac.verify_slice(digest).is_ok()
    }
}

/// The SHA-256 of the concatenated parts, in hex.
pub(crate) fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    let bytes = hash.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn decode_hex(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let byte = |pair: &[u8; 2]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    pairs.iter().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_of_the_weave_pipeline_controller_are_accepted() {
        let key = HookSigningKey::new(b"hmac-secret".to_vec()).unwrap();
        for (signature, expected) in [
            (
                "sha256=4dbd2292025f21bd07ca900059e19286df5ad14c05c4f00f19a2959f2d1ac56b",
                true,
            ),
            (
                "sha224=e66bf62f87d8f30ef85f3fa071635672fb0151497ca6a7d2484c7269",
                true,
            ),
            (
                "sha256=4dbd2292025f21bd07ca900059e19286df5ad14c05c4f00f19a2959f2d1ac56c",
                false,
            ),
            (
                "sha256=4dbd2292025f21bd07ca900059e19286df5ad14c05c4f00f19a2959f2d1ac5",
                false,
            ),
            ("sha1=4dbd2292025f21bd07ca900059e19286df5ad14c", false),
            ("sha256=", false),
            ("sha256", false),
            ("sha256=4=4", false),
            ("sha256=zz", false),
            ("sha256=abc", false),
            ("", false),
        ] {
            assert_eq!(key.has_signed(&[b""], signature), expected, "{signature}");
        }
        assert!(HookSigningKey::new(Vec::new()).is_none());
    }

    #[test]
    fn tokens_are_equal_or_refused() {
        let key = HookSigningKey::new(b"s3cret\n".to_vec()).unwrap();
        for (token, expected) in [
            ("s3cret", true),
            (" s3cret ", true),
            ("s3cre", false),
            ("s3cret1", false),
            ("S3cret", false),
            ("", false),
        ] {
            assert_eq!(key.is_token(token), expected, "{token}");
        }
        let blank = HookSigningKey::new(b" \n".to_vec()).unwrap();
        assert!(!blank.is_token("") && !blank.is_token(" "));
    }

    /// From RFC 4231, test case 2.
    #[test]
    fn all_algorithms_agree_with_rfc_4231() {
        let key = HookSigningKey::new(b"Jefe".to_vec()).unwrap();
        for signature in [
            "sha224=a30e01098bc6dbbf45690f3a7e9e6d0f8bbea2a39e6148008fd05e44",
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            "sha384=af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e\
             8e2240ca5e69e2c78b3239ecfab21649",
            "sha512=164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554\
             9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
        ] {
            let message: &[&[u8]] = &[b"what do ya want ", b"for nothing?"];
            assert!(key.has_signed(message, signature), "{signature}");
        }
    }
}
