//! The token service of the real registry: signs tokens for a user and its password.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use base64::{Engine, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{StatusCode, header};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::forge::{listen, tls};
use crate::real::Error;

/// The one user.
pub const USER: &str = "sluice";
/// Its password.
pub const PASSWORD: &str = "the-right-password";
/// The name of the registry to the service.
pub(super) const SERVICE: &str = "real-registry";
/// The name of the service to the registry.
pub(super) const ISSUER: &str = "tests";
/// The name of the key.
const KEY: &str = "only";
/// How long a token is valid, in seconds.
const VALID_FOR: u64 = 300;

/// A running token service.
pub(super) struct TokenService {
    realm: String,
    key: Arc<Ed25519KeyPair>,
    server: JoinHandle<()>,
}

impl Drop for TokenService {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl TokenService {
    /// Starts the service; returns its certificate authority, too.
    pub(super) async fn start() -> Result<(Self, String), Error> {
        let failed = |error: crate::forge::Error| Error::System {
            attempted: "starting a token service".to_owned(),
            source: std::io::Error::other(error.to_string()),
        };
        let (listener, authority) = tls::wrap(listen().await.map_err(failed)?).map_err(failed)?;
        let address = axum::serve::Listener::local_addr(&listener);
        let address = address.map_err(super::system("listening for the token service"))?;
        crate::tls::install_provider();
        let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]);
        let key = Arc::new(key.expect("32 bytes are a key"));
        let router = Router::new().fallback(answer).with_state(key.clone());
        let server = tokio::spawn(async move {
            // Aborted on drop.
            let _ = axum::serve(listener, router).await;
        });
        let realm = format!("https://{address}/token");
        Ok((Self { realm, key, server }, authority))
    }

    pub(super) fn realm(&self) -> &str {
        &self.realm
    }

    /// The public key, as the registry reads it.
    pub(super) fn keys(&self) -> Value {
        let public = URL_SAFE_NO_PAD.encode(self.key.public_key());
        json!({"keys": [{
            "kty": "OKP", "crv": "Ed25519", "x": public, "kid": KEY, "alg": "EdDSA", "use": "sig",
        }]})
    }

    /// A token for a scope.
    pub(super) fn issue(&self, scope: &str) -> String {
        issue(&self.key, scope)
    }
}

async fn answer(State(key): State<Arc<Ed25519KeyPair>>, request: Request) -> Response {
    let given = request.headers().get(header::AUTHORIZATION);
    let expected = format!("Basic {}", STANDARD.encode(format!("{USER}:{PASSWORD}")));
    if given.is_none_or(|given| given.as_bytes() != expected.as_bytes()) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let query = request.uri().query().unwrap_or_default();
    let scope = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("scope="));
    let scope = scope.unwrap_or_default();
    let scope = scope
        .replace("%3A", ":")
        .replace("%2F", "/")
        .replace("%2C", ",");
    axum::Json(json!({"token": issue(&key, &scope)})).into_response()
}

/// A signed token for a scope such as `repository:team/app:pull,push`.
fn issue(key: &Ed25519KeyPair, scope: &str) -> String {
    let mut parts = scope.splitn(3, ':');
    let mut part = || parts.next().unwrap_or_default();
    let (kind, name, actions) = (part(), part(), part());
    let actions: Vec<&str> = actions.split(',').collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_secs();
    let claims = json!({
        "iss": ISSUER, "sub": USER, "aud": SERVICE, "jti": "1",
        "iat": now, "nbf": now.saturating_sub(10), "exp": now + VALID_FOR,
        "access": [{"type": kind, "name": name, "actions": actions}],
    });
    let header = json!({"alg": "EdDSA", "typ": "JWT", "kid": KEY});
    let [header, claims] = [header, claims].map(|it| URL_SAFE_NO_PAD.encode(it.to_string()));
    let signed = format!("{header}.{claims}");
    let signature = URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}
