//! The events of each kind of source, in every notation it has used.

use serde_json::json;

use super::*;

const SHA1: &str = "dc0fd09d0915f47cbda5f235a8a9c30b2d8baa69";
const SHA256: &str = "55609ff9d959589ed917ce32e6bc0f0a36809565f308602c15c3668965979edc";

fn git(revision: &str) -> SourceEvent {
    let object = json!({
        "spec": { "url": "https://git.example/shop.git" },
        "status": { "artifact": {
            "revision": revision.replace("$1", SHA1).replace("$2", SHA256),
            "path": "gitrepository/flux-system/shop/x.tar.gz",
        } }
    });
    let mut events = events_of(TriggerSourceKind::GitRepository, "shop", &object).unwrap();
    events.remove(0)
}

#[test]
fn every_git_revision_grammar() {
    for (revision, branch, commit) in [
        ("main@sha1:$1", "main", SHA1),
        ("feature/x@sha1:$1", "feature/x", SHA1),
        ("refs/heads/main@sha1:$1", "refs/heads/main", SHA1),
        ("refs/pull/420/head@sha1:$1", "refs/pull/420/head", SHA1),
        ("pkg@v1.0.0@sha256:$2", "pkg@v1.0.0", SHA256),
        ("sha1:$1", "", SHA1),
        ("main/$1", "main", SHA1),
        ("feature/x/$1", "feature/x", SHA1),
        ("HEAD/$1", "", SHA1),
        ("$1", "", SHA1),
        ("$2", "", SHA256),
        ("main@sha1:abc123", "main", "abc123"),
    ] {
        let event = git(revision);
        assert_eq!(event.branch(), Some(branch), "branch of {revision}");
        assert_eq!(event.commit(), Some(commit), "commit of {revision}");
    }
}

#[test]
fn the_same_commit_in_two_notations_is_one_event() {
    assert_eq!(git("main/$1").key, git("main@sha1:$1").key);
    assert_eq!(git("main/$1").text, format!("main/{SHA1}"));
}

#[test]
fn git_details_have_the_operators_order_and_escapes() {
    assert_eq!(
        git("a<b&c@sha1:abc123").details().unwrap(),
        r#"{"branchName":"a\u003cb\u0026c","commitId":"abc123","repositoryName":"shop"}"#
    );
    assert_eq!(
        git("sha1:abc123").details().unwrap(),
        r#"{"commitId":"abc123","repositoryName":"shop"}"#
    );
}

#[test]
fn b7_sources_without_status_are_a_sentence() {
    for (kind, object) in [
        (TriggerSourceKind::GitRepository, json!({})),
        (TriggerSourceKind::GitRepository, json!({"status": {}})),
        (
            TriggerSourceKind::GitRepository,
            json!({"status": {"artifact": {}}}),
        ),
        (
            TriggerSourceKind::OCIRepository,
            json!({"status": {"artifact": {"revision": ""}}}),
        ),
        (TriggerSourceKind::Bucket, json!({"status": null})),
        (TriggerSourceKind::HelmChart, json!({"status": []})),
    ] {
        let because = events_of(kind, "shop", &object).unwrap_err();
        assert_eq!(
            because,
            format!("{kind:?} shop has not fetched anything yet")
        );
    }
    let none = events_of(TriggerSourceKind::ImagePolicy, "base", &json!({})).unwrap_err();
    assert_eq!(none, "ImagePolicy base has not chosen an image yet");
    assert_eq!(
        events_of(TriggerSourceKind::PullRequest, "p", &json!({})),
        Ok(vec![])
    );
}

#[test]
fn b7_a_short_artifact_path_falls_back_to_the_objects_name() {
    for path in [json!(null), json!(""), json!("a/b"), json!("a/b/")] {
        let object = json!({"status": {"artifact": {"revision": "main@sha1:ab", "path": path}}});
        let event = &events_of(TriggerSourceKind::GitRepository, "shop", &object).unwrap()[0];
        assert!(
            event
                .details()
                .unwrap()
                .contains(r#""repositoryName":"shop""#)
        );
    }
}

fn image(status: Value) -> SourceEvent {
    let object = json!({ "status": status });
    let mut events = events_of(TriggerSourceKind::ImagePolicy, "base", &object).unwrap();
    events.remove(0)
}

#[test]
fn images_in_both_notations() {
    let new = image(json!({"latestRef": {"name": "ghcr.io/repo/my", "tag": "v1.0"}}));
    assert_eq!(new, image(json!({"latestImage": "ghcr.io/repo/my:v1.0"})));
    assert_eq!(
        new.details().unwrap(),
        r#"{"repositoryName":"repo","imageName":"my","imageVersion":"v1.0"}"#
    );
    let ported = image(json!({"latestImage": "host:5000/img:v2"}));
    assert_eq!(
        ported.details().unwrap(),
        r#"{"repositoryName":"host:5000","imageName":"img","imageVersion":"v2"}"#
    );
    let bare = image(json!({"latestImage": "nginx:1"}));
    assert_eq!(
        bare.details().unwrap(),
        r#"{"imageName":"nginx","imageVersion":"1"}"#
    );
}

#[test]
fn b20_a_digest_is_part_of_the_event() {
    let tagged = |digest: &str| {
        image(json!({"latestRef": {"name": "ghcr.io/repo/my", "tag": "v1", "digest": digest}}))
    };
    assert_ne!(tagged("sha256:aa").key, tagged("sha256:bb").key);
    assert_eq!(
        tagged("sha256:aa").image(),
        Some("ghcr.io/repo/my:v1@sha256:aa")
    );
}

#[test]
fn pull_requests_each_have_an_event() {
    let object = json!({"status": {"sourceBranches": {"branches": [
        {"name": "feature/x", "commit": "c1", "details": "{\"id\":1}"},
        {"name": "fix", "commit": "c2"},
        {"name": ""}, 7, null,
    ]}}});
    let events = events_of(TriggerSourceKind::PullRequest, "p", &object).unwrap();
    let keys: Vec<_> = events.iter().map(|event| event.key.as_str()).collect();
    assert_eq!(keys, ["feature/x@c1", "fix@c2"]);
    assert_eq!(events[0].document(None), Ok(json!({"id": 1})));
    assert!(
        events[1]
            .document(None)
            .unwrap_err()
            .contains("branch fix are not JSON")
    );
}

#[test]
fn other_sources_have_events_too() {
    let event = |kind, revision: &str| {
        let object = json!({"status": {"artifact": {"revision": revision}}});
        events_of(kind, "shop", &object).unwrap().remove(0)
    };
    let oci = event(TriggerSourceKind::OCIRepository, "6.5.0@sha256:aa");
    assert_eq!(
        (oci.tag(), oci.digest()),
        (Some("6.5.0"), Some("sha256:aa"))
    );
    let chart = event(TriggerSourceKind::HelmChart, "6.5.0");
    assert_eq!((chart.tag(), chart.commit()), (Some("6.5.0"), Some("")));
    let bucket = event(TriggerSourceKind::Bucket, "sha256:bb");
    assert_eq!((bucket.tag(), bucket.commit()), (None, Some("bb")));
}
