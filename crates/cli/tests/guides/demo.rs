//! The guides that use `sluice demo` and `sluice standalone`.

use std::collections::BTreeSet;

use planner::HoldReason;
use testbed::{
    guide::{Guide, Shell},
    ports::free_port,
    real::Assets,
};

use crate::binary;

/// A shell whose demo is a new one of its own.
pub(crate) fn shell() -> Shell {
    let mut shell = Shell::new().unwrap();
    for name in ["sluice", "kubectl-sluice"] {
        shell.program(name, binary()).unwrap();
    }
    let folder = shell.folder().join("tmp");
    std::fs::create_dir(&folder).unwrap();
    shell.set("TMPDIR", folder.to_str().unwrap());
    let port = free_port();
    shell.replace("sluice demo\n", format!("sluice demo --port {port}\n"));
    shell.replace(
        "https://sluice.example.com",
        format!("http://127.0.0.1:{port}"),
    );
    shell.replace("YOU", "admin");
    shell
}

/// Waits for a command to succeed, as a person would who looks again.
pub(crate) async fn until(shell: &mut Shell, command: &str) {
    let wait =
        format!("for _ in $(seq 600); do if {command}; then exit 0; fi; sleep 0.2; done; exit 1");
    if let Err(error) = shell.sh(&format!("( {wait} )")).await {
        panic!("{error}\n{}", shell.background_output());
    }
}

pub(crate) async fn until_approval_is_asked_for(shell: &mut Shell) {
    until(
        shell,
        "sluice explain podinfo prod | grep -q 'promotion of .*: AwaitingApproval'",
    )
    .await;
}

#[tokio::test]
async fn the_quickstart() {
    let guide = Guide::read("docs/quickstart.md").unwrap();
    let mut shell = shell();
    shell
        .stand_in("cargo", "[ \"$*\" = 'build --release' ]")
        .unwrap();
    shell.follow_all(guide.under("Quickstart")).await.unwrap();
    shell
        .follow_all(guide.under("Start the demo"))
        .await
        .unwrap();
    until(&mut shell, "sluice demo env 2>/dev/null").await;
    let mut watch = guide.under("Watch a revision");
    shell.follow(watch.next().unwrap()).await.unwrap();
    until_approval_is_asked_for(&mut shell).await;
    shell.follow_all(watch).await.unwrap();
    shell
        .follow_all(guide.under("Approve it for prod"))
        .await
        .unwrap();
    let mut broken = guide.under("A broken revision");
    shell.follow(broken.next().unwrap()).await.unwrap();
    until(
        &mut shell,
        "sluice explain podinfo dev | grep -q '6.3.0-broken failed'",
    )
    .await;
    shell.follow_all(broken).await.unwrap();
    for section in ["A revision that fails its check", "Roll back by hand"] {
        shell.follow_all(guide.under(section)).await.unwrap();
    }
}

#[tokio::test]
async fn the_guide_without_git() {
    let guide = Guide::read("docs/gitless.md").unwrap();
    let mut shell = shell();
    let start = format!("sluice demo --gitless --port {}\n", free_port());
    shell.replace("sluice demo --gitless\n", start);
    let mut first = guide.under("Try it");
    shell.follow(first.next().unwrap()).await.unwrap();
    until(&mut shell, "sluice demo env 2>/dev/null").await;
    shell.follow(first.next().unwrap()).await.unwrap();
    until_approval_is_asked_for(&mut shell).await;
    shell.follow_all(first).await.unwrap();
    shell.follow_all(guide.under("Set it up")).await.unwrap();
    shell.follow_all(guide.under("Roll back")).await.unwrap();
}

#[tokio::test]
async fn a_freeze_stops_the_demo_and_thawing_lets_it_go_on() {
    let mut shell = shell();
    let quickstart = Guide::read("docs/quickstart.md").unwrap();
    let start = quickstart.under("Start the demo");
    shell.follow_all(start).await.unwrap();
    until(&mut shell, "sluice demo env 2>/dev/null").await;
    shell.sh("eval \"$(sluice demo env)\"").await.unwrap();
    until_approval_is_asked_for(&mut shell).await;
    let guide = Guide::read("docs/freezes.md").unwrap();
    let mut blocks = guide.under("Stop promotions now");
    shell.follow(blocks.next().unwrap()).await.unwrap();
    for user in ["", "--as ann"] {
        let approve = format!("sluice approve podinfo prod {user}");
        shell.sh(&approve).await.unwrap();
    }
    let frozen = "prod is frozen by stop-podinfo-prod";
    until(
        &mut shell,
        &format!("sluice explain podinfo prod | grep -q '{frozen}'"),
    )
    .await;
    for show in ["status podinfo", "get promotions -o wide"] {
        let shown = format!("sluice {show} | tr -d '\\n' | grep -qi frozen");
        until(&mut shell, &shown).await;
    }
    let said = shell.sh("sluice get freezes").await.unwrap();
    assert!(
        said.contains("closed") && said.contains("incident 7"),
        "{said}"
    );
    let runs = shell.sh("sluice explain podinfo prod").await.unwrap();
    assert!(runs.contains("6.1.0"), "nothing went on: {runs}");
    shell.follow_all(blocks).await.unwrap();
    let arrived = "sluice get pipelines podinfo -o json | grep -q '\"revision\": \"6.2.0\"' \
        && sluice history podinfo | grep -q 'prod.*Succeeded'";
    until(&mut shell, arrived).await;
}

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn guides_for_users_work_on_the_demo() {
    let mut shell = shell();
    let assets = Assets::from_env().unwrap();
    shell
        .program("kubectl", &assets.program("kubectl"))
        .unwrap();
    let quickstart = Guide::read("docs/quickstart.md").unwrap();
    shell
        .follow_all(quickstart.under("Start the demo"))
        .await
        .unwrap();
    until(&mut shell, "sluice demo env 2>/dev/null").await;
    shell.sh("eval \"$(sluice demo env)\"").await.unwrap();
    until_approval_is_asked_for(&mut shell).await;
    for name in ["troubleshooting", "promotions"] {
        let guide = Guide::read(&format!("docs/{name}.md")).unwrap();
        shell.follow_all(guide.blocks()).await.unwrap();
    }
    let runs = |revision: &str| {
        format!(
            "[ \"$(kubectl get pipeline podinfo -o jsonpath='{{.status.environments.prod.targets[0].revision}}')\" = {revision} ]"
        )
    };
    let approvals = Guide::read("docs/approvals.md").unwrap();
    for section in [
        "Gates",
        "Approvals by several people",
        "What a promotion changes",
    ] {
        shell.follow_all(approvals.under(section)).await.unwrap();
    }
    let mut by_hand = approvals.under("With kubectl");
    shell.follow(by_hand.next().unwrap()).await.unwrap();
    until(&mut shell, &runs("6.2.0")).await;
    shell.follow(by_hand.next().unwrap()).await.unwrap();
    let arrived = format!(
        "sluice approve podinfo prod >/dev/null 2>&1; sluice approve podinfo prod --as ann >/dev/null 2>&1; {}",
        runs("6.1.0")
    );
    until(&mut shell, &arrived).await;
    shell.follow_all(by_hand).await.unwrap();
    shell.follow_all(approvals.under("By REST")).await.unwrap();
    let approved = format!(
        "sluice approve podinfo prod >/dev/null 2>&1; {}",
        runs("6.2.0")
    );
    until(&mut shell, &approved).await;
    let freezes = Guide::read("docs/freezes.md").unwrap();
    shell.follow_all(freezes.blocks()).await.unwrap();
    let dashboard = Guide::read("docs/dashboard.md").unwrap();
    shell.follow_all(dashboard.blocks()).await.unwrap();
    shell.sh("sluice demo push 6.4.0").await.unwrap();
    let waits = "sluice explain podinfo prod | grep -q 'promotion of 6.4.0.*: AwaitingApproval'";
    until(&mut shell, waits).await;
    let decisions = approvals.under("Reject, cancel and retry");
    shell.follow_all(decisions).await.unwrap();
}

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn a_release_is_proposed_by_a_signed_call() {
    let mut shell = shell();
    let assets = Assets::from_env().unwrap();
    shell
        .program("kubectl", &assets.program("kubectl"))
        .unwrap();
    let [api, hooks, rest] = [(); 3].map(|()| free_port());
    let start = format!(
        "sluice standalone --data data --api-port {api} --hooks-port {hooks} --port {rest}"
    );
    shell.background(&start).unwrap();
    shell.set(
        "KUBECONFIG",
        shell.folder().join("data/kubeconfig").to_str().unwrap(),
    );
    shell.set("KEY", "not-a-secret");
    shell.replace(
        "https://hooks.example.com",
        format!("http://127.0.0.1:{hooks}"),
    );
    until(&mut shell, "kubectl get pipelines >/dev/null 2>&1").await;
    // The hooks are served after the embedded API.
    let served = format!("curl -s -o /dev/null http://127.0.0.1:{hooks}/");
    until(&mut shell, &served).await;
    let pipeline = r#"
kubectl create namespace team
kubectl --namespace team create secret generic key --from-literal "hmac-key=$KEY"
kubectl apply -f - <<END
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: shop, namespace: team}
spec:
  appRef: {apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, name: shop}
  source: {kind: Hook}
  promotion: {strategy: {notification: {}, secretRef: {name: key}}}
  environments: [{name: dev, targets: [{namespace: team}]}]
END"#;
    shell.sh(pipeline).await.unwrap();
    let guide = Guide::read("docs/hooks.md").unwrap();
    shell.follow_all(guide.blocks()).await.unwrap();
    let proposed = "kubectl --namespace team get pipeline shop -o jsonpath='{.status.proposal.revision}' | grep -q 1.4.0";
    until(&mut shell, proposed).await;
}

#[test]
fn every_hold_is_explained() {
    let text =
        std::fs::read_to_string(testbed::guide::repository().join("docs/troubleshooting.md"));
    let text = text.unwrap();
    let headings: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .collect();
    let reasons = HoldReason::ALL.iter().map(|reason| reason.word());
    assert_eq!(headings, reasons.collect());
}

#[test]
fn every_gate_has_a_row_with_its_reasons_in_the_order_of_asking() {
    let text =
        std::fs::read_to_string(testbed::guide::repository().join("docs/troubleshooting.md"));
    let text = text.unwrap();
    let section = text.split("## Gates").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let rows: Vec<Vec<&str>> = rows
        .map(|row| row.split('`').skip(1).step_by(2).collect())
        .collect();
    let gates: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(gates, planner::gate_names().collect::<Vec<_>>());
    for reason in HoldReason::ALL {
        let row = rows.iter().find(|row| row[0] == reason.gate()).unwrap();
        assert!(row.contains(&reason.word()), "{row:?} lacks {reason:?}");
    }
}
