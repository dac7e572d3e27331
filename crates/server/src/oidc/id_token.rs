//! Checks ID tokens: who signed them, for whom, for which sign-in, and until when.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    Error,
    keys::{KeySet, SigningAlgorithm, decode},
};

/// How far the provider's clock may be ahead of ours, in seconds.
const CLOCK_SKEW: f64 = 60.0;
/// The longest token that is read.
const MAX_LENGTH: usize = 48 << 10;

/// The claims of a token.
pub(super) type Claims = Map<String, Value>;

/// What a token must say.
pub(super) struct ExpectedToken<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    pub(super) algorithms: &'a [SigningAlgorithm],
    /// In seconds since 1970.
    pub(super) now: i64,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

/// The claims that every ID token has, with the types that the standard demands.
#[derive(Deserialize)]
struct StandardClaims {
    iss: String,
    sub: String,
    aud: Audience,
    exp: f64,
    iat: f64,
    nbf: Option<f64>,
    nonce: Option<String>,
    azp: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Many(names) => names,
        }
    }
}

/// The claims of a token that one of the keys has signed and that says what it must.
pub(super) fn verify(
    token: &str,
    keys: &KeySet,
    expected: &ExpectedToken<'_>,
) -> Result<Claims, Error> {
    let claims = verify_signature(token, keys, expected.algorithms)?;
    let standard = StandardClaims::deserialize(&claims)
        .map_err(|_| Error::IdToken("it lacks a claim, or one has the wrong type"))?;
    check_claims(&standard, expected)?;
    Ok(claims)
}

fn verify_signature(
    token: &str,
    keys: &KeySet,
    allowed: &[SigningAlgorithm],
) -> Result<Claims, Error> {
    const MALFORMED: Error = Error::IdToken("it is not a signed JSON Web Token");
    if token.len() > MAX_LENGTH {
        return Err(Error::IdToken("it is too long"));
    }
    let (message, signature) = token.rsplit_once('.').ok_or(MALFORMED)?;
    let (header, payload) = message.split_once('.').ok_or(MALFORMED)?;
    let header: Header = json(header).ok_or(MALFORMED)?;
    if header.crit.is_some() {
        return Err(Error::IdToken("its header has an extension"));
    }
    let algorithm = header.alg.parse::<SigningAlgorithm>().ok();
    let algorithm = algorithm.filter(|algorithm| allowed.contains(algorithm));
    let algorithm = algorithm.ok_or(Error::IdToken(
        "its algorithm is not among --oidc-signing-algs",
    ))?;
    let signature = decode(signature).ok_or(MALFORMED)?;
    let key = (algorithm, header.kid.as_deref());
    match keys.verify(key, message.as_bytes(), &signature) {
        Some(true) => json(payload).ok_or(MALFORMED),
        Some(false) => Err(Error::IdToken("its signature is wrong")),
        None => Err(Error::UnknownKey),
    }
}

fn json<T: serde::de::DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&decode(part)?).ok()
}

fn check_claims(claims: &StandardClaims, expected: &ExpectedToken<'_>) -> Result<(), Error> {
    let now = expected.now as f64;
    let audience = claims.aud.names();
    let is_ours = |name: &String| name == expected.client_id;
    let faults = [
        (claims.iss != expected.issuer, "another issuer made it"),
        (!audience.iter().any(is_ours), "it is for another client"),
        (
            audience.len() > 1 && claims.azp.is_none(),
            "it is for several clients and does not name the authorized one",
        ),
        (
            claims.azp.as_ref().is_some_and(|azp| !is_ours(azp)),
            "it was issued to another client",
        ),
        (
            claims.nonce.as_deref() != Some(expected.nonce),
            "it belongs to another sign-in",
        ),
        (claims.sub.is_empty(), "its subject is empty"),
        (claims.exp <= now, "it has expired"),
        (claims.iat > now + CLOCK_SKEW, "it is from the future"),
        (
            claims.nbf.is_some_and(|nbf| nbf > now + CLOCK_SKEW),
            "it is not valid yet",
        ),
    ];
    match faults.into_iter().find(|(is_fault, _)| *is_fault) {
        Some((_, why)) => Err(Error::IdToken(why)),
        None => Ok(()),
    }
}
