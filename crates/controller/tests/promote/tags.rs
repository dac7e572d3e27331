//! The strategy oci: a tag of a small registry gets the digest that dev runs, and prod follows the tag.

use std::sync::Arc;
use std::time::Duration;

use axum::{extract::Request, middleware::Next, response::IntoResponse};
use futures::FutureExt;
use serde_json::{Value, json};
use testbed::registry::{Authentication, PASSWORD, Registry};
use tokio::sync::mpsc;

use crate::{
    tagged_apps::{self, NAME},
    world::{World, released, settings, spec},
};

/// Dev and prod, each with a Kustomization from the registry, and a pipeline that promotes by tag.
struct TagWorld {
    world: World,
    registry: Registry,
}

impl TagWorld {
    /// Both run 1.0.0, and the tag `prod` points to it.
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Value)) -> Self {
        let registry = Registry::start_with_tls(Authentication::Token)
            .await
            .unwrap();
        let world = World::with(&[]).await;
        let this = Self { world, registry };
        this.secret(PASSWORD).await;
        let first = this.registry.push_artifact(NAME, "1.0.0");
        this.registry.tag(NAME, "prod", &first);
        for cluster in ["dev", "prod"] {
            let revision = format!("{cluster}@{first}");
            tagged_apps::install(&this.world, cluster, cluster, &revision).await;
        }
        let mut pipeline = spec("dev=dev/dev > prod=prod/prod", &this.promotion());
        pipeline["appRef"] = tagged_apps::app_ref();
        change(&mut pipeline);
        this.world.pipeline("app", pipeline).await;
        this.world.expect_hold("app", "prod", "").await;
        this
    }

    fn promotion(&self) -> Value {
        let strategy = tagged_apps::strategy(&self.registry.host(), "${environment}");
        json!({"strategy": strategy})
    }

    async fn secret(&self, password: &str) {
        let authority = self.registry.certificate_authority().unwrap();
        tagged_apps::set_secret(&self.world, password, authority).await;
    }

    /// Flux has applied an artifact.
    async fn applied(&self, cluster: &str, revision: &str) {
        tagged_apps::applied(&self.world, cluster, cluster, revision).await;
    }

    /// A new version reaches dev; its digest.
    async fn release(&self, version: &str) -> String {
        let digest = self.registry.push_artifact(NAME, version);
        self.applied("dev", &format!("{version}@{digest}")).await;
        digest
    }

    /// Flux applies what the tag `prod` points to.
    async fn sync(&self) {
        let digest = self.registry.digest_of(NAME, "prod").unwrap();
        self.applied("prod", &format!("prod@{digest}")).await;
    }

    /// The whole way of a version from dev to prod.
    async fn promoted(&self, version: &str) -> String {
        let digest = self.release(version).await;
        let is_tagged = async || self.registry.digest_of(NAME, "prod").as_ref() == Some(&digest);
        assert!(
            crate::world::wait_for(is_tagged).await,
            "{version} has no tag"
        );
        self.sync().await;
        digest
    }

    /// The message of the promotion once it has this reason.
    async fn message(&self, digest: &str, reason: &str) -> String {
        let expected = format!("prod {digest} Running/{reason}");
        let promotions = self.world.expect(&expected).await;
        let status = promotions[0].status.clone().unwrap();
        status.message.unwrap_or_default()
    }

    fn intercept<F>(&self, answer: impl Fn(Request, Next) -> F + Send + Sync + 'static)
    where
        F: Future<Output = axum::response::Response> + Send + 'static,
    {
        let interceptor = move |request, next| answer(request, next).boxed();
        self.registry.intercept(Some(Arc::new(interceptor)));
    }
}

#[tokio::test]
async fn the_tag_gets_the_digest_byte_for_byte() {
    let world = TagWorld::new().await;
    let digest = world.release("1.1.0").await;
    world
        .world
        .expect(&format!("prod {digest} Deploying"))
        .await;
    let stored = world.registry.manifest(NAME, &digest);
    assert_eq!(world.registry.manifest(NAME, "prod"), stored);
    assert_eq!(world.registry.puts(), [("prod".to_owned(), digest.clone())]);
    world.sync().await;
    world
        .world
        .expect(&format!("prod {digest} Succeeded"))
        .await;
}

#[tokio::test]
async fn a_rollback_sets_the_tag_back() {
    let world = TagWorld::new().await;
    let first = world.registry.digest_of(NAME, "prod").unwrap();
    let second = world.promoted("1.1.0").await;
    world
        .world
        .expect(&format!("prod {second} Succeeded"))
        .await;
    let request = json!({"id": "r1", "revision": first, "kind": "Rollback"});
    world.world.request("app", "prod", request).await;
    let is_back = async || world.registry.digest_of(NAME, "prod").as_ref() == Some(&first);
    assert!(
        crate::world::wait_for(is_back).await,
        "the tag was not set back"
    );
    world.sync().await;
    let [first, second] = [&first, &second].map(|digest| format!("prod {digest} Succeeded"));
    world.world.expect_all(&[&first, &second]).await;
    world.world.expect_hold("app", "prod", "Rejected").await;
}

#[tokio::test]
async fn a_tag_that_somebody_else_set_is_not_overwritten() {
    let world = TagWorld::new().await;
    let first = world.registry.digest_of(NAME, "prod").unwrap();
    let foreign = world.registry.push_artifact(NAME, "0.9.0");
    world.registry.tag(NAME, "prod", &foreign);
    let digest = world.release("1.1.0").await;
    let message = world.message(&digest, "TagChangedByOthers").await;
    assert!(
        message.contains(&foreign) && message.contains(&first),
        "{message}"
    );
    assert_eq!(world.registry.puts(), []);
    // Somebody points it back.
    world.registry.tag(NAME, "prod", &first);
    world
        .world
        .expect(&format!("prod {digest} Deploying"))
        .await;
    assert_eq!(world.registry.digest_of(NAME, "prod"), Some(digest));
}

#[tokio::test]
async fn a_race_that_was_lost_is_reported() {
    let world = TagWorld::new().await;
    let foreign = world.registry.push_artifact(NAME, "0.9.0");
    let uri = format!("/v2/{NAME}/manifests/{foreign}");
    let (wins, mut has_won) = mpsc::unbounded_channel();
    // After ours, another client's tag arrives: from then on the tag reads as theirs.
    world.intercept(move |mut request, next| {
        let is_put = request.method() == "PUT";
        let is_tag = request.uri().path().ends_with("/prod");
        if is_put {
            let _ = wins.send(());
        } else if is_tag && wins.is_closed() {
            *request.uri_mut() = uri.parse().unwrap();
        }
        next.run(request)
    });
    let closing = tokio::spawn(async move {
        has_won.recv().await;
        has_won.close();
    });
    let digest = world.release("1.1.0").await;
    let message = world.message(&digest, "TagChangedByOthers").await;
    closing.await.unwrap();
    assert!(message.contains(&foreign), "{message}");
}

#[tokio::test]
async fn what_an_earlier_promotion_put_there_is_replaced() {
    let world = TagWorld::new().await;
    let second = world.release("1.1.0").await;
    world
        .world
        .expect(&format!("prod {second} Deploying"))
        .await;
    // Prod still runs 1.0.0, which is what the next promotion replaces.
    let third = world.release("1.2.0").await;
    let is_tagged = async || world.registry.digest_of(NAME, "prod").as_ref() == Some(&third);
    assert!(
        crate::world::wait_for(is_tagged).await,
        "the tag was not set"
    );
    world.sync().await;
    let superseded = format!("prod {second} Superseded");
    let done = format!("prod {third} Succeeded");
    world.world.expect_all(&[&superseded, &done]).await;
}

#[tokio::test]
async fn outages_are_retried() {
    let world = TagWorld::new().await;
    world.registry.set_available(false);
    let digest = world.release("1.1.0").await;
    world.message(&digest, "RegistryUnavailable").await;
    world.registry.set_available(true);
    world
        .world
        .expect(&format!("prod {digest} Deploying"))
        .await;
}

#[tokio::test]
async fn an_edit_of_the_secret_is_noticed() {
    let world = TagWorld::new().await;
    world.secret("wrong").await;
    let digest = world.release("1.1.0").await;
    world.message(&digest, "Unauthorized").await;
    world.secret(PASSWORD).await;
    world
        .world
        .expect(&format!("prod {digest} Deploying"))
        .await;
}

#[tokio::test]
async fn a_registry_that_redirects_or_lies_gets_no_tag() {
    let world = TagWorld::new().await;
    world.intercept(|_, _| async {
        let headers = [("location", "http://127.0.0.1:1/")];
        (http::StatusCode::FOUND, headers).into_response()
    });
    let digest = world.release("1.1.0").await;
    world.message(&digest, "RegistryRedirects").await;
    let claimed = digest.clone();
    world.intercept(move |_, _| {
        let headers = [("docker-content-digest", claimed.clone())];
        async move { (headers, "{}").into_response() }
    });
    world.message(&digest, "DigestMismatch").await;
    assert_eq!(world.registry.puts(), []);
}

#[tokio::test]
async fn a_rate_limit_postpones_the_next_attempt() {
    let world = TagWorld::new().await;
    world.intercept(|_, _| async {
        (
            http::StatusCode::TOO_MANY_REQUESTS,
            [("retry-after", "600")],
        )
            .into_response()
    });
    let digest = world.release("1.1.0").await;
    let expected = format!("prod {digest} Running/RateLimited");
    let promotions = world.world.expect(&expected).await;
    let status = promotions[0].status.clone().unwrap();
    let wait = status
        .next_attempt
        .unwrap()
        .0
        .duration_since(status.started_at.unwrap().0);
    assert!(wait.as_secs() >= 599, "{wait:?}");
    let requests = world.registry.requests();
    assert_eq!(requests, 1);
}

#[tokio::test]
async fn an_artifact_of_another_repository_is_not_copied() {
    let world = TagWorld::new().await;
    let digest = world.registry.push_artifact("team/other", "1.1.0");
    world.applied("dev", &format!("1.1.0@{digest}")).await;
    let message = world.message(&digest, "ArtifactNotFound").await;
    assert!(message.contains(NAME), "{message}");
    assert_eq!(world.registry.puts(), []);
}

/// Ends the reconcilers before or after the registry handled a request, and starts them again.
async fn crash(at: usize, is_before: bool) {
    let mut world = TagWorld::new().await;
    let (reached, mut is_reached) = mpsc::unbounded_channel();
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    world.intercept(move |request, next| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let reached = reached.clone();
        async move {
            if number != at {
                return next.run(request).await;
            }
            if !is_before {
                next.run(request).await;
            }
            let _ = reached.send(());
            std::future::pending().await
        }
    });
    let digest = world.release("1.1.0").await;
    let arrival = tokio::time::timeout(Duration::from_secs(60), is_reached.recv());
    arrival.await.unwrap().unwrap();
    world.world.stop();
    world.registry.intercept(None);
    world.world.restart(settings());
    world
        .world
        .expect(&format!("prod {digest} Deploying"))
        .await;
    assert_eq!(world.registry.digest_of(NAME, "prod"), Some(digest.clone()));
    let puts = world.registry.puts();
    assert!(
        puts.iter()
            .all(|put| *put == ("prod".to_owned(), digest.clone())),
        "{puts:?}"
    );
    // Refused, token, manifest, tag, put, tag: only the put itself may be repeated.
    assert_eq!(puts.len(), 1, "crash at {at}, before: {is_before}");
}

#[tokio::test]
async fn after_a_crash_there_is_one_tag_with_the_right_digest() {
    for at in 0..6 {
        for is_before in [true, false] {
            crash(at, is_before).await;
        }
    }
}

/// A HelmRelease from an OCIRepository: the revision is the version, the digest stands beside it.
#[tokio::test]
async fn charts_are_promoted_by_their_digest() {
    let helm = |pipeline: &mut Value| {
        pipeline["appRef"] = json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app",
        });
    };
    let world = TagWorld::with(helm).await;
    let first = world.registry.digest_of(NAME, "prod").unwrap();
    let installed = async |cluster: &str, version: &str, digest: &str| {
        let mut status = released(version, true);
        status["history"][0]["ociDigest"] = json!(digest);
        status["lastAttemptedRevisionDigest"] = json!(digest);
        world.world.set_status(cluster, cluster, &status).await;
    };
    installed("prod", "1.0.0", &first).await;
    let digest = world.registry.push_artifact(NAME, "1.1.0");
    installed("dev", "1.1.0", &digest).await;
    world.world.expect("prod 1.1.0 Deploying").await;
    assert_eq!(world.registry.digest_of(NAME, "prod"), Some(digest.clone()));
    // The same version with other contents is not it.
    installed("prod", "1.1.0", &first).await;
    world
        .world
        .expect_hold("app", "prod", "DigestDiffers")
        .await;
    installed("prod", "1.1.0", &digest).await;
    world.world.expect("prod 1.1.0 Succeeded").await;
}
