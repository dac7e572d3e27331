//! Signs ID tokens, rightly or in one of the ways that must be refused.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::rsa::{KeyPair, PublicKeyComponents};
use ring::signature::{KeyPair as _, RSA_PKCS1_SHA256};
use serde_json::{Value, json};

/// Made for tests; they open nothing.
const KEYS: [&str; 2] = [include_str!("key-1.pem"), include_str!("key-2.pem")];

/// How tokens are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signing {
    /// With the first key, which is published.
    #[default]
    FirstKey,
    /// With the second key, which is published instead of the first.
    SecondKey,
    /// With the second key under the id of the first, which is published.
    Forged,
    /// Not at all: the algorithm is `none`.
    Unsigned,
    /// With the first public key as an HMAC secret.
    PublicKeyAsSecret,
}

impl Signing {
    /// The keys that the provider publishes.
    pub(super) fn published(self) -> Value {
        let index = usize::from(self == Self::SecondKey);
        let components = PublicKeyComponents::<Vec<u8>>::from(key(index).public());
        json!([{
            "kty": "RSA", "use": "sig", "alg": "RS256", "kid": key_id(index),
            "n": URL_SAFE_NO_PAD.encode(components.n), "e": URL_SAFE_NO_PAD.encode(components.e),
        }])
    }

    /// A token with these claims.
    pub(super) fn sign(self, claims: &Value) -> String {
        let (algorithm, id) = match self {
            Self::FirstKey | Self::Forged => ("RS256", key_id(0)),
            Self::SecondKey => ("RS256", key_id(1)),
            Self::Unsigned => ("none", key_id(0)),
            Self::PublicKeyAsSecret => ("HS256", key_id(0)),
        };
        let header = json!({"alg": algorithm, "kid": id, "typ": "JWT"});
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let message = format!("{}.{}", encode(&header), encode(claims));
        let signature = match self {
            Self::FirstKey => rsa(0, &message),
            Self::SecondKey | Self::Forged => rsa(1, &message),
            Self::Unsigned => Vec::new(),
            Self::PublicKeyAsSecret => {
                let public = key(0).public_key().as_ref().to_vec();
                let secret = hmac::Key::new(hmac::HMAC_SHA256, &public);
                hmac::sign(&secret, message.as_bytes()).as_ref().to_vec()
            }
        };
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn key_id(index: usize) -> String {
    format!("key-{}", index + 1)
}

fn key(index: usize) -> KeyPair {
    let lines = KEYS[index].lines().filter(|line| !line.starts_with('-'));
    let der = STANDARD.decode(lines.collect::<String>());
    KeyPair::from_pkcs8(&der.expect("a key is base64")).expect("it is an RSA key")
}

fn rsa(index: usize, message: &str) -> Vec<u8> {
    let key = key(index);
    let mut signature = vec![0; key.public().modulus_len()];
    let random = SystemRandom::new();
    let signed = key.sign(
        &RSA_PKCS1_SHA256,
        &random,
        message.as_bytes(),
        &mut signature,
    );
    signed.expect("an RSA key signs any message");
    signature
}
