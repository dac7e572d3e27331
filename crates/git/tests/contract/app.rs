//! GitHub Apps: a signed statement is traded for a token, once.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::post;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use git::credentials::Credentials;
use git::forge::{self, ForgeProduct};
use git::repository_url::RepositoryUrl;
use http::HeaderMap;
use net::{AddressPolicy, OutboundHttp};
use parking_lot::Mutex;
use ring::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use serde_json::{Value, json};

use testbed::forge_doubles::{PROJECT, TOKEN, answer};

use crate::token_rights::ALL_RIGHTS;

/// Made for these tests; it opens nothing.
const KEY: &str = include_str!("app-key.pem");

const ANY_ADDRESS: AddressPolicy = AddressPolicy::UNRESTRICTED;

fn public_key() -> Vec<u8> {
    let body: String = KEY
        .lines()
        .filter(|line| !line.starts_with("-----"))
        .collect();
    let der = base64::engine::general_purpose::STANDARD
        .decode(body)
        .expect("base64");
    RsaKeyPair::from_der(&der)
        .expect("a key")
        .public_key()
        .as_ref()
        .to_vec()
}

/// The claims of a statement, if its signature is right.
fn verified(headers: &HeaderMap) -> Option<Value> {
    let statement = headers
        .get("authorization")?
        .to_str()
        .ok()?
        .strip_prefix("Bearer ")?;
    let (signed, signature) = statement.rsplit_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public_key());
    key.verify(signed.as_bytes(), &signature).ok()?;
    let claims = URL_SAFE_NO_PAD.decode(signed.split_once('.')?.1).ok()?;
    serde_json::from_slice(&claims).ok()
}

type Granted = Arc<Mutex<Vec<Value>>>;

async fn grant(
    State(granted): State<Granted>,
    Path(installation): Path<String>,
    headers: HeaderMap,
) -> Response {
    let Some(claims) = verified(&headers).filter(|_| installation == "456") else {
        return answer(
            401,
            json!({"message": "A JSON web token could not be decoded"}),
        );
    };
    granted.lock().push(claims);
    let permissions = json!({"contents": "write", "pull_requests": "write", "statuses": "read"});
    answer(
        201,
        json!({"token": TOKEN, "expires_at": "2999-01-01T00:00:00Z", "permissions": permissions}),
    )
}

async fn serve(granted: Granted) -> String {
    let world = Arc::default();
    let router = Router::new()
        .route(
            "/api/v3/app/installations/{installation}/access_tokens",
            post(grant),
        )
        .with_state(granted)
        .merge(testbed::forge_doubles::github::router(world).reset_fallback());
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

fn open(address: &str, key: &str) -> Box<dyn forge::Forge> {
    let base = format!("{address}/api/v3");
    let entries = [
        ("githubAppID", "123"),
        ("githubAppInstallationID", "456"),
        ("githubAppPrivateKey", key),
        ("githubAppBaseURL", base.as_str()),
    ];
    let entries: BTreeMap<String, Vec<u8>> = entries
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
        .collect();
    testbed::tls::install_provider();
    let login = Credentials::from_entries(&entries).expect("credentials");
    let url = RepositoryUrl::parse(&format!("{address}/{PROJECT}"), ANY_ADDRESS).expect("a URL");
    forge::open(
        ForgeProduct::GitHub,
        &Arc::new(OutboundHttp::new(ANY_ADDRESS)),
        &url,
        &login,
    )
    .expect("a forge")
}

#[tokio::test]
async fn an_app_gets_one_token_for_many_calls() {
    let granted = Granted::default();
    let forge = open(&serve(granted.clone()).await, KEY);
    for _ in 0..3 {
        forge.list_open(None).await.expect("the token is right");
    }
    let granted = granted.lock();
    assert_eq!(granted.len(), 1);
    let claims = &granted[0];
    assert_eq!(claims["iss"], "123");
    let life = claims["exp"]
        .as_i64()
        .zip(claims["iat"].as_i64())
        .map(|(end, start)| end - start);
    assert_eq!(life, Some(600), "GitHub takes ten minutes at most");
}

#[tokio::test]
async fn the_permissions_of_an_app_come_with_its_token() {
    let granted = Granted::default();
    let forge = open(&serve(granted.clone()).await, KEY);
    let rights = forge.check_token(&ALL_RIGHTS).await.expect("told");
    let missing = "the token may not set commit statuses: grant the GitHub App read and write for Commit statuses";
    assert_eq!(
        (rights.missing_texts(), rights.untold),
        (vec![missing.to_owned()], None)
    );
    assert_eq!(granted.lock().len(), 1);
}

/// The statement about the app goes to its base URL.
#[tokio::test]
async fn without_tls_an_app_is_not_spoken_for() {
    let error = async |base: &str, policy: AddressPolicy| {
        let entries = [
            ("githubAppID", "123"),
            ("githubAppInstallationID", "456"),
            ("githubAppPrivateKey", KEY),
            ("githubAppBaseURL", base),
        ];
        let entries = entries.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
        let login = Credentials::from_entries(&entries.into()).expect("credentials");
        testbed::tls::install_provider();
        let url = "https://github.com/team/config";
        let url = RepositoryUrl::parse(url, policy).expect("a URL");
        let http = Arc::new(OutboundHttp::new(policy));
        let forge = forge::open(ForgeProduct::GitHub, &http, &url, &login).expect("a forge");
        let listed = forge.list_open(None).await;
        listed.expect_err("nobody listens").to_string()
    };
    let secure = AddressPolicy {
        allow_insecure: false,
        ..ANY_ADDRESS
    };
    let refusal = "the app's base URL is not https";
    for (base, policy, is_refused) in [
        ("http://127.0.0.1:9", secure, true),
        ("https://127.0.0.1:9", secure, false),
        ("http://127.0.0.1:9", ANY_ADDRESS, false),
    ] {
        let error = error(base, policy).await;
        assert_eq!(error.contains(refusal), is_refused, "{base}: {error}");
    }
}

#[tokio::test]
async fn a_key_that_is_none_waits_for_an_edit() {
    let forge = open(
        &serve(Granted::default()).await,
        "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----",
    );
    let error = forge.list_open(None).await.expect_err("no key");
    assert_eq!(
        (error.reason(), error.remedy()),
        ("ForgeUnusable", net::Remedy::Edit)
    );
    assert!(!error.to_string().contains("AAAA"));
}
