//! The store of an older version: `store-46c9997.gz` is the file that `sluice standalone`, built from commit
//! 46c9997, wrote while releases of `shop` went through three environments.
//!
//! In it 1.1.0 was approved and is in prod, 1.2.0 was rejected, and 1.3.0 waits for an approval while a
//! Freeze covers prod. A second pipeline proposes 1.1.0 to a forge that it may not reach, a third is
//! suspended, and one of the first proposal's group is adopted.

use std::{
    fs::File,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use api::{
    Change, Freeze, GitopsCluster, Pipeline, PipelineTrigger, Promotion, WegoPipeline,
    promotion::Phase,
};
use kube::{
    Api, Client, Resource,
    api::{DynamicObject, ListParams, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::start;

const STORE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/standalone/store-46c9997.gz"
);

/// What the older version stored of promotions.
const PROMOTIONS: [&str; 7] = [
    "shop prod 1.1.0 Succeeded",
    "shop prod 1.2.0 Abandoned",
    "shop prod 1.3.0 AwaitingApproval",
    "shop staging 1.1.0 Succeeded",
    "shop staging 1.2.0 Succeeded",
    "shop staging 1.3.0 Succeeded",
    "stock prod 1.1.0 Running",
];

pub(crate) fn unpack_into(data: &Path, packed: &str) {
    std::fs::create_dir(data).unwrap();
    let store = File::create(data.join("store")).unwrap();
    let unpacked = Command::new("gzip")
        .args(["-dc", packed])
        .stdin(Stdio::null())
        .stdout(store)
        .status();
    assert!(unpacked.unwrap().success(), "gzip unpacks {packed}");
}

pub(crate) async fn all<K>(client: &Client) -> Vec<K>
where
    K: Resource<Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
    K::DynamicType: Default,
{
    let api: Api<K> = Api::namespaced(client.clone(), "default");
    api.list(&ListParams::default()).await.unwrap().items
}

/// The promotions as drawn in [`PROMOTIONS`].
pub(crate) async fn promotions(client: &Client) -> Vec<String> {
    let mut drawn: Vec<_> = all::<Promotion>(client)
        .await
        .into_iter()
        .map(|it| {
            let phase = it.status.and_then(|status| status.phase);
            let phase = phase.map_or(String::new(), |phase: Phase| format!("{phase:?}"));
            let spec = it.spec;
            let (pipeline, environment) = (spec.pipeline, spec.environment);
            format!("{pipeline} {environment} {} {phase}", spec.revision)
        })
        .collect();
    drawn.sort();
    drawn
}

pub(crate) async fn until_promotion(client: &Client, wanted: &str) {
    let mut drawn = Vec::new();
    for _ in 0..600 {
        drawn = promotions(client).await;
        if drawn.iter().any(|it| it == wanted) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    unreachable!("no promotion becomes {wanted}: {drawn:?}");
}

pub(crate) fn sluice(data: &Path, arguments: &[&str]) -> String {
    sluice_of(env!("CARGO_BIN_EXE_sluice"), data, arguments)
}

pub(crate) fn sluice_of(program: &str, data: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .arg("--kubeconfig")
        .arg(data.join("kubeconfig"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said} {error}");
    said
}

/// Flux brings the app in a namespace to a version.
async fn deploy(client: &Client, namespace: &str, version: &str) {
    let kind = GroupVersionKind::gvk("helm.toolkit.fluxcd.io", "v2", "HelmRelease");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let status = json!({"status": {
        "lastAttemptedRevision": version,
        "history": [{"chartVersion": version, "status": "deployed"}],
    }});
    let patch = Patch::Merge(&status);
    let parameters = PatchParams::default();
    let patched = api.patch_status("shop", &parameters, &patch).await;
    patched.unwrap();
}

#[tokio::test]
async fn the_store_of_an_older_version_is_read_and_nothing_starts_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    unpack_into(&data, STORE);
    let (_running, client, _) = start(&data).await;

    let names: Vec<_> = all::<Pipeline>(&client).await;
    let names: Vec<_> = names
        .iter()
        .filter_map(|it| it.meta().name.clone())
        .collect();
    assert_eq!(names, ["early", "parked", "shop", "stock"]);
    let counts = (
        all::<Freeze>(&client).await.len(),
        all::<Change>(&client).await.len(),
        all::<GitopsCluster>(&client).await.len(),
        all::<PipelineTrigger>(&client).await.len(),
        all::<WegoPipeline>(&client).await.len(),
    );
    assert_eq!(counts, (1, 1, 1, 1, 1));
    for pipeline in ["shop", "stock", "parked"] {
        sluice(&data, &["reconcile", pipeline]);
    }
    assert_eq!(promotions(&client).await, PROMOTIONS);

    let shop: Api<Pipeline> = Api::namespaced(client, "default");
    let prod = shop.get("shop").await.unwrap().status.unwrap().environments["prod"].clone();
    assert_eq!(prod.rejected, ["1.2.0"]);
    let ran: Vec<_> = prod.ran.iter().map(|it| it.revision.as_str()).collect();
    assert_eq!(ran, ["1.1.0", "1.0.0"]);
    assert_eq!(prod.hold.unwrap().reason, "AwaitingApproval");
    let explained = sluice(&data, &["explain", "shop"]);
    assert!(
        explained.contains("no releases at the weekend"),
        "{explained}"
    );
}

#[tokio::test]
async fn what_waited_in_an_older_version_goes_on_in_this_one() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    unpack_into(&data, STORE);
    let (_running, client, _) = start(&data).await;

    sluice(&data, &["approve", "shop", "prod"]);
    until_promotion(&client, "shop prod 1.3.0 Running").await;
    let explained = sluice(&data, &["explain", "shop"]);
    assert!(
        explained.contains("frozen by stop-shop-prod"),
        "{explained}"
    );
    sluice(&data, &["thaw", "shop", "-e", "prod"]);
    until_promotion(&client, "shop prod 1.3.0 Deploying").await;
    deploy(&client, "prod", "1.3.0").await;
    until_promotion(&client, "shop prod 1.3.0 Succeeded").await;

    sluice(&data, &["rollback", "shop", "prod", "1.1.0"]);
    until_promotion(&client, "shop prod 1.1.0 AwaitingApproval").await;
    let stored = sluice(&data, &["get", "promotions", "-o", "yaml"]);
    assert!(
        stored.contains("too slow"),
        "the note of a rejection: {stored}"
    );
}
