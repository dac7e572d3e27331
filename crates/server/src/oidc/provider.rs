//! Requests to the OpenID provider: its metadata, its keys, and an ID token for a code.
//!
//! All go through `net`, bounded in time and size. Metadata and keys are remembered for some minutes,
//! failures for some seconds; a token signed with an unknown key causes one more read of the keys, at
//! most every ten seconds.

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderValue, Method, header};
use net::{HttpError, HttpRequest, OutboundHttp};
use runtime::TtlCache;
use serde::Deserialize;
use serde_json::Value;
use tokio::{sync::Mutex, time::Instant};
use url::{Url, form_urlencoded};

use super::{Error, OidcSettings, SignInAttempt, keys::KeySet};

/// How long metadata and keys are used.
const TTL: Duration = Duration::from_secs(10 * 60);
/// How long a failure is remembered.
const FAILURE_TTL: Duration = Duration::from_secs(5);
/// How often the keys may be read because of a token.
const KEYS_INTERVAL: Duration = Duration::from_secs(10);
/// How long a request to the provider may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest answer that is read.
const MAX_ANSWER: usize = 256 << 10;

/// What the provider says about itself.
#[derive(Deserialize)]
pub(super) struct Metadata {
    issuer: String,
    pub(super) authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default = "basic_only")]
    token_endpoint_auth_methods_supported: Vec<String>,
}

/// What the standard says of a provider that does not name its methods.
fn basic_only() -> Vec<String> {
    vec!["client_secret_basic".to_owned()]
}

/// The answer of the token endpoint.
#[derive(Deserialize)]
struct TokenAnswer {
    id_token: Option<String>,
}

/// The answer of the token endpoint to a request that it refuses.
#[derive(Deserialize, Default)]
struct TokenRefusal {
    #[serde(default)]
    error: String,
}

pub(super) struct Provider {
    http: OutboundHttp,
    metadata: TtlCache<(), Result<Arc<Metadata>, Error>>,
    keys: Mutex<Option<FetchedKeys>>,
}

#[derive(Clone)]
pub(super) struct FetchedKeys {
    at: Instant,
    pub(super) set: Arc<KeySet>,
}

impl FetchedKeys {
    /// Whether they may be read again because of a token.
    pub(super) fn may_be_outdated(&self) -> bool {
        self.at.elapsed() >= KEYS_INTERVAL
    }
}

impl Provider {
    pub(super) fn new(settings: &OidcSettings) -> Self {
        let http = OutboundHttp::new(settings.address_policy)
            .with_proxy(settings.proxy.clone())
            .with_timeout(TIMEOUT);
        Self {
            http,
            metadata: TtlCache::new(TTL, 1),
            keys: Mutex::default(),
        }
    }

    pub(super) async fn metadata(&self, settings: &OidcSettings) -> Result<Arc<Metadata>, Error> {
        let lookup = async {
            let metadata = self.fetch_metadata(settings).await.map(Arc::new);
            let ttl = if metadata.is_ok() { TTL } else { FAILURE_TTL };
            (metadata, ttl)
        };
        self.metadata.get_with_ttl((), lookup).await
    }

    async fn fetch_metadata(&self, settings: &OidcSettings) -> Result<Metadata, Error> {
        const WHAT: &str = "its metadata";
        let issuer = settings.issuer_url.trim_end_matches('/');
        let address = format!("{issuer}/.well-known/openid-configuration");
        let document = self.get(settings, &address, WHAT).await?;
        let metadata = Metadata::deserialize(&document);
        let metadata = metadata.map_err(|_| Error::Answer { what: WHAT })?;
        if metadata.issuer != settings.issuer_url {
            return Err(Error::OtherIssuer(metadata.issuer));
        }
        let scheme = |address: &str| {
            net::parse_url(address)
                .ok()
                .map(|it| it.scheme().to_owned())
        };
        let is_same = scheme(&metadata.authorization_endpoint) == scheme(&settings.issuer_url);
        is_same
            .then_some(metadata)
            .ok_or(Error::Answer { what: WHAT })
    }

    /// The keys of the provider, read anew if those at hand are too old for `is_usable`.
    pub(super) async fn keys(
        &self,
        settings: &OidcSettings,
        is_usable: impl Fn(&FetchedKeys) -> bool,
    ) -> Result<FetchedKeys, Error> {
        const WHAT: &str = "its keys";
        let mut known = self.keys.lock().await;
        let is_fresh = |keys: &&FetchedKeys| keys.at.elapsed() < TTL && is_usable(keys);
        if let Some(keys) = known.as_ref().filter(is_fresh) {
            return Ok(keys.clone());
        }
        let metadata = self.metadata(settings).await?;
        let document = self.get(settings, &metadata.jwks_uri, WHAT).await?;
        let set = KeySet::parse(&document).ok_or(Error::Answer { what: WHAT })?;
        let fetched = FetchedKeys {
            at: Instant::now(),
            set: Arc::new(set),
        };
        *known = Some(fetched.clone());
        Ok(fetched)
    }

    /// The ID token for a code.
    pub(super) async fn exchange(
        &self,
        settings: &OidcSettings,
        attempt: &SignInAttempt,
        code: &str,
    ) -> Result<String, Error> {
        const WHAT: &str = "the code of this sign-in";
        let metadata = self.metadata(settings).await?;
        let secret = client_secret(settings).await?;
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &settings.redirect_url),
            ("client_id", &settings.client_id),
            ("code_verifier", &attempt.verifier),
        ];
        let mut request = HttpRequest::new(Method::POST, usable(&metadata.token_endpoint, WHAT)?);
        let methods = &metadata.token_endpoint_auth_methods_supported;
        match &secret {
            Some(secret) if methods.iter().any(|it| it == "client_secret_basic") => {
                let value = basic(&settings.client_id, secret)?;
                request = request.header(header::AUTHORIZATION, value);
            }
            Some(secret) => fields.push(("client_secret", secret)),
            None => {}
        }
        request.body = form_encoded(&fields);
        let content = HeaderValue::from_static("application/x-www-form-urlencoded");
        let request = request.header(header::CONTENT_TYPE, content);
        let answer = self.send(settings, request, WHAT).await?;
        let answer = TokenAnswer::deserialize(&answer).ok();
        let token = answer.and_then(|answer| answer.id_token);
        token.ok_or(Error::Answer { what: WHAT })
    }

    async fn get(
        &self,
        settings: &OidcSettings,
        address: &str,
        what: &'static str,
    ) -> Result<Value, Error> {
        let request = HttpRequest::new(Method::GET, usable(address, what)?);
        self.send(settings, request, what).await
    }

    /// Sends a request and reads the JSON of its answer.
    async fn send(
        &self,
        settings: &OidcSettings,
        request: HttpRequest,
        what: &'static str,
    ) -> Result<Value, Error> {
        let authority = match &settings.ca_file {
            Some(file) => Some(read_file("--oidc-ca-file", file).await?),
            None => None,
        };
        let client = self.http.client(request.host(), authority.as_deref());
        let client = client.map_err(|refused| Error::Address(refused.to_string()))?;
        let accept = HeaderValue::from_static("application/json");
        let request = request.header(header::ACCEPT, accept);
        let unreachable = |source: HttpError| match source.refused_address() {
            Some(refused) => Error::Address(refused.to_string()),
            None => Error::Unreachable {
                what,
                source: Arc::new(source),
            },
        };
        let response = client.send(request).await.map_err(unreachable)?;
        let status = response.status;
        let body = response.read_body(MAX_ANSWER).await.map_err(unreachable)?;
        if status.is_server_error() {
            let status = status.as_u16();
            return Err(Error::Failing { what, status });
        }
        if !status.is_success() {
            let refusal: TokenRefusal = serde_json::from_slice(&body).unwrap_or_default();
            let code = super::plain_code(&refusal.error);
            return Err(Error::Refused {
                what,
                status: status.as_u16(),
                code,
            });
        }
        serde_json::from_slice(&body).map_err(|_| Error::Answer { what })
    }
}

fn form_encoded(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(fields).finish().into_bytes()
}

fn usable(address: &str, what: &'static str) -> Result<Url, Error> {
    net::parse_url(address).map_err(|_| Error::Answer { what })
}

/// Both parts are form-encoded, as RFC 6749 demands.
fn basic(client_id: &str, secret: &str) -> Result<HeaderValue, Error> {
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let login = format!("{}:{}", encode(client_id), encode(secret));
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(login)))
        .map_err(|_| Error::ClientSecret)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The client secret, read each time: Kubernetes replaces the file when the Secret changes.
async fn client_secret(settings: &OidcSettings) -> Result<Option<String>, Error> {
    let Some(file) = &settings.client_secret_file else {
        return Ok(None);
    };
    let bytes = read_file("--oidc-client-secret-file", file).await?;
    let secret = String::from_utf8(bytes).map_err(|_| Error::ClientSecret)?;
    let secret = secret.trim();
    if secret.is_empty() {
        return Err(Error::ClientSecret);
    }
    Ok(Some(secret.to_owned()))
}

async fn read_file(flag: &'static str, file: &std::path::Path) -> Result<Vec<u8>, Error> {
    let read = tokio::fs::read(file).await;
    read.map_err(|source| Error::File {
        flag,
        source: Arc::new(source),
    })
}
