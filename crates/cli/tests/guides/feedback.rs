//! What pull requests show and what chat receives: the manifests and commands of the guides, and the patch
//! of Flux's Alerts.

use json_patch::{Patch, PatchOperation};
use serde_json::{Value, json};
use testbed::guide::{Guide, Shell, repository};

use crate::binary;

#[tokio::test]
async fn the_guides_about_feedback_and_chat_work() {
    let mut shell = Shell::new().unwrap();
    shell.program("sluice", binary()).unwrap();
    for name in ["feedback", "chat"] {
        let guide = Guide::read(&format!("docs/{name}.md")).unwrap();
        shell.follow_all(guide.blocks()).await.unwrap();
    }
}

/// Flux's CRD, as far as the patch is concerned.
fn alerts(versions: &[&str]) -> Value {
    let version = |name: &&str| {
        let kind = json!({"type": "string", "enum": ["Bucket", "GitRepository"]});
        let sources = json!({"items": {"properties": {"kind": kind}}});
        let spec = json!({"properties": {"eventSources": sources}});
        json!({"name": name, "schema": {"openAPIV3Schema": {"properties": {"spec": spec}}}})
    };
    let versions: Vec<Value> = versions.iter().map(version).collect();
    json!({"spec": {"versions": versions}})
}

#[test]
fn the_patch_lets_alerts_select_pipelines_and_no_other_version_is_patched() {
    let path = repository().join("deploy/flux/kustomization.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let kustomization: Value = serde_saphyr::from_str(&text).unwrap();
    let patch = &kustomization["patches"][0];
    let target = &patch["target"]["name"];
    assert_eq!(*target, "alerts.notification.toolkit.fluxcd.io");
    let patch = patch["patch"].as_str().unwrap();
    let operations: Vec<PatchOperation> = serde_saphyr::from_str(patch).unwrap();
    let mut flux = alerts(&["v1beta3"]);
    json_patch::patch(&mut flux, &Patch(operations.clone())).unwrap();
    let kinds = flux.pointer(
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/eventSources/items/\
         properties/kind/enum",
    );
    let expected = json!(["Bucket", "GitRepository", "Pipeline", "Change"]);
    assert_eq!(kinds, Some(&expected));
    let mut older = alerts(&["v1beta1", "v1beta2", "v1beta3"]);
    let refused = json_patch::patch(&mut older, &Patch(operations));
    assert!(refused.is_err(), "{older}");
}
