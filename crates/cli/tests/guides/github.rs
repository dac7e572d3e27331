//! docs/github.md, with a local repository in place of GitHub. The pull request itself is tested with the
//! double of GitHub's API.

use testbed::{flux, guide::Guide, objects::apply};

use crate::cluster::Cluster;

/// Applies what was pushed, as Flux would.
const FLUX: &str = r#"[ "$*" = 'reconcile kustomization flux-system --with-source' ] || exit 1
git clone --quiet origin.git applied
kubectl apply --server-side -f applied/clusters/my-cluster/"#;

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn the_first_pipeline_on_github() {
    let guide = Guide::read("docs/github.md").unwrap();
    let mut cluster = Cluster::start().await;
    apply(&cluster.client, flux::definitions()).await;
    let shell = &mut cluster.shell;
    shell.stand_in("flux", FLUX).unwrap();
    shell.set("GITHUB_TOKEN", "not-a-token");
    shell.replace(
        "git clone https://github.com/YOU/fleet",
        "git clone origin.git fleet",
    );
    let prepare = "git config --global user.name you && git config --global user.email you@example.com \
                   && git config --global init.defaultBranch main && git init --quiet --bare origin.git";
    shell.sh(prepare).await.unwrap();
    shell.follow_all(guide.blocks()).await.unwrap();
    let pushed = "git -C origin.git show main:clusters/my-cluster/podinfo-dev.yaml";
    assert!(shell.sh(pushed).await.unwrap().contains("version: 6.7.1"));
    let said = shell
        .sh("kubectl get pipeline podinfo --namespace podinfo -o name")
        .await
        .unwrap();
    assert!(
        said.contains("pipeline.pipelines.weave.works/podinfo"),
        "{said}"
    );
}
