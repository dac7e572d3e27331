//! Authenticates bearer tokens, and issues tokens for service accounts.
//!
//! A token is either registered with [`crate::Server::add_token`] or a JWT for a service account,
//! which is valid until it expires or the account is deleted. The signing key is in the store under
//! a kind that is not served, so it survives restarts and is part of backups.

use std::collections::HashMap;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use ring::{
    digest, hmac,
    rand::{SecureRandom, SystemRandom},
};
use serde_json::{Value, json};

use super::User;
use crate::{
    Server, metadata,
    schema::FieldError,
    status::{ApiError, Result},
    store::{ObjectWrite, StoreKey},
};

/// The issuer of the tokens, and their default audience.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
const DEFAULT_SECONDS: i64 = 3600;
const SHORTEST_SECONDS: i64 = 600;
const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

/// The registered tokens.
#[derive(Default)]
pub(crate) struct TokenRegistry {
    /// By digest, so that the time of a lookup tells nothing about the token.
    users: RwLock<HashMap<Vec<u8>, User>>,
}

impl TokenRegistry {
    /// Registers a token of a user.
    pub(crate) fn add(&self, token: &str, user: User) {
        self.users.write().insert(digest_of(token), user);
    }
}

fn digest_of(token: &str) -> Vec<u8> {
    digest::digest(&digest::SHA256, token.as_bytes())
        .as_ref()
        .to_vec()
}

/// The user of a valid token.
pub(crate) struct AuthenticatedUser {
    pub(crate) user: User,
    /// The requested audiences that the token is valid for.
    pub(crate) audiences: Vec<String>,
}

/// Authenticates a token that is valid for one of these audiences, or for this server if none are
/// given.
pub(crate) fn authenticate_token(
    server: &Server,
    token: &str,
    audiences: &[String],
) -> Result<AuthenticatedUser, &'static str> {
    let requested = match audiences {
        [] => vec![ISSUER.to_owned()],
        some => some.to_vec(),
    };
    let known = server.tokens().users.read().get(&digest_of(token)).cloned();
    if let Some(user) = known {
        let audiences = requested;
        return Ok(AuthenticatedUser { user, audiences });
    }
    let claims = claims(server, token).ok_or("invalid bearer token")?;
    let now = server.timestamp().as_second();
    if claims["exp"].as_i64().is_none_or(|end| end <= now) {
        return Err("invalid bearer token: it has expired");
    }
    let meant = claims["aud"].as_array().cloned().unwrap_or_default();
    let is_audience = |one: &String| meant.iter().any(|it| it == one.as_str());
    let audiences: Vec<String> = requested.into_iter().filter(is_audience).collect();
    if audiences.is_empty() {
        return Err("invalid bearer token: it is for another audience");
    }
    let account = &claims["kubernetes.io"];
    let text = |pointer: &str| metadata::text(account, pointer);
    let (namespace, name) = (text("/namespace"), text("/serviceaccount/name"));
    let stored = server.store().object(&account_key(namespace, name));
    let stored = stored.ok_or("invalid bearer token: the service account does not exist")?;
    let stored = stored.value_kept_parsed();
    let uid = metadata::text(&stored, "/metadata/uid");
    if uid != text("/serviceaccount/uid") {
        return Err("invalid bearer token: the service account was deleted and created again");
    }
    Ok(AuthenticatedUser {
        user: User::service_account(namespace, name, uid),
        audiences,
    })
}

/// Answers a TokenRequest about one service account.
pub(crate) async fn request_token(
    server: &Server,
    namespace: &str,
    name: &str,
    mut request: Value,
) -> Result<Value> {
    let accounts = server.registry().find("", "v1", "serviceaccounts");
    let accounts = accounts.expect("service accounts are built in");
    let account = server.store().value(&accounts.key(Some(namespace), name));
    let account = account.ok_or_else(|| ApiError::not_found(&accounts, name))?;
    if !request.is_object() || !(request["spec"].is_null() || request["spec"].is_object()) {
        return Err(ApiError::bad_request("expected a TokenRequest"));
    }
    let seconds = check_request(&request["spec"])?;
    let now = server.timestamp();
    let end = now
        .saturating_add(SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX);
    let audiences = match request["spec"]["audiences"].as_array() {
        Some(some) if !some.is_empty() => json!(some),
        _ => json!([ISSUER]),
    };
    let uid = &account["metadata"]["uid"];
    let claims = json!({
        "iss": ISSUER, "aud": audiences, "sub": super::account_name(namespace, name),
        "iat": now.as_second(), "nbf": now.as_second(), "exp": end.as_second(),
        "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
    });
    let token = sign(&signing_key(server).await?, &claims);
    request["apiVersion"] = json!("authentication.k8s.io/v1");
    request["kind"] = json!("TokenRequest");
    request["metadata"] = json!({"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": server.now()});
    request["spec"]["audiences"] = audiences;
    request["spec"]["expirationSeconds"] = json!(seconds);
    let end = end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    request["status"] = json!({"token": token, "expirationTimestamp": end});
    Ok(request)
}

/// The life of a token in seconds, if the request can be granted.
fn check_request(spec: &Value) -> Result<i64> {
    if !spec["boundObjectRef"].is_null() {
        return Err(ApiError::not_supported("a token bound to another object"));
    }
    let seconds = match &spec["expirationSeconds"] {
        Value::Null => DEFAULT_SECONDS,
        given => given.as_i64().ok_or_else(|| {
            ApiError::bad_request("expected a whole number of seconds in spec.expirationSeconds")
        })?,
    };
    let why = match seconds {
        ..SHORTEST_SECONDS => "may not specify a duration less than 10 minutes",
        4_294_967_297.. => "may not specify a duration larger than 2^32 seconds",
        _ => return Ok(seconds),
    };
    let error = FieldError::invalid("spec.expirationSeconds", &json!(seconds), why);
    Err(ApiError::invalid_kind(
        "TokenRequest",
        "authentication.k8s.io",
        "",
        &[error],
    ))
}

fn account_key(namespace: &str, name: &str) -> StoreKey {
    StoreKey::new("/serviceaccounts".into(), Some(namespace), name)
}

fn sign(key: &hmac::Key, claims: &Value) -> String {
    let header = URL_SAFE_NO_PAD.encode(HEADER);
    let said = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let signature = hmac::sign(key, said.as_bytes());
    format!("{said}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// What a token says, if we have signed it.
fn claims(server: &Server, token: &str) -> Option<Value> {
    let (said, signature) = token.rsplit_once('.')?;
    let (header, claims) = said.split_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    hmac::verify(&stored_signing_key(server)?, said.as_bytes(), &signature).ok()?;
    if URL_SAFE_NO_PAD.decode(header).ok()? != HEADER.as_bytes() {
        return None;
    }
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
}

fn signing_key_location() -> StoreKey {
    // No kind of this name is served.
    StoreKey::new("sluice.internal/keys".into(), None, "service-accounts")
}

fn stored_signing_key(server: &Server) -> Option<hmac::Key> {
    let stored = server.store().value(&signing_key_location())?;
    let bytes = URL_SAFE_NO_PAD.decode(stored["key"].as_str()?).ok()?;
    Some(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

/// The key, made at its first use.
async fn signing_key(server: &Server) -> Result<hmac::Key> {
    let unavailable = || ApiError::not_stored("the operating system gives no random numbers");
    if let Some(key) = stored_signing_key(server) {
        return Ok(key);
    }
    let mut bytes = [0; 32];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| unavailable())?;
    let object = json!({"metadata": {}, "key": URL_SAFE_NO_PAD.encode(bytes)});
    let write = ObjectWrite {
        key: signing_key_location(),
        expected_revision: None,
        object: Some(object.into()),
    };
    // After a conflict, the key of the other request is used.
    let _ = server.commit(write).await?;
    stored_signing_key(server).ok_or_else(unavailable)
}
