//! Tokens of GitHub Apps: a signed statement of who we are, traded for an hour of access.

use std::collections::HashMap;
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

/// How long before its end a token is not used any more.
const MARGIN: SignedDuration = SignedDuration::from_mins(5);

/// Tokens by app and installation, kept until shortly before they end.
pub struct AppTokens {
    http: Arc<OutboundHttp>,
    kept: Mutex<HashMap<(String, String), (SecretValue, Timestamp)>>,
}

#[derive(Deserialize)]
struct Granted {
    token: String,
    expires_at: Timestamp,
}

impl AppTokens {
    /// An empty store.
    pub fn new(http: Arc<OutboundHttp>) -> Self {
        Self {
            http,
            kept: Mutex::default(),
        }
    }

    /// A token that is good for some minutes at least.
    pub(crate) async fn token(&self, app: &GitHubApp) -> Result<SecretValue, Error> {
        let key = (app.id.clone(), app.installation.clone());
        // Held while asking, so that many who need a token ask once.
        let mut kept = self.kept.lock().await;
        let now = Timestamp::now();
        if let Some((token, end)) = kept.get(&key)
            && end.duration_since(now) > MARGIN
        {
            return Ok(token.clone());
        }
        let granted = self.ask(app, now).await?;
        let token = SecretValue::new(granted.token);
        kept.insert(key, (token.clone(), granted.expires_at));
        Ok(token)
    }

    async fn ask(&self, app: &GitHubApp, now: Timestamp) -> Result<Granted, Error> {
        let unusable = |because: &str| Error::Unusable {
            because: because.to_owned(),
        };
        let base = app.base_url.as_deref().unwrap_or("https://api.github.com");
        let base = parse_url(base).map_err(|_| unusable("the app's base URL is not a URL"))?;
        if base.scheme() != "https" && !self.http.policy().allow_insecure {
            return Err(unusable("the app's base URL is not https"));
        }
        let statement = statement(app, now)?;
        let client = ApiClient::new(&self.http, base, &Credentials::default())?;
        let path = ["app", "installations", &app.installation, "access_tokens"];
        let request = ApiRequest::new(ATTEMPTED, Method::POST, &path);
        client
            .send(request, &format!("Bearer {statement}"), super::ACCEPT)
            .await?
            .parse()
    }
}

/// A JSON web token, signed with the app's key.
fn statement(app: &GitHubApp, now: Timestamp) -> Result<String, Error> {
    let unusable = || Error::Unusable {
        because: "the app's private key is not readable".to_owned(),
    };
    let key = read_key(&app.private_key).ok_or_else(unusable)?;
    let now = now.as_second();
    // A minute back, for clocks that differ; GitHub takes ten minutes at most.
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

/// PEM, as GitHub hands it out (PKCS#1) or as tools convert it (PKCS#8).
fn read_key(key: &SecretValue) -> Option<RsaKeyPair> {
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
