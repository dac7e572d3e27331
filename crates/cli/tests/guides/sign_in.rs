//! docs/sign-in.md: the setup on a real cluster, and the values for each provider.

use testbed::guide::Guide;

use crate::cluster::Cluster;

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn the_setup_works_and_the_chart_takes_the_values_of_each_provider() {
    let guide = Guide::read("docs/sign-in.md").unwrap();
    let mut cluster = Cluster::start().await;
    let shell = &mut cluster.shell;
    for chapter in [
        "Set up",
        "User names",
        "Dex",
        "Keycloak",
        "Microsoft Entra ID",
        "GitLab",
        "Gitea",
    ] {
        shell.follow_all(guide.under(chapter)).await.unwrap();
    }
    let deployment = "kubectl --namespace pipeline-system get deployment pipeline-controller";
    let said = shell.sh(&format!("{deployment} -o yaml")).await.unwrap();
    for flag in [
        "--oidc-issuer-url=https://dex.example.com",
        "--oidc-groups-claim=groups",
    ] {
        assert!(said.contains(flag), "{flag}: {said}");
    }
    let said = shell.sh("sluice check || true").await.unwrap();
    assert!(
        said.contains("sign-in with https://dex.example.com"),
        "{said}"
    );
    for values in ["dex", "keycloak", "entra", "gitlab", "gitea"] {
        let command = format!("helm template it deploy/chart --values {values}.yaml");
        let said = shell.sh(&command).await.unwrap();
        assert!(said.contains("--oidc-groups-claim="), "{values}: {said}");
    }
}
