//! The manifests and commands of guides about pipelines, clusters and permissions, on a real cluster.

use testbed::guide::Guide;

use crate::cluster::Cluster;

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn what_guides_apply_is_accepted() {
    let mut cluster = Cluster::start().await;
    let shell = &mut cluster.shell;
    let define = "sluice crds | kubectl apply --server-side -f -";
    shell.sh(define).await.unwrap();
    shell
        .sh("kubectl wait --for condition=established crd --all")
        .await
        .unwrap();
    for name in ["clusters", "concepts", "security"] {
        let guide = Guide::read(&format!("docs/{name}.md")).unwrap();
        shell.follow_all(guide.blocks()).await.unwrap();
    }
}
