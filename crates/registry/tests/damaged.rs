//! Answers of registries and token services that are damaged at random: nothing panics, follows redirects
//! without end, sends credentials elsewhere or trusts a digest that is not that of the bytes.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use net::{AddressPolicy, HttpRequest, HttpResponse, HttpTransport, OutboundHttp, TransportError};
use registry::{Credentials, Digest, Error, Manifest, Reference, RegistryClient, Repository, Tag};
use serde_json::{Value, json};
use std::sync::Mutex;
use testbed::damage::{Damage, ShownOnPanic, seeds};

const PASSWORD: &str = "the-password-of-the-registry";
const HOST: &str = "registry.example";
/// Where downloads are redirected to.
const ELSEWHERE: &str = "elsewhere.example";
/// One operation asks for a manifest, a token, and up to five redirects, twice at most.
const MANY: usize = 20;

/// A registry that draws its answers.
struct DamagedRegistry {
    damage: Mutex<Damage>,
    /// Host, and whether the request had credentials.
    requests: Mutex<Vec<(String, bool)>>,
}

fn manifest() -> Value {
    json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": "application/vnd.oci.empty.v1+json", "size": 2, "digest": "sha256:44"},
        "layers": [], "annotations": {"org.opencontainers.image.revision": "main@sha1:00"},
    })
}

impl DamagedRegistry {
    fn answer(&self, request: &HttpRequest) -> HttpResponse {
        let mut damage = self.damage.lock().unwrap();
        let is_authorized = request.headers.contains_key(header::AUTHORIZATION);
        let mut headers = HeaderMap::new();
        let (mut status, mut body) = match request.url.path() {
            "/token" => (200, damage.json(&json!({"token": "t", "expires_in": 60}))),
            _ if is_authorized || damage.once_in(3) => (200, damage.json(&manifest())),
            _ => (
                401,
                damage.json(&json!({"errors": [{"code": "UNAUTHORIZED"}]})),
            ),
        };
        if damage.once_in(6) {
            let codes = [200, 201, 204, 301, 307, 400, 401, 403, 404, 429, 500, 503];
            status = codes[damage.below(codes.len())];
        }
        if damage.once_in(8) {
            body = damage.bytes(&body);
        }
        let challenge = format!("Bearer realm=\"https://{HOST}/token\",service=\"{HOST}\"");
        let location = format!("https://{ELSEWHERE}/blob");
        let digest = Digest::of(&body).to_string();
        for (name, usual) in [
            ("www-authenticate", challenge.as_str()),
            ("location", location.as_str()),
            ("docker-content-digest", &digest),
            ("content-type", "application/vnd.oci.image.manifest.v1+json"),
            ("retry-after", "7"),
        ] {
            let value = match damage.below(5) {
                0 => damage.bytes(usual.as_bytes()),
                1 => continue,
                _ => usual.as_bytes().to_vec(),
            };
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.append(name, value);
            }
        }
        HttpResponse::with_body(StatusCode::from_u16(status).unwrap(), headers, body)
    }
}

impl HttpTransport for DamagedRegistry {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, TransportError>> {
        let is_authorized = request.headers.contains_key(header::AUTHORIZATION);
        let seen = (request.host().to_owned(), is_authorized);
        self.requests.lock().unwrap().push(seen);
        let answer = self.answer(&request);
        Box::pin(async move { Ok(answer) })
    }
}

fn check_error(error: &Error) {
    let text = error.to_string();
    assert!(!text.contains(PASSWORD), "{text}");
    assert!(text.len() < 4096, "{}", text.len());
    assert!(!error.reason().is_empty());
}

fn check_manifest(read: Result<Option<Manifest>, Error>, wanted: Option<&Digest>) {
    match read {
        Ok(Some(manifest)) => {
            if manifest.digest.as_str().starts_with("sha256:") {
                let actual = Digest::of(&manifest.bytes);
                assert_eq!(manifest.digest, actual, "a digest of other bytes");
            }
            assert!(wanted.is_none_or(|it| *it == manifest.digest));
        }
        Ok(None) => {}
        Err(error) => check_error(&error),
    }
}

async fn run_case(seed: u64) {
    let _shown = ShownOnPanic(seed);
    let transport = Arc::new(DamagedRegistry {
        damage: Mutex::new(Damage::new(seed)),
        requests: Mutex::default(),
    });
    let policy = AddressPolicy {
        allow_internal: false,
        allow_insecure: false,
    };
    let repository = Repository::parse(&format!("oci://{HOST}/team/app"), false).unwrap();
    let entries = [("username", "user"), ("password", PASSWORD)];
    let entries: BTreeMap<String, Vec<u8>> = entries
        .map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()))
        .into();
    let credentials = Credentials::from_entries(&entries, repository.host()).unwrap();
    let tag = Tag::parse("prod").unwrap();
    let digest = Digest::of(manifest().to_string().as_bytes());
    for operation in 0..3 {
        // Rate limits last longer than an operation.
        let http = OutboundHttp::new(policy).with_transport(transport.clone());
        let client = RegistryClient::new(&http, &repository, &credentials).unwrap();
        match operation {
            0 => check_manifest(client.manifest(Reference::Tag(&tag)).await, None),
            1 => {
                let read = client.manifest(Reference::Digest(&digest)).await;
                check_manifest(read, Some(&digest));
            }
            _ => {
                let put = Manifest {
                    media_type: "application/json".to_owned(),
                    bytes: b"{}".to_vec(),
                    digest: Digest::of(b"{}"),
                };
                if let Err(error) = client.put_manifest(&tag, &put).await {
                    check_error(&error);
                }
            }
        }
        let requests = std::mem::take(&mut *transport.requests.lock().unwrap());
        assert!(requests.len() <= MANY, "{} requests", requests.len());
        let is_leak = |it: &(String, bool)| it.0 == ELSEWHERE && it.1;
        assert!(
            !requests.iter().any(is_leak),
            "credentials follow a redirect"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn damaged_answers_of_registries_do_no_harm() {
    for seed in seeds() {
        for part in 0..20 {
            run_case(seed.wrapping_mul(31).wrapping_add(part)).await;
        }
    }
}
