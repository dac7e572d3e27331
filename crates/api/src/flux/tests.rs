use serde_json::{Value, json};

use super::*;
use crate::third_party::read;

#[test]
fn junk_is_absent() {
    let release: HelmRelease = read(&json!({
        "spec": { "suspend": "yes", "chart": 7 },
        "status": {
            "observedGeneration": "three",
            "conditions": { "not": "a list" },
            "history": [{ "chartVersion": 6, "status": "deployed" }],
            "lastAppliedRevision": "6.5.0"
        }
    }));
    assert!(!release.spec.suspend);
    assert_eq!(release.status.observed_generation, None);
    assert_eq!(release.status.conditions, None);
    assert_eq!(
        release.status.history[0].status.as_deref(),
        Some("deployed")
    );
    assert_eq!(release.status.history[0].chart_version, None);
    assert_eq!(
        release.status.last_applied_revision.as_deref(),
        Some("6.5.0")
    );
    for junk in [
        json!(null),
        json!([]),
        json!("x"),
        json!({ "spec": null, "status": [] }),
    ] {
        assert_eq!(read::<HelmRelease>(&junk), HelmRelease::default());
    }
}

#[test]
fn images_are_read_in_both_notations() {
    let latest = |status| {
        read::<ImagePolicy>(&json!({ "status": status }))
            .status
            .latest()
    };
    let image = Image::parse("ghcr.io/acme/shop:v2");
    assert_eq!(
        latest(json!({ "latestRef": { "name": "ghcr.io/acme/shop", "tag": "v2" } })),
        image
    );
    assert_eq!(
        latest(json!({ "latestImage": "ghcr.io/acme/shop:v2" })),
        image
    );
    assert_eq!(latest(json!({})), None);
}

#[test]
fn a_source_tells_tags_from_branches() {
    let version = |reference: Value, revision: &str| {
        let reference: GitReference = read(&reference);
        reference
            .version_of(&SourceRevision::parse(revision))
            .map(str::to_owned)
    };
    assert_eq!(
        version(json!({ "tag": "stable" }), "stable@sha1:ab").unwrap(),
        "stable"
    );
    assert_eq!(
        version(json!({ "semver": ">=1" }), "1.2@sha1:ab").unwrap(),
        "1.2"
    );
    assert_eq!(
        version(json!({ "branch": "main" }), "main@sha1:ab").unwrap(),
        "ab"
    );
    assert_eq!(
        version(json!({ "commit": "ab", "branch": "main" }), "main@sha1:ab").unwrap(),
        "ab"
    );
    assert_eq!(
        version(json!({ "name": "refs/tags/x" }), "refs/tags/x@sha1:ab").unwrap(),
        "x"
    );
}

#[test]
fn inventory_ids_are_taken_apart() {
    let object = |id: &str| {
        InventoryEntry {
            id: id.into(),
            v: "v1".into(),
        }
        .object()
        .map(|parts| parts.join("|"))
    };
    assert_eq!(
        object("shop_web_apps_Deployment").unwrap(),
        "shop|web|apps|Deployment"
    );
    assert_eq!(object("_shop__Namespace").unwrap(), "|shop||Namespace");
    assert_eq!(
        object("_a__b_rbac.authorization.k8s.io_ClusterRole").unwrap(),
        "|a__b|rbac.authorization.k8s.io|ClusterRole"
    );
    assert_eq!(object("nonsense"), None);
}
