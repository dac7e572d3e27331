//! docs/install.md, and that the installed controller works with the permissions of its ServiceAccount.

use std::{collections::BTreeSet, fs};

use serde_json::{Value, json};
use testbed::{
    flux,
    guide::{Guide, repository},
    objects::apply,
    ports::free_port,
    shop::ShopPipeline,
};

use crate::{cluster::Cluster, demo::until, kubelet};

const NAMESPACE: &str = "pipeline-system";
const NAME: &str = "pipeline-controller";

/// Builds nothing; knows what it is asked for.
const DOCKER: &str = r#"[ "$1" != buildx ] || shift
if [ "$1 $2" = 'imagetools inspect' ]; then echo sha256:0; exit; fi
[ "$1 $2" = 'build --file' ] && [ -f "$3" ] || exit 1
case "$*" in *RUST_DIGEST=sha256:*DEBIAN_DIGEST=sha256:*) ;; *) exit 1 ;; esac"#;

/// From an empty cluster: the commands of one chapter, then a release goes from dev to prod.
async fn installed_by(chapter: &str) {
    let guide = Guide::read("docs/install.md").unwrap();
    let mut cluster = Cluster::start().await;
    cluster.shell.stand_in("docker", DOCKER).unwrap();
    let chapters = ["The image", chapter, "Roles"];
    for chapter in chapters {
        let blocks = guide.under(chapter);
        cluster.shell.follow_all(blocks).await.unwrap();
    }
    let shop = ShopPipeline::create(cluster.client.clone(), ["1.1.0", "1.0.0"], json!({})).await;
    let _running = kubelet::run(&cluster, &shop, NAMESPACE, NAME).await;
    promotes(&shop).await;
}

/// A release goes from dev to prod, and nothing is forbidden on the way.
async fn promotes(shop: &ShopPipeline) {
    shop.merge_next().await;
    shop.wait_for_promotion("prod", "1.1.0").await;
    let log = shop.log();
    assert!(!log.to_lowercase().contains("forbidden"), "{log}");
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn with_helm() {
    installed_by("With Helm").await;
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn with_plain_manifests() {
    installed_by("Plain manifests").await;
}

/// Published by an Ingress, and deleted again.
#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn ingress_and_uninstall() {
    let guide = Guide::read("docs/install.md").unwrap();
    let mut cluster = Cluster::start().await;
    let shell = &mut cluster.shell;
    for chapter in ["With Helm", "Ingress"] {
        shell.follow_all(guide.under(chapter)).await.unwrap();
    }
    let ingresses = "kubectl get ingress --namespace pipeline-system -o name";
    let said = shell.sh(ingresses).await.unwrap();
    assert_eq!(
        said.matches("ingress.networking.k8s.io/").count(),
        2,
        "{said}"
    );
    shell.sh("! sluice uninstall --yes").await.unwrap();
    shell.follow_all(guide.under("Uninstall")).await.unwrap();
    let said = shell.sh("kubectl get crd -o name").await.unwrap();
    assert!(!said.contains("pipelines.weave.works"), "{said}");
}

/// Deletes all that the plain manifests created, also kinds that only a real server has.
#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn uninstalled_without_helm() {
    let guide = Guide::read("docs/install.md").unwrap();
    let mut cluster = Cluster::start().await;
    let shell = &mut cluster.shell;
    shell
        .follow_all(guide.under("Plain manifests"))
        .await
        .unwrap();
    let said = shell.sh("sluice uninstall --yes").await.unwrap();
    assert!(
        said.contains("deleted validatingadmissionpolicy "),
        "{said}"
    );
    let left = "kubectl get deployment,service,serviceaccount,clusterrole,clusterrolebinding,\
                validatingadmissionpolicy,validatingadmissionpolicybinding -A -o name";
    let said = shell.sh(left).await.unwrap();
    assert!(!said.contains("pipeline-controller"), "{said}");
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn with_kustomize() {
    installed_by("Kustomize").await;
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn as_the_readme_says() {
    let readme = Guide::read("README.md").unwrap();
    let mut cluster = Cluster::start().await;
    let shell = &mut cluster.shell;
    shell.stand_in("docker", DOCKER).unwrap();
    shell.sh("kubectl create namespace shop").await.unwrap();
    let blocks: Vec<_> = readme.under("On a cluster").collect();
    assert_eq!(blocks.len(), 3);
    shell.follow_all(blocks).await.unwrap();
}

/// The cluster that is added is the real one. It is connected to once a pipeline names it.
#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn without_a_cluster() {
    let guide = Guide::read("docs/install.md").unwrap();
    let mut cluster = Cluster::start().await;
    let kubeconfig = cluster.kubeconfig().to_owned();
    let shell = &mut cluster.shell;
    fs::write(shell.folder().join("prod.kubeconfig"), kubeconfig).unwrap();
    for port in ["SLUICE_API_PORT", "SLUICE_HOOKS_PORT", "SLUICE_PORT"] {
        shell.set(port, free_port().to_string());
    }
    let mut blocks = guide.under("Without a cluster");
    shell.follow(blocks.next().unwrap()).await.unwrap();
    let started =
        "KUBECONFIG=$PWD/sluice-data/kubeconfig kubectl get gitopsclusters >/dev/null 2>&1";
    until(shell, started).await;
    shell.follow_all(blocks).await.unwrap();
    until(shell, "sluice get clusters | grep -q prod").await;
}

/// The names, the rights and the admission policy follow the release.
#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn under_another_name() {
    let mut cluster = Cluster::start().await;
    let install = "helm install chart deploy/chart -n flux-system --create-namespace";
    cluster.shell.sh(install).await.unwrap();
    let shop = ShopPipeline::create(cluster.client.clone(), ["1.1.0", "1.0.0"], json!({})).await;
    let name = "chart-pipeline-controller";
    let _running = kubelet::run(&cluster, &shop, "flux-system", name).await;
    promotes(&shop).await;
}

/// What helm-controller would do is helm's; here the objects are accepted.
#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn with_flux() {
    let guide = Guide::read("docs/install.md").unwrap();
    let mut cluster = Cluster::start().await;
    apply(&cluster.client, flux::definitions()).await;
    let shell = &mut cluster.shell;
    shell
        .sh("kubectl create namespace flux-system")
        .await
        .unwrap();
    shell.follow_all(guide.under("With Flux")).await.unwrap();
}

/// The paths of all values: of objects their members, of `{}`, lists and the rest themselves.
fn paths(value: &Value, prefix: &str, paths: &mut BTreeSet<String>) {
    match value.as_object().filter(|object| !object.is_empty()) {
        Some(object) => object.iter().for_each(|(key, value)| {
            self::paths(value, &format!("{prefix}.{key}"), paths);
        }),
        None => drop(paths.insert(prefix.trim_start_matches('.').to_owned())),
    }
}

/// What the table names, `.second` completed by what `first` begins with.
fn documented() -> BTreeSet<String> {
    let text = fs::read_to_string(repository().join("docs/install.md")).unwrap();
    let (_, table) = text.split_once("\n## Values\n").unwrap();
    let cells = table.lines().filter_map(|line| line.split('|').nth(1));
    let mut names = BTreeSet::new();
    for cell in cells {
        let mut before = String::new();
        for name in cell.split('`').skip(1).step_by(2) {
            let whole = match name.strip_prefix('.') {
                Some(last) => format!("{before}.{last}"),
                None => name.to_owned(),
            };
            before = whole
                .rsplit_once('.')
                .map_or("", |(first, _)| first)
                .to_owned();
            names.insert(whole);
        }
    }
    names
}

#[test]
fn every_value_is_documented() {
    let text = fs::read_to_string(repository().join("deploy/chart/values.yaml")).unwrap();
    let mut there = BTreeSet::new();
    paths(&serde_saphyr::from_str(&text).unwrap(), "", &mut there);
    let documented = documented();
    let covers = |name: &String, path: &String| {
        path == name
            || path
                .strip_prefix(name.as_str())
                .is_some_and(|rest| rest.starts_with('.'))
    };
    for path in &there {
        assert!(documented.iter().any(|name| covers(name, path)), "{path}");
    }
    for name in documented.iter().filter(|name| *name != "promotion.retry") {
        assert!(there.iter().any(|path| covers(name, path)), "{name}");
    }
}
