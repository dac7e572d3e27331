//! The guide about rollouts in waves. Its clusters report what they run, because none of them can be read.

use serde_json::json;
use testbed::{
    guide::{Guide, Shell},
    real::Assets,
};

use crate::demo::{free_port, shell, until};

/// Six clusters, and the Secret that the Pipeline names.
const FLEET: &str = r#"kubectl create namespace shop
kubectl --namespace shop create secret generic inputs --from-literal inputs-token=secret
for number in 1 2 3 4 5 6; do kubectl apply -f - <<END
apiVersion: gitops.weave.works/v1alpha1
kind: GitopsCluster
metadata: {name: edge-$number, namespace: shop}
spec: {secretRef: {name: edge-$number-kubeconfig}}
END
done"#;

/// Says that clusters are ready at a revision, as their webhooks would.
async fn report(shell: &mut Shell, targets: &[&str], revision: &str) {
    let reports = targets.iter().map(|target| {
        let report = json!({
            "revision": revision, "at": "2026-11-01T10:00:00Z", "severity": "info", "signed": true,
        });
        ((*target).to_owned(), report)
    });
    let reports: serde_json::Map<_, _> = reports.collect();
    let patch = json!({"status": {"reports": reports}});
    let patch = format!(
        "kubectl --namespace shop patch pipeline shop --subresource status --type merge \
         --patch '{patch}'"
    );
    shell.sh(&patch).await.unwrap();
}

async fn until_shown(shell: &mut Shell, text: &str) {
    let show = format!("sluice rollout shop prod --namespace shop | grep -q '{text}'");
    until(shell, &show).await;
}

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn a_revision_goes_through_a_fleet_in_waves() {
    let mut shell = shell();
    let kubectl = Assets::from_env().unwrap().program("kubectl");
    shell.program("kubectl", &kubectl).unwrap();
    let [api, hooks, rest] = [(); 3].map(|()| free_port());
    let start = format!(
        "sluice standalone --data data --api-port {api} --hooks-port {hooks} --port {rest}"
    );
    shell.background(&start).unwrap();
    let kubeconfig = shell.folder().join("data/kubeconfig");
    shell.set("KUBECONFIG", kubeconfig.to_str().unwrap());
    until(&mut shell, "kubectl get pipelines >/dev/null 2>&1").await;
    shell.sh(FLEET).await.unwrap();
    let guide = Guide::read("docs/fleets.md").unwrap();
    shell.follow_all(guide.under("Rings")).await.unwrap();
    let fleet = [1, 2, 3, 4, 5, 6].map(|number| format!("prod/edge-{number}/shop"));
    let fleet = fleet.each_ref().map(String::as_str);
    report(&mut shell, &fleet, "1.4.0").await;
    until(
        &mut shell,
        "sluice explain shop prod --namespace shop | grep -q 'prod: runs 1.4.0, ready'",
    )
    .await;
    report(&mut shell, &["dev/-/shop-dev"], "1.5.0").await;
    until_shown(&mut shell, "0 of 1 ready, 1 in flight").await;
    for heading in ["Follow a rollout", "Stop and resume", "Skip a target"] {
        shell.follow_all(guide.under(heading)).await.unwrap();
    }
    // The second wave begins, with as many targets as may change at the same time.
    until_shown(&mut shell, "0 of 3 ready, 2 in flight").await;
    report(&mut shell, &fleet[1..], "1.5.0").await;
    until_shown(&mut shell, "1.5.0 into prod  ended").await;
    shell.follow_all(guide.under("With git")).await.unwrap();
}
