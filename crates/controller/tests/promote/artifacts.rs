//! OCI artifacts: a revision with a digest is compared by the digest, and the digest is written where the
//! manifest has one.

use serde_json::{Value, json};

use crate::world::{
    World, apply, define, definition, release, released, set_status, spec, wait_for,
};

const PROD: &str = "prod/app.yaml";

fn digest(digit: &str) -> String {
    format!("sha256:{}", digit.repeat(64))
}

/// A source whose reference carries the marker.
fn source(reference: &str) -> String {
    format!(
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nspec:\n  ref:\n    \
         {reference} # {{\"$promotion\": \"default:app:prod\"}}\n"
    )
}

fn kustomization(namespace: &str) -> Value {
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "app", "namespace": namespace},
        "spec": {"sourceRef": {"kind": "OCIRepository", "name": "app"}},
    })
}

/// Flux has applied an artifact.
async fn applied(world: &World, cluster: &str, revision: &str) {
    applied_from(world, cluster, revision, None).await;
}

/// Flux has applied an artifact that was built from a commit.
async fn applied_from(world: &World, cluster: &str, revision: &str, commit: Option<&str>) {
    let origin = commit.map(|commit| format!("main@sha1:{commit}"));
    let status = json!({
        "observedGeneration": 1, "lastAppliedRevision": revision,
        "lastAppliedOriginRevision": origin,
        "conditions": [{"type": "Ready", "status": "True", "reason": "Done", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    });
    set_status(&world.cluster(cluster), &kustomization(cluster), &status).await;
}

/// Dev and prod at one artifact, the source of prod with this reference.
async fn at_one_artifact(reference: &str) -> World {
    let world = World::with(&[(PROD, &source(reference))]).await;
    let kind = definition("kustomize.toolkit.fluxcd.io", "Kustomization", "v1");
    for cluster in ["dev", "prod"] {
        world.leaf(cluster, cluster, "1.0.0").await;
        define(&world.cluster(cluster), &kind).await;
        apply(&world.cluster(cluster), &kustomization(cluster)).await;
        applied(&world, cluster, &format!("{cluster}@{}", digest("0"))).await;
    }
    let mut spec = spec("dev=dev/dev > prod=prod/prod", &world.promotion());
    spec["appRef"] = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "name": "app",
    });
    world.pipeline("app", spec).await;
    world.expect_hold("app", "prod", "").await;
    world
}

async fn promoted(reference: &str, expected: &str) {
    let world = at_one_artifact(reference).await;
    let newer = digest("4");
    applied(&world, "dev", &format!("latest@{newer}")).await;
    world.expect(&format!("prod {newer} WaitingForMerge")).await;
    let pull_requests = world.repository.pull_requests().await;
    assert_eq!(pull_requests.len(), 1);
    world.repository.merge(1).await.unwrap();
    let written = world.repository.read("main", PROD).await.unwrap();
    assert_eq!(String::from_utf8(written).unwrap(), source(expected));
    applied(&world, "prod", &format!("prod@{newer}")).await;
    world.expect(&format!("prod {newer} Succeeded")).await;
}

#[tokio::test]
async fn a_digest_is_written_where_a_digest_stands() {
    let (old, new) = (digest("0"), digest("4"));
    promoted(&format!("digest: {old}"), &format!("digest: {new}")).await;
}

#[tokio::test]
async fn a_tag_is_written_where_a_tag_stands() {
    promoted("tag: stable", "tag: latest").await;
}

/// A chart that is an OCI artifact says in its annotations which commit it was built from.
#[tokio::test]
async fn the_commit_of_a_chart_is_that_of_its_artifact() {
    let world = World::with(&[(PROD, &source("tag: stable"))]).await;
    world.leaf("dev", "dev", "1.0.0").await;
    let client = world.cluster("dev");
    let kind = definition("source.toolkit.fluxcd.io", "OCIRepository", "v1");
    let kind = plural(kind, "ocirepositories");
    define(&client, &kind).await;
    let repository = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository",
        "metadata": {"name": "chart", "namespace": "dev"}, "spec": {"url": "oci://127.0.0.1/chart"},
    });
    apply(&client, &repository).await;
    let (commit, digest) = ("ab".repeat(20), digest("7"));
    let metadata = json!({"org.opencontainers.image.revision": format!("main@sha1:{commit}")});
    let artifact = json!({"revision": format!("1.1.0@{digest}"), "metadata": metadata});
    set_status(&client, &repository, &json!({"artifact": artifact})).await;
    let mut release = release("dev");
    release["spec"] = json!({"chartRef": {"kind": "OCIRepository", "name": "chart"}});
    apply(&client, &release).await;
    let mut status = released("1.1.0", true);
    status["history"][0]["ociDigest"] = json!(digest);
    set_status(&client, &release, &status).await;
    let spec = spec("dev=dev/dev", &world.promotion());
    world.pipeline("app", spec).await;
    let known = async || {
        let status = world.pipelines().get("app").await.unwrap().status;
        let dev = status.and_then(|it| it.environments.get("dev").cloned());
        let targets = dev.map(|dev| dev.targets).unwrap_or_default();
        let mut apps = targets.iter().flat_map(|target| &target.apps);
        apps.any(|app| app.source_commit.as_ref() == Some(&commit))
    };
    assert!(
        wait_for(known).await,
        "the commit of the chart is not known"
    );
}

/// A kind whose plural is not its name with an s.
fn plural(mut definition: Value, plural: &str) -> Value {
    let group = definition["spec"]["group"].as_str().unwrap().to_owned();
    definition["spec"]["names"]["plural"] = json!(plural);
    definition["metadata"]["name"] = json!(format!("{plural}.{group}"));
    definition
}

#[tokio::test]
async fn the_commits_that_an_artifact_brings_are_listed() {
    let world = at_one_artifact("tag: stable").await;
    let mut ids = Vec::new();
    for title in ["First", "Second", "Third"] {
        let files = [("src/main.rs", title)];
        let id = world.repository.commit("main", title, &files).await;
        ids.push(id.unwrap());
    }
    let changelog = json!({
        "type": "gitea", "url": world.repository.url(), "secretRef": {"name": "git"},
    });
    let patch = json!({"spec": {"changelog": changelog}});
    world.patch_pipeline("app", patch).await;
    for cluster in ["prod", "dev"] {
        let revision = format!("{cluster}@{}", digest("0"));
        applied_from(&world, cluster, &revision, Some(&ids[0])).await;
    }
    let known = async || {
        let status = world.pipelines().get("app").await.unwrap().status.unwrap();
        let targets = &status.environments["prod"].targets;
        targets[0].apps[0].source_commit.as_ref() == Some(&ids[0])
    };
    assert!(
        wait_for(known).await,
        "the commit of what runs is not known"
    );
    let newer = digest("4");
    applied_from(&world, "dev", &format!("latest@{newer}"), Some(&ids[2])).await;
    let promotions = world.expect(&format!("prod {newer} WaitingForMerge")).await;
    let change = promotions[0].status.clone().unwrap().change.unwrap();
    let commits = change.commits.unwrap();
    assert_eq!((commits.from, commits.to), (ids[0].clone(), ids[2].clone()));
    assert_eq!(commits.total, Some(2));
    let titles: Vec<_> = commits.newest.iter().map(|it| it.title.as_str()).collect();
    assert_eq!(titles, ["Third", "Second"]);
    let page = format!("/compare/{}...{}", ids[0], ids[2]);
    assert!(commits.url.unwrap().ends_with(&page));
    let body = world.repository.pull_requests().await[0].body.clone();
    assert!(
        body.contains(&page) && body.contains("`Third` by `A Person`"),
        "{body}"
    );
}
