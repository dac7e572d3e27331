//! The guides about clusters that ask what to run, and about signatures.

use testbed::{
    guide::{Guide, Shell},
    ports::free_port,
    real::Assets,
};

use crate::demo::{shell, until, until_approval_is_asked_for};

fn with_kubectl(shell: &mut Shell) {
    let assets = Assets::from_env().unwrap();
    let kubectl = assets.program("kubectl");
    shell.program("kubectl", &kubectl).unwrap();
}

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn clusters_ask_what_to_run() {
    let mut shell = shell();
    with_kubectl(&mut shell);
    let [api, hooks, rest] = [(); 3].map(|()| free_port());
    let start = format!(
        "sluice standalone --data data --api-port {api} --hooks-port {hooks} --port {rest}"
    );
    shell.background(&start).unwrap();
    let kubeconfig = shell.folder().join("data/kubeconfig");
    shell.set("KUBECONFIG", kubeconfig.to_str().unwrap());
    let address = format!("http://127.0.0.1:{hooks}");
    until(&mut shell, "kubectl get pipelines >/dev/null 2>&1").await;
    // The hooks are served after the embedded API.
    until(&mut shell, &format!("curl -s -o /dev/null {address}/")).await;
    shell.replace("https://hooks.example.com", address);
    let guide = Guide::read("docs/resourcesets.md").unwrap();
    for heading in ["On the hub", "On the clusters"] {
        shell.follow_all(guide.under(heading)).await.unwrap();
    }
    let mut first = guide.under("The first revision");
    for _ in 0..2 {
        shell.follow(first.next().unwrap()).await.unwrap();
    }
    let published = "kubectl --namespace shop get pipeline shop \
         -o jsonpath='{.status.environments.prod.desired.version}' | grep -q 1.4.0";
    until(&mut shell, published).await;
    shell.follow_all(first).await.unwrap();
    let others = guide.under("Follow the ResourceSet itself");
    shell.follow_all(others).await.unwrap();
}

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn signatures_are_demanded() {
    let mut shell = shell();
    with_kubectl(&mut shell);
    let start = format!("sluice demo --gitless --port {}", free_port());
    shell.background(&start).unwrap();
    until(&mut shell, "sluice demo env 2>/dev/null").await;
    shell.sh("eval \"$(sluice demo env)\"").await.unwrap();
    until_approval_is_asked_for(&mut shell).await;
    let guide = Guide::read("docs/signatures.md").unwrap();
    for heading in ["Sign", "Verify"] {
        shell.follow_all(guide.under(heading)).await.unwrap();
    }
    let mut demand = guide.under("Demand it");
    shell.follow(demand.next().unwrap()).await.unwrap();
    let is_held = "sluice explain podinfo prod | grep -q 'has not verified a signature'";
    until(&mut shell, is_held).await;
    shell.follow_all(demand).await.unwrap();
}
