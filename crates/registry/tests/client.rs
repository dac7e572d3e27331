//! The client against a small strict registry: manifests of any type, every way to authenticate, and what
//! can go wrong.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::{FutureExt, StreamExt};
use net::{AddressPolicy, OutboundHttp, Remedy};
use registry::{Credentials, Digest, Error, Manifest, Reference, RegistryClient, Repository, Tag};
use testbed::registry::{Authentication, IDENTITY_TOKEN, PASSWORD, Registry, USER};

const NAME: &str = "team/shop";

/// A registry, and a client's settings for it.
struct World {
    registry: Registry,
    repository: Repository,
    credentials: Credentials,
    http: OutboundHttp,
}

impl World {
    async fn new(authentication: Authentication, entries: &[(&str, &str)]) -> Self {
        let registry = Registry::start_with_tls(authentication).await.unwrap();
        let authority = registry.certificate_authority().unwrap();
        let mut all: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for (name, value) in entries.iter().chain([&("caFile", authority)]) {
            let value = value.replace("HOST", &registry.host());
            all.insert((*name).to_owned(), value.into_bytes());
        }
        let url = format!("oci://{}/{NAME}", registry.host());
        let repository = Repository::parse(&url, false).unwrap();
        let credentials = Credentials::from_entries(&all, repository.host()).unwrap();
        let policy = AddressPolicy {
            allow_internal: true,
            allow_insecure: false,
        };
        let http = OutboundHttp::new(policy).with_timeout(Duration::from_secs(5));
        Self {
            registry,
            repository,
            credentials,
            http,
        }
    }

    async fn with_password() -> Self {
        let entries = [("username", USER), ("password", PASSWORD)];
        Self::new(Authentication::Token, &entries).await
    }

    fn client(&self) -> RegistryClient<'_> {
        RegistryClient::new(&self.http, &self.repository, &self.credentials).unwrap()
    }

    async fn read(&self, tag: &str) -> Result<Option<Manifest>, Error> {
        let tag = Tag::parse(tag).unwrap();
        self.client().manifest(Reference::Tag(&tag)).await
    }

    async fn read_digest(&self, digest: &str) -> Result<Option<Manifest>, Error> {
        let digest = Digest::parse(digest).unwrap();
        self.client().manifest(Reference::Digest(&digest)).await
    }

    async fn put(&self, tag: &str, manifest: &Manifest) -> Result<(), Error> {
        let tag = Tag::parse(tag).unwrap();
        self.client().put_manifest(&tag, manifest).await
    }

    /// Answers every request from now on like this.
    fn intercept<F>(&self, answer: impl Fn(Request, Next) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Response> + Send + 'static,
    {
        let interceptor = move |request, next| answer(request, next).boxed();
        self.registry.intercept(Some(Arc::new(interceptor)));
    }

    /// Reading the tag `dev` fails for this reason.
    async fn expect_failure(&self, reason: &str) -> Error {
        let error = self.read("dev").await.unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
        error
    }
}

#[tokio::test]
async fn a_manifest_of_any_type_gets_another_tag_byte_for_byte() {
    let world = World::with_password().await;
    let index = r#"{"schemaVersion": 2,
        "manifests": [{"digest": "sha256:aa", "size": 1, "mediaType": "x"}] }"#;
    let types = [
        ("application/vnd.oci.image.index.v1+json", index.to_owned()),
        (
            "application/vnd.docker.distribution.manifest.v2+json",
            r#"{ "schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json","layers":[]}"#.to_owned(),
        ),
    ];
    let mut digests = vec![world.registry.push_artifact(NAME, "1.0.0")];
    for (media_type, text) in types {
        digests.push(world.registry.push(NAME, media_type, text.as_bytes()));
    }
    for digest in digests {
        let manifest = world.read_digest(&digest).await.unwrap().unwrap();
        world.put("prod", &manifest).await.unwrap();
        let stored = world.registry.manifest(NAME, &digest).unwrap();
        assert_eq!(world.registry.manifest(NAME, "prod").unwrap(), stored);
        assert_eq!(manifest.bytes, stored.bytes);
        let read = world.read("prod").await.unwrap().unwrap();
        assert_eq!(read.digest.as_str(), digest);
    }
}

#[tokio::test]
async fn every_kind_of_credential_is_understood() {
    let docker = format!(
        r#"{{"auths": {{"https://HOST": {{"username": "{USER}", "password": "{PASSWORD}"}}}}}}"#
    );
    let identity = format!(r#"{{"auths": {{"HOST": {{"identitytoken": "{IDENTITY_TOKEN}"}}}}}}"#);
    let password = vec![("username", USER), ("password", PASSWORD)];
    for (authentication, entries) in [
        (Authentication::Anonymous, vec![]),
        (Authentication::Password, password.clone()),
        (Authentication::Token, password),
        (
            Authentication::Token,
            vec![(".dockerconfigjson", docker.as_str())],
        ),
        (
            Authentication::Token,
            vec![(".dockerconfigjson", identity.as_str())],
        ),
    ] {
        let world = World::new(authentication, &entries).await;
        let digest = world.registry.push_artifact(NAME, "1.0.0");
        let manifest = world.read_digest(&digest).await.unwrap().unwrap();
        world.put("prod", &manifest).await.unwrap();
        assert_eq!(world.registry.digest_of(NAME, "prod"), Some(digest));
    }
}

#[tokio::test]
async fn a_token_of_the_secret_is_sent_as_it_is() {
    let world = World::new(Authentication::Anonymous, &[("token", "given")]).await;
    world.registry.push_artifact(NAME, "1.0.0");
    world.intercept(|request, next| async move {
        let given = request.headers().get("authorization").cloned();
        match given.is_some_and(|it| it == "Bearer given") {
            true => next.run(request).await,
            false => http::StatusCode::UNAUTHORIZED.into_response(),
        }
    });
    assert!(world.read("dev").await.unwrap().is_none());
}

#[tokio::test]
async fn one_token_serves_several_requests() {
    let world = World::with_password().await;
    let digest = world.registry.push_artifact(NAME, "1.0.0");
    let (digest, tag) = (Digest::parse(&digest).unwrap(), Tag::parse("prod").unwrap());
    let client = world.client();
    let manifest = client.manifest(Reference::Digest(&digest)).await.unwrap();
    client.put_manifest(&tag, &manifest.unwrap()).await.unwrap();
    client.manifest(Reference::Tag(&tag)).await.unwrap();
    // One refused, one for the token, three that count.
    assert_eq!(world.registry.requests(), 5);
}

#[tokio::test]
async fn what_is_missing_is_no_error() {
    let world = World::with_password().await;
    assert!(world.read("dev").await.unwrap().is_none());
    let digest = world.registry.push_artifact(NAME, "1.0.0");
    world.registry.tag(NAME, "dev", &digest);
    assert!(world.read("dev").await.unwrap().is_some());
    world.registry.delete_manifest(NAME, &digest);
    assert!(world.read_digest(&digest).await.unwrap().is_none());
}

#[tokio::test]
async fn wrong_credentials_wait_for_an_edit() {
    for authentication in [Authentication::Token, Authentication::Password] {
        for entries in [vec![], vec![("username", USER), ("password", "wrong")]] {
            let world = World::new(authentication, &entries).await;
            let error = world.expect_failure("Unauthorized").await;
            assert_eq!(error.remedy(), Remedy::Edit);
        }
    }
    let world = World::with_password().await;
    world.intercept(|_, _| async { http::StatusCode::FORBIDDEN.into_response() });
    let error = world.expect_failure("Forbidden").await;
    assert_eq!(error.remedy(), Remedy::Edit);
}

#[tokio::test]
async fn a_rate_limit_is_obeyed() {
    let world = World::with_password().await;
    world.intercept(|_, _| async {
        let wait = [("retry-after", "77")];
        (http::StatusCode::TOO_MANY_REQUESTS, wait).into_response()
    });
    let error = world.expect_failure("RateLimited").await;
    let after = Some(Duration::from_secs(77));
    assert_eq!(error.remedy(), Remedy::Retry { after });
    world.registry.intercept(None);
    world.expect_failure("RateLimited").await;
    assert_eq!(world.registry.requests(), 1, "the second was not sent");
}

#[tokio::test]
async fn outages_are_retried() {
    let world = World::with_password().await;
    world.registry.set_available(false);
    let error = world.expect_failure("RegistryUnavailable").await;
    assert_eq!(error.remedy(), Remedy::RETRY);
    let World {
        registry,
        repository,
        credentials,
        http,
    } = world;
    drop(registry);
    let client = RegistryClient::new(&http, &repository, &credentials).unwrap();
    let tag = Tag::parse("dev").unwrap();
    let error = client.manifest(Reference::Tag(&tag)).await.unwrap_err();
    assert_eq!(error.reason(), "RegistryUnreachable");
    assert_eq!(error.remedy(), Remedy::RETRY);
}

#[tokio::test]
async fn answers_are_bounded_in_time_and_size() {
    let mut world = World::with_password().await;
    world.http =
        OutboundHttp::new(AddressPolicy::UNRESTRICTED).with_timeout(Duration::from_millis(300));
    world.intercept(|_, _| async { std::future::pending().await });
    let error = world.expect_failure("RegistryTimedOut").await;
    assert_eq!(error.remedy(), Remedy::RETRY);
    world.intercept(|_, _| async {
        let start = futures::stream::once(std::future::ready(Ok::<_, std::io::Error>("{")));
        Body::from_stream(start.chain(futures::stream::pending())).into_response()
    });
    world.expect_failure("RegistryTimedOut").await;
    world.http = OutboundHttp::new(AddressPolicy::UNRESTRICTED);
    world.intercept(|_, _| async {
        let more = futures::stream::repeat_with(|| Ok::<_, std::io::Error>("x".repeat(1 << 20)));
        Body::from_stream(more).into_response()
    });
    world.expect_failure("RegistryUnreadable").await;
}

#[tokio::test]
async fn a_digest_is_verified_by_the_bytes() {
    let world = World::new(Authentication::Anonymous, &[]).await;
    let digest = world.registry.push_artifact(NAME, "1.0.0");
    let other = world.registry.push_artifact(NAME, "2.0.0");
    world.registry.tag(NAME, "dev", &digest);
    // The right header with other bytes.
    let claimed = digest.clone();
    world.intercept(move |_, _| {
        let headers = [("docker-content-digest", claimed.clone())];
        async move { (headers, "{}").into_response() }
    });
    let error = world.expect_failure("DigestMismatch").await;
    assert!(error.to_string().contains(&digest), "{error}");
    let error = world.read_digest(&digest).await.unwrap_err();
    assert_eq!(error.reason(), "DigestMismatch");
    // Another manifest whose header is right.
    world.intercept(move |mut request, next| {
        let uri = format!("/v2/{NAME}/manifests/{other}");
        *request.uri_mut() = uri.parse().unwrap();
        async move { next.run(request).await }
    });
    let error = world.read_digest(&digest).await.unwrap_err();
    assert_eq!(error.reason(), "DigestMismatch");
}

/// Another registry that holds the manifest, and counts requests that bring credentials.
async fn elsewhere(world: &World) -> (Registry, String, Arc<AtomicUsize>) {
    let elsewhere = Registry::start_with_tls(Authentication::Anonymous)
        .await
        .unwrap();
    let digest = elsewhere.push_artifact(NAME, "1.0.0");
    let with_credentials = Arc::new(AtomicUsize::new(0));
    let counter = with_credentials.clone();
    elsewhere.intercept(Some(Arc::new(move |request, next| {
        if request.headers().contains_key("authorization") {
            counter.fetch_add(1, Ordering::SeqCst);
        }
        async move { next.run(request).await }.boxed()
    })));
    let location = format!("https://{}/v2/{NAME}/manifests/{digest}", elsewhere.host());
    world.intercept(move |request, next| {
        let location = location.clone();
        async move {
            let is_read = request.uri().path().starts_with("/v2/");
            if !is_read || !request.headers().contains_key("authorization") {
                return next.run(request).await;
            }
            let headers = [("location", location)];
            (http::StatusCode::TEMPORARY_REDIRECT, headers).into_response()
        }
    });
    (elsewhere, digest, with_credentials)
}

/// Credentials that trust both registries.
fn trusting(world: &World, other: &Registry) -> Credentials {
    let authorities = [&world.registry, other].map(|it| it.certificate_authority().unwrap());
    let entries = [
        ("username", USER.to_owned()),
        ("password", PASSWORD.to_owned()),
        ("caFile", authorities.join("\n")),
    ];
    let entries = entries.map(|(name, value)| (name.to_owned(), value.into_bytes()));
    Credentials::from_entries(&entries.into(), world.repository.host()).unwrap()
}

#[tokio::test]
async fn downloads_are_followed_without_credentials() {
    let mut world = World::with_password().await;
    let (elsewhere, digest, with_credentials) = elsewhere(&world).await;
    world.credentials = trusting(&world, &elsewhere);
    let manifest = world.read_digest(&digest).await.unwrap().unwrap();
    assert_eq!(manifest.digest.as_str(), digest);
    assert_eq!(elsewhere.requests(), 1);
    assert_eq!(with_credentials.load(Ordering::SeqCst), 0);
    // A tag is never set by way of a redirect.
    let error = world.put("prod", &manifest).await.unwrap_err();
    assert_eq!(error.reason(), "RegistryRedirects");
    assert_eq!(elsewhere.requests(), 1);
}

#[tokio::test]
async fn a_redirect_leads_to_no_forbidden_address() {
    let world = World::with_password().await;
    for (location, reason) in [
        ("http://127.0.0.1:1/", "RegistryRedirects"),
        ("https://joe:secret@127.0.0.1:1/", "RegistryRedirects"),
        ("/v2/again", "RegistryRedirects"),
    ] {
        world.intercept(move |_, _| async move {
            let headers = [("location", location)];
            (http::StatusCode::FOUND, headers).into_response()
        });
        let error = world.expect_failure(reason).await;
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn the_token_service_is_checked_like_the_registry() {
    let world = World::with_password().await;
    for (realm, reason) in [
        ("http://127.0.0.1:1/token", "InvalidUrl"),
        ("https://joe:secret@127.0.0.1:1/", "InvalidUrl"),
        ("nonsense", "InvalidUrl"),
    ] {
        world.intercept(move |_, _| async move {
            let challenge = [("www-authenticate", format!("Bearer realm=\"{realm}\""))];
            (http::StatusCode::UNAUTHORIZED, challenge).into_response()
        });
        world.expect_failure(reason).await;
    }
}

#[tokio::test]
async fn internal_addresses_are_refused() {
    let repository = Repository::parse("oci://127.0.0.1:5000/a", false).unwrap();
    let http = OutboundHttp::new(AddressPolicy::default());
    let credentials = Credentials::anonymous();
    let error = RegistryClient::new(&http, &repository, &credentials);
    assert_eq!(error.err().unwrap().reason(), "InternalUrl");
    let repository = Repository::parse("oci://localhost:5000/a", false).unwrap();
    testbed::tls::install_provider();
    let client = RegistryClient::new(&http, &repository, &credentials).unwrap();
    let tag = Tag::parse("dev").unwrap();
    let error = client.manifest(Reference::Tag(&tag)).await.unwrap_err();
    assert_eq!(
        (error.reason(), error.remedy()),
        ("InternalUrl", Remedy::Edit)
    );
}

#[tokio::test]
async fn a_refusal_names_its_code() {
    let world = World::new(Authentication::Anonymous, &[]).await;
    let digest = world.registry.push_artifact(NAME, "1.0.0");
    let manifest = world.read_digest(&digest).await.unwrap().unwrap();
    let bytes = br#"{"schemaVersion": 2, "layers": [{"digest": "sha256:missing"}]}"#.to_vec();
    let unknown = Manifest { bytes, ..manifest };
    let error = world.put("prod", &unknown).await.unwrap_err();
    assert_eq!(error.reason(), "RegistryRefused");
    assert!(
        error.to_string().contains("MANIFEST_BLOB_UNKNOWN"),
        "{error}"
    );
    assert_eq!(world.registry.digest_of(NAME, "prod"), None);
}
