//! Installation tokens of GitHub Apps, which are valid for an hour.
//!
//! A token is requested with a JWT that is signed with the key of the app, and is cached until shortly
//! before it expires.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ::http::Method;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use net::{OutboundHttp, SecretValue, parse_url};
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;

use super::super::Error;
use super::super::api_client::{ApiClient, ApiRequest};
use crate::credentials::{Credentials, GitHubApp};

const ATTEMPTED: &str = "get a token for the app";

/// How long before it expires a token is renewed.
const MARGIN: SignedDuration = SignedDuration::from_mins(5);

/// Cache of installation tokens, by app and installation.
pub struct AppTokens {
    http: Arc<OutboundHttp>,
    cached: Mutex<HashMap<(String, String), CachedToken>>,
}

#[derive(Clone)]
struct CachedToken {
    token: SecretValue,
    expires_at: Timestamp,
    /// `read` or `write` by name, if the server tells.
    permissions: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct InstallationToken {
    token: String,
    expires_at: Timestamp,
    permissions: Option<BTreeMap<String, String>>,
}

impl AppTokens {
    /// An empty cache.
    pub fn new(http: Arc<OutboundHttp>) -> Self {
        Self {
            http,
            cached: Mutex::default(),
        }
    }

    /// A token that is valid for at least some minutes.
    pub(crate) async fn token(&self, app: &GitHubApp) -> Result<SecretValue, Error> {
        Ok(self.cached(app).await?.token)
    }

    /// The permissions of the installation, by name.
    pub(crate) async fn permissions(
        &self,
        app: &GitHubApp,
    ) -> Result<Option<BTreeMap<String, String>>, Error> {
        Ok(self.cached(app).await?.permissions)
    }

    async fn cached(&self, app: &GitHubApp) -> Result<CachedToken, Error> {
        let key = (app.id.clone(), app.installation.clone());
        // Locked during the request, so that concurrent callers send only one.
        let mut cached = self.cached.lock().await;
        let now = Timestamp::now();
        if let Some(known) = cached.get(&key)
            && known.expires_at.duration_since(now) > MARGIN
        {
            return Ok(known.clone());
        }
        let granted = self.request(app, now).await?;
        let granted = CachedToken {
            token: SecretValue::new(granted.token),
            expires_at: granted.expires_at,
            permissions: granted.permissions,
        };
        cached.insert(key, granted.clone());
        Ok(granted)
    }

    async fn request(&self, app: &GitHubApp, now: Timestamp) -> Result<InstallationToken, Error> {
        let unusable = |because: &str| Error::Unusable {
            because: because.to_owned(),
        };
        let base = app.base_url.as_deref().unwrap_or("https://api.github.com");
        let base = parse_url(base).map_err(|_| unusable("the app's base URL is not a URL"))?;
        if base.scheme() != "https" && !self.http.policy().allow_insecure {
            return Err(unusable("the app's base URL is not https"));
        }
        let jwt = signed_jwt(app, now)?;
        let client = ApiClient::new(&self.http, base, &Credentials::default())?;
        let path = ["app", "installations", &app.installation, "access_tokens"];
        let request = ApiRequest::new(ATTEMPTED, Method::POST, &path);
        client
            .send(request, &format!("Bearer {jwt}"), super::ACCEPT)
            .await?
            .parse()
    }
}

/// A JSON Web Token, signed with the key of the app.
fn signed_jwt(app: &GitHubApp, now: Timestamp) -> Result<String, Error> {
    let unusable = || Error::Unusable {
        because: "the app's private key is not readable".to_owned(),
    };
    let key = parse_key(&app.private_key).ok_or_else(unusable)?;
    let now = now.as_second();
    // Issued a minute ago, in case the clocks differ; GitHub accepts ten minutes at most.
    let claims = json!({"iat": now - 60, "exp": now + 540, "iss": app.id});
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"RS256","typ":"JWT"}"#);
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let mut signature = vec![0; key.public().modulus_len()];
    let random = ring::rand::SystemRandom::new();
    key.sign(
        &RSA_PKCS1_SHA256,
        &random,
        signed.as_bytes(),
        &mut signature,
    )
    .map_err(|_| unusable())?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// Parses a PEM key: PKCS#1, as GitHub issues it, or PKCS#8, as tools convert it.
fn parse_key(key: &SecretValue) -> Option<RsaKeyPair> {
    let text = key.expose_text()?;
    let body = |label: &str| {
        let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
        let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
        STANDARD
            .decode(body.split_whitespace().collect::<String>())
            .ok()
    };
    if let Some(der) = body("RSA PRIVATE KEY") {
        return RsaKeyPair::from_der(&der).ok();
    }
    RsaKeyPair::from_pkcs8(&body("PRIVATE KEY")?).ok()
}
