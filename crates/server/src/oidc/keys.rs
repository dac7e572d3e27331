//! The public keys of a provider, and whether one of them signed a token.
//!
//! An algorithm is only used with a key of its own type, so that a public key never serves as a secret.
//! Symmetric algorithms and `none` do not exist here.

use std::str::FromStr;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use serde_json::Value;

/// A signature algorithm of ID tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigningAlgorithm {
    /// RSA PKCS#1 v1.5 with SHA-256.
    Rs256,
    /// RSA PKCS#1 v1.5 with SHA-384.
    Rs384,
    /// RSA PKCS#1 v1.5 with SHA-512.
    Rs512,
    /// RSA-PSS with SHA-256.
    Ps256,
    /// RSA-PSS with SHA-384.
    Ps384,
    /// RSA-PSS with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
}

const NAMES: [(&str, SigningAlgorithm); 8] = [
    ("RS256", SigningAlgorithm::Rs256),
    ("RS384", SigningAlgorithm::Rs384),
    ("RS512", SigningAlgorithm::Rs512),
    ("PS256", SigningAlgorithm::Ps256),
    ("PS384", SigningAlgorithm::Ps384),
    ("PS512", SigningAlgorithm::Ps512),
    ("ES256", SigningAlgorithm::Es256),
    ("ES384", SigningAlgorithm::Es384),
];

impl FromStr for SigningAlgorithm {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        let known = || NAMES.map(|(known, _)| known).join(", ");
        found
            .map(|(_, algorithm)| *algorithm)
            .ok_or_else(|| format!("{name:?} is not one of {}", known()))
    }
}

impl SigningAlgorithm {
    fn name(self) -> &'static str {
        let found = NAMES.iter().find(|(_, algorithm)| *algorithm == self);
        found.map_or("", |(name, _)| name)
    }

    fn rsa(self) -> Option<&'static RsaParameters> {
        match self {
            Self::Rs256 => Some(&RSA_PKCS1_2048_8192_SHA256),
            Self::Rs384 => Some(&RSA_PKCS1_2048_8192_SHA384),
            Self::Rs512 => Some(&RSA_PKCS1_2048_8192_SHA512),
            Self::Ps256 => Some(&RSA_PSS_2048_8192_SHA256),
            Self::Ps384 => Some(&RSA_PSS_2048_8192_SHA384),
            Self::Ps512 => Some(&RSA_PSS_2048_8192_SHA512),
            Self::Es256 | Self::Es384 => None,
        }
    }

    /// The curve, its verification and the bytes of a coordinate.
    fn elliptic(self) -> Option<(&'static str, &'static dyn VerificationAlgorithm, usize)> {
        match self {
            Self::Es256 => Some(("P-256", &ECDSA_P256_SHA256_FIXED, 32)),
            Self::Es384 => Some(("P-384", &ECDSA_P384_SHA384_FIXED, 48)),
            _ => None,
        }
    }
}

/// The keys that a provider publishes (a JSON Web Key Set).
#[derive(Debug, Default)]
pub(super) struct KeySet(Vec<PublicKey>);

/// The fields of a key that verifying needs; others, and keys of other types, are ignored.
#[derive(Deserialize, Debug)]
struct PublicKey {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// The keys of a document; those that cannot be read are left out. `None` if it is no key set.
    pub(super) fn parse(document: &Value) -> Option<Self> {
        let keys = document.get("keys")?.as_array()?.iter();
        let keys = keys.filter_map(|key| PublicKey::deserialize(key).ok());
        Some(Self(keys.collect()))
    }

    /// Whether a key with that id, or any key if the token names none, has signed the message.
    /// `None` if there is no such key.
    pub(super) fn verify(
        &self,
        (algorithm, key_id): (SigningAlgorithm, Option<&str>),
        message: &[u8],
        signature: &[u8],
    ) -> Option<bool> {
        let has_id = |key: &&PublicKey| key_id.is_none() || key.kid.as_deref() == key_id;
        let usable = self.0.iter().filter(has_id);
        let mut verified = usable.filter_map(|key| key.verify(algorithm, message, signature));
        let first = verified.next()?;
        Some(first || verified.any(|is_verified| is_verified))
    }
}

impl PublicKey {
    /// `None` if the key is not for signatures with this algorithm.
    fn verify(
        &self,
        algorithm: SigningAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Option<bool> {
        let is_for =
            |field: &Option<String>, wanted| field.as_deref().is_none_or(|it| it == wanted);
        if !is_for(&self.usage, "sig") || !is_for(&self.alg, algorithm.name()) {
            return None;
        }
        if let Some(parameters) = algorithm.rsa().filter(|_| self.kty == "RSA") {
            let (n, e) = (decode(self.n.as_ref()?)?, decode(self.e.as_ref()?)?);
            let key = RsaPublicKeyComponents {
                n: without_zeros(&n),
                e: without_zeros(&e),
            };
            return Some(key.verify(parameters, message, signature).is_ok());
        }
        let (curve, verification, length) = algorithm.elliptic().filter(|_| self.kty == "EC")?;
        if self.crv.as_deref() != Some(curve) {
            return None;
        }
        let (x, y) = (decode(self.x.as_ref()?)?, decode(self.y.as_ref()?)?);
        if x.len() != length || y.len() != length {
            return None;
        }
        let point = [&[4], &x[..], &y[..]].concat();
        let key = UnparsedPublicKey::new(verification, point);
        Some(key.verify(message, signature).is_ok())
    }
}

/// ring refuses numbers with leading zeros, which some providers send.
fn without_zeros(number: &[u8]) -> &[u8] {
    let start = number.iter().position(|byte| *byte != 0);
    &number[start.unwrap_or(number.len())..]
}

pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::rsa;
    use ring::signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        EcdsaSigningAlgorithm, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding,
    };
    use serde_json::json;

    use super::*;

    const MESSAGE: &[u8] = b"header.payload";
    const KEY: &str = include_str!("../../../testbed/src/oidc_provider/key-1.pem");

    /// A key set with one elliptic key, and what it signed.
    fn elliptic(curve: &str, algorithm: &'static EcdsaSigningAlgorithm) -> (Value, Vec<u8>) {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        let key = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).expect("a key");
        let point = &key.public_key().as_ref()[1..];
        let (x, y) = point.split_at(point.len() / 2);
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        let keys = json!({"keys": [{"kty": "EC", "crv": curve, "x": x, "y": y}]});
        let signature = key.sign(&random, MESSAGE).expect("a signature");
        (keys, signature.as_ref().to_vec())
    }

    /// A key set with one RSA key, and what it signed.
    fn rsa(encoding: &'static dyn RsaEncoding) -> (Value, Vec<u8>) {
        let der = KEY.lines().filter(|line| !line.starts_with('-'));
        let der = base64::engine::general_purpose::STANDARD.decode(der.collect::<String>());
        let key = rsa::KeyPair::from_pkcs8(&der.expect("base64")).expect("a key");
        let mut signature = vec![0; key.public().modulus_len()];
        let signed = key.sign(encoding, &SystemRandom::new(), MESSAGE, &mut signature);
        signed.expect("a signature");
        let parts = rsa::PublicKeyComponents::<Vec<u8>>::from(key.public());
        // Some providers send the number with a leading zero.
        let n = URL_SAFE_NO_PAD.encode([&[0], &parts.n[..]].concat());
        let keys = json!({"keys": [{"kty": "RSA", "n": n, "e": URL_SAFE_NO_PAD.encode(parts.e)}]});
        (keys, signature)
    }

    fn verify(keys: &Value, algorithm: &str, signature: &[u8]) -> Option<bool> {
        let keys = KeySet::parse(keys).expect("a key set");
        let algorithm = algorithm.parse().expect("an algorithm");
        keys.verify((algorithm, None), MESSAGE, signature)
    }

    #[test]
    fn a_key_verifies_only_with_its_own_algorithm() {
        for ((keys, signature), own) in [
            (elliptic("P-256", &ECDSA_P256_SHA256_FIXED_SIGNING), "ES256"),
            (elliptic("P-384", &ECDSA_P384_SHA384_FIXED_SIGNING), "ES384"),
            (rsa(&RSA_PKCS1_SHA256), "RS256"),
            (rsa(&RSA_PSS_SHA256), "PS256"),
        ] {
            for (name, _) in NAMES {
                let is_verified = verify(&keys, name, &signature) == Some(true);
                assert_eq!(is_verified, name == own, "{own} as {name}");
            }
        }
    }

    #[test]
    fn keys_for_something_else_are_not_used() {
        let (keys, signature) = rsa(&RSA_PKCS1_SHA256);
        for (field, value, expected) in [
            ("use", "sig", Some(true)),
            ("use", "enc", None),
            ("alg", "RS256", Some(true)),
            ("alg", "RS512", None),
            ("kty", "oct", None),
        ] {
            let mut keys = keys.clone();
            keys["keys"][0][field] = json!(value);
            assert_eq!(verify(&keys, "RS256", &signature), expected, "{field}");
        }
        let keys = KeySet::parse(&json!({"keys": [7, {"kid": "x"}]})).expect("a key set");
        let key = (SigningAlgorithm::Rs256, Some("x"));
        assert_eq!(keys.verify(key, MESSAGE, &signature), None);
        assert!(KeySet::parse(&json!([])).is_none());
    }
}
