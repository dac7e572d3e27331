//! Strict double of an OpenID Connect provider, on loopback: one client, people with any claims, and
//! tokens that are wrong in the way a test wants.
//!
//! It refuses what a real provider refuses: another redirect address, a code that was used before, a
//! request without PKCE, a wrong verifier or client secret.

mod token;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::extract::{Form, Query, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::{Router, middleware};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tokio::net::TcpListener;

pub use token::Signing;

use crate::forge::tls;

/// The id of the one client.
pub const CLIENT: &str = "sluice";
/// Its secret, with characters that have to be encoded.
pub const CLIENT_SECRET: &str = "s3cret/+ %:&";
/// The same as RFC 6749 wants it in the header.
const ENCODED_SECRET: &str = "s3cret%2F%2B+%25%3A%26";

/// The parameters of a request, or the fields of a form.
type Fields = BTreeMap<String, String>;

/// A running provider.
#[derive(Clone)]
pub struct OidcProvider {
    /// Its URL, as its tokens name it.
    pub issuer: String,
    /// The authority of its certificate as PEM, if it serves TLS.
    pub certificate_authority: Option<String>,
    state: Arc<Mutex<ProviderState>>,
}

/// What a test can change while the provider runs.
pub struct ProviderState {
    /// The claims of each person, by login name.
    pub people: BTreeMap<String, Value>,
    /// The only address that browsers are sent back to.
    pub redirect_url: String,
    /// The claims that replace those of the next tokens; null removes one.
    pub replaced_claims: Value,
    /// How the next tokens are signed.
    pub signing: Signing,
    /// Whether it answers 503 to everything.
    pub is_down: bool,
    /// How often each path was requested.
    pub requests: BTreeMap<String, usize>,
    codes: HashMap<String, Grant>,
}

/// What a code stands for.
struct Grant {
    login: String,
    nonce: String,
    challenge: String,
    redirect_url: String,
}

impl OidcProvider {
    /// Starts a provider on a free port that sends browsers back to this address.
    pub async fn start(redirect_url: &str) -> Self {
        let (listener, port) = listen().await;
        let provider = Self::at(format!("http://localhost:{port}"), redirect_url);
        let router = provider.router();
        tokio::spawn(async move { axum::serve(listener, router).await });
        provider
    }

    /// The same over TLS.
    pub async fn start_with_tls(redirect_url: &str) -> Self {
        let (listener, port) = listen().await;
        let (listener, authority) = tls::wrap(listener).expect("a certificate");
        let mut provider = Self::at(format!("https://localhost:{port}"), redirect_url);
        provider.certificate_authority = Some(authority);
        let router = provider.router();
        tokio::spawn(async move { axum::serve(listener, router).await });
        provider
    }

    fn at(issuer: String, redirect_url: &str) -> Self {
        let state = ProviderState {
            people: BTreeMap::new(),
            redirect_url: redirect_url.to_owned(),
            replaced_claims: Value::Null,
            signing: Signing::default(),
            is_down: false,
            requests: BTreeMap::new(),
            codes: HashMap::new(),
        };
        Self {
            issuer,
            certificate_authority: None,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Adds a person with these claims beside the standard ones.
    pub fn add(&self, login: &str, claims: Value) {
        let mut state = self.state.lock();
        state.people.insert(login.to_owned(), claims);
    }

    /// Changes the provider.
    pub fn change<T>(&self, change: impl FnOnce(&mut ProviderState) -> T) -> T {
        change(&mut self.state.lock())
    }

    /// What a browser does at the address that it was sent to: signs in as that person. Returns where
    /// it is sent next.
    pub fn sign_in(&self, address: &str, login: &str) -> Result<String, String> {
        let uri: http::Uri = address.parse().map_err(|_| "no URL".to_owned())?;
        let fields = Query::<Fields>::try_from_uri(&uri);
        self.grant(&fields.map_err(|error| error.to_string())?.0, login)
    }

    fn grant(&self, fields: &Fields, login: &str) -> Result<String, String> {
        let mut state = self.state.lock();
        let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
        let demands = [
            ("response_type", field("response_type") == "code"),
            ("client_id", field("client_id") == CLIENT),
            ("redirect_uri", field("redirect_uri") == state.redirect_url),
            ("scope", field("scope").split(' ').any(|it| it == "openid")),
            (
                "code_challenge_method",
                field("code_challenge_method") == "S256",
            ),
            ("code_challenge", field("code_challenge").len() == 43),
            ("state", field("state").len() >= 32),
            ("nonce", field("nonce").len() >= 32),
            ("login", state.people.contains_key(login)),
        ];
        if let Some((name, _)) = demands.iter().find(|(_, is_met)| !is_met) {
            return Err(format!("invalid_request: {name}"));
        }
        let code = URL_SAFE_NO_PAD.encode(digest(&SHA256, field("nonce").as_bytes()));
        let grant = Grant {
            login: login.to_owned(),
            nonce: field("nonce").to_owned(),
            challenge: field("code_challenge").to_owned(),
            redirect_url: field("redirect_uri").to_owned(),
        };
        state.codes.insert(code.clone(), grant);
        // The code and the state are made of letters that need no encoding.
        Ok(format!(
            "{}?code={code}&state={}",
            state.redirect_url,
            field("state")
        ))
    }

    /// The ID token for a code, which works once.
    fn exchange(&self, headers: &HeaderMap, fields: &Fields) -> Result<String, &'static str> {
        let mut state = self.state.lock();
        let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
        let login = format!("{CLIENT}:{ENCODED_SECRET}");
        let basic = format!("Basic {}", STANDARD.encode(login));
        let is_client = headers.get("authorization").is_some_and(|it| *it == *basic);
        if !is_client || field("client_id") != CLIENT {
            return Err("invalid_client");
        }
        if field("grant_type") != "authorization_code" {
            return Err("unsupported_grant_type");
        }
        let grant = state.codes.remove(field("code")).ok_or("invalid_grant")?;
        let challenge = digest(&SHA256, field("code_verifier").as_bytes());
        let is_same = URL_SAFE_NO_PAD.encode(challenge) == grant.challenge
            && field("redirect_uri") == grant.redirect_url;
        if !is_same || field("code_verifier").len() < 43 {
            return Err("invalid_grant");
        }
        Ok(self.token(&state, &grant.login, &grant.nonce))
    }

    /// An ID token that a person got without a browser, as kubectl's plugins do.
    pub fn id_token(&self, login: &str) -> String {
        self.token(&self.state.lock(), login, "none")
    }

    /// The ID token of a person.
    fn token(&self, state: &ProviderState, login: &str, nonce: &str) -> String {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_or(0, |it| it.as_secs());
        let mut claims = json!({
            "iss": self.issuer, "sub": format!("id-of-{login}"), "aud": CLIENT, "nonce": nonce,
            "iat": now, "exp": now + 300,
        });
        for more in [&state.people[login], &state.replaced_claims] {
            for (name, value) in more.as_object().into_iter().flatten() {
                claims[name] = value.clone();
            }
        }
        if let Some(claims) = claims.as_object_mut() {
            claims.retain(|_, value| !value.is_null());
        }
        state.signing.sign(&claims)
    }

    fn router(&self) -> Router {
        let count = middleware::from_fn_with_state(self.clone(), count);
        Router::new()
            .route("/.well-known/openid-configuration", get(metadata))
            .route("/keys", get(keys))
            .route("/authorize", get(form).post(submit))
            .route("/token", axum::routing::post(exchange))
            .layer(count)
            .with_state(self.clone())
    }
}

/// A listener and its port. As `localhost` it is to a browser another site than 127.0.0.1.
async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await;
    let listener = listener.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    (listener, port)
}

async fn count(
    State(provider): State<OidcProvider>,
    request: axum::extract::Request,
    next: middleware::Next,
) -> Response {
    let is_down = provider.change(|state| {
        let path = request.uri().path().to_owned();
        *state.requests.entry(path).or_default() += 1;
        state.is_down
    });
    if is_down {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    next.run(request).await
}

async fn metadata(State(provider): State<OidcProvider>) -> Response {
    let issuer = &provider.issuer;
    axum::Json(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/keys"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    }))
    .into_response()
}

async fn keys(State(provider): State<OidcProvider>) -> Response {
    let keys = provider.change(|state| state.signing.published());
    axum::Json(json!({"keys": keys})).into_response()
}

/// The page on which a person says who they are.
async fn form(Query(fields): Query<Fields>) -> Html<String> {
    let hidden: String = fields
        .iter()
        .map(|(name, value)| format!("<input type=hidden name=\"{name}\" value=\"{value}\">"))
        .collect();
    Html(format!(
        "<!doctype html><title>Provider</title><link rel=icon href=data:,><form method=post action=/authorize>{hidden}\
         <label>Login <input id=login name=login></label><button>Log in</button></form>"
    ))
}

async fn submit(State(provider): State<OidcProvider>, Form(fields): Form<Fields>) -> Response {
    let login = fields.get("login").map(String::as_str).unwrap_or_default();
    match provider.grant(&fields, login) {
        Ok(address) => Redirect::to(&address).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, error).into_response(),
    }
}

async fn exchange(
    State(provider): State<OidcProvider>,
    headers: HeaderMap,
    Form(fields): Form<Fields>,
) -> Response {
    match provider.exchange(&headers, &fields) {
        Ok(token) => {
            let answer =
                json!({"access_token": "unused", "token_type": "Bearer", "id_token": token});
            axum::Json(answer).into_response()
        }
        Err(error) => {
            let answer = axum::Json(json!({"error": error}));
            (StatusCode::BAD_REQUEST, answer).into_response()
        }
    }
}
