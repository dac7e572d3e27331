//! What is looked for, and where.

use api::{Pipeline, Promotion};
use git::manifest::OtherDeployment;
use serde_json::{Value, json};

use super::*;
use crate::strategy::PromotionTask;

mod drawn;
mod generated;

const REPOSITORY: &str = "https://git.example/team/fleet.git";

/// A target that runs an app Flux applied from a folder of a repository.
fn target(cluster: &str, images: Value, origin: Option<(&str, &str)>) -> Value {
    let origin = origin.map(|(url, path)| json!({"url": url, "path": path}));
    json!({
        "clusterAppRef": {"clusterRef": {"kind": "GitopsCluster", "name": cluster}},
        "namespace": "shop", "ready": true, "revision": "1.0.0",
        "apps": [{"name": "app", "images": images, "origin": origin}],
    })
}

/// `version directories !others` of what is wanted for prod, or for one cluster of it.
fn check(app: Value, paths: Value, environments: Value, cluster: Option<&str>, expected: &[&str]) {
    let commit = json!({"url": REPOSITORY, "baseBranch": "main", "paths": paths});
    let mut spec = json!({
        "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app"},
        "promotion": {"strategy": {"commit": commit}},
        "environments": [
            {"name": "dev", "targets": [{"namespace": "shop"}]},
            {"name": "prod", "targets": [{"namespace": "shop"}]},
        ],
    });
    json_merge(&mut spec, &app);
    let status = environments.as_object().expect("environments").iter();
    let status = status.map(|(name, targets)| (name.clone(), json!({"targets": targets})));
    let pipeline: Pipeline = serde_json::from_value(json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
        "metadata": {"name": "app", "namespace": "team"}, "spec": spec,
        "status": {"environments": serde_json::Map::from_iter(status)},
    }))
    .expect("a pipeline");
    let target = cluster.map(|cluster| json!({"cluster": cluster, "namespace": "shop"}));
    let promotion: Promotion = serde_json::from_value(json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Promotion",
        "metadata": {"name": "x"}, "spec": {
            "pipeline": "app", "environment": "prod", "revision": "1.1.0", "version": "1.1.0",
            "target": target, "strategy": spec["promotion"]["strategy"],
        },
    }))
    .expect("a promotion");
    let description = PromotionDescription::of(PromotionTask::new(&pipeline, &promotion));
    let strategy = &promotion.spec.strategy;
    let change = RepositoryStrategy::of(strategy).expect("a change");
    let alteration = alteration(&description, &change).expect("something to look for");
    let drawn = match alteration {
        RequestedEdit::MarkedOrFoundFields { wanted, .. } => wanted.iter().map(draw).collect(),
        _ => vec!["marked".to_owned()],
    };
    assert_eq!(drawn, expected);
}

fn json_merge(into: &mut Value, from: &Value) {
    for (key, value) in from.as_object().expect("fields") {
        into[key] = value.clone();
    }
}

fn draw(wanted: &WantedField) -> String {
    let pin = &wanted.pin;
    let digest = pin.digest.as_ref().map(|digest| format!("@{digest}"));
    let field = match &wanted.field {
        VersionField::Chart => "chart".to_owned(),
        VersionField::Source => "source".to_owned(),
        VersionField::Image { name } => format!("image {name}"),
        VersionField::OneOf { images } => format!("one of {}", images.join(",")),
    };
    let version = format!("{}{}", pin.version, digest.unwrap_or_default());
    let own = wanted.directories.join(",");
    let other = |other: &OtherDeployment| match &other.directories {
        Some(directories) => directories.join(","),
        None => "?".to_owned(),
    };
    let others = wanted
        .others
        .iter()
        .map(other)
        .collect::<Vec<_>>()
        .join(",");
    format!("{field} {version} in {own} not {others}")
}

/// The URL of the source is written in many ways.
const FLEET: &str = "ssh://git.example/team/fleet";

#[test]
fn the_leaf_says_where_and_where_not() {
    let here = |cluster: &str, path: &str| target(cluster, json!([]), Some((FLEET, path)));
    check(
        json!({}),
        json!([]),
        json!({"dev": [here("d", "./clusters/dev")], "prod": [here("p", "./clusters/prod")]}),
        None,
        &["chart 1.1.0 in ./clusters/prod not ./clusters/dev"],
    );
    let prod = json!([here("eu", "./eu"), here("us", "./us"), here("us2", "./us")]);
    let both = json!({"dev": [here("d", "./dev")], "prod": prod});
    // Two clusters that are built of one folder are one.
    let expected = [
        "chart 1.1.0 in ./eu not ./dev",
        "chart 1.1.0 in ./us not ./dev",
    ];
    check(json!({}), json!([]), both.clone(), None, &expected);
    let expected = ["chart 1.1.0 in ./eu not ./dev,./us"];
    check(json!({}), json!([]), both, Some("eu"), &expected);
}

#[test]
fn paths_say_where_if_the_leaf_does_not() {
    let unknown = |cluster: &str| target(cluster, json!([]), None);
    let elsewhere = target(
        "p",
        json!([]),
        Some(("https://git.example/team/other", "./x")),
    );
    let paths = json!([
        "apps/${environment}/*/release.yaml",
        "clusters/${cluster}/app.yaml"
    ]);
    check(
        json!({}),
        paths,
        json!({"dev": [unknown("d")], "prod": [elsewhere.clone()]}),
        None,
        &["chart 1.1.0 in apps/prod,clusters/p not apps/dev,clusters/d"],
    );
    let environments = json!({"dev": [unknown("d")], "prod": [elsewhere]});
    check(
        json!({}),
        json!([]),
        environments.clone(),
        None,
        &["marked"],
    );
    // A path that all environments share keeps none of them apart, unless it names files.
    let expected = ["chart 1.1.0 in apps not apps"];
    check(
        json!({}),
        json!(["apps/**"]),
        environments.clone(),
        None,
        &expected,
    );
    let expected = ["chart 1.1.0 in apps not apps/*/dev.yaml"];
    check(
        json!({}),
        json!(["apps/*/${environment}.yaml"]),
        environments,
        None,
        &expected,
    );
}

#[test]
fn not_known_is_not_elsewhere() {
    let prod = json!([target("p", json!([]), Some((FLEET, "./prod")))]);
    let dev = |origin| json!({"dev": [target("d", json!([]), origin)], "prod": prod});
    let other = Some(("https://git.example/team/other", "./x"));
    let alias = Some(("http://gitea.gitea.svc:3000/team/fleet", "./dev"));
    for (environments, paths, expected) in [
        (dev(None), json!([]), "chart 1.1.0 in ./prod not ?"),
        (dev(other), json!([]), "chart 1.1.0 in ./prod not "),
        (dev(alias), json!([]), "chart 1.1.0 in ./prod not ./dev"),
        (
            json!({"prod": prod}),
            json!([]),
            "chart 1.1.0 in ./prod not ?",
        ),
        // So wide a path does not say where it is, and takes nothing from who is known.
        (dev(None), json!(["**"]), "chart 1.1.0 in ./prod not ?"),
        (
            dev(None),
            json!(["apps/**"]),
            "chart 1.1.0 in ./prod not apps",
        ),
    ] {
        check(json!({}), paths, environments, None, &[expected]);
    }
}

#[test]
fn another_branch_is_elsewhere() {
    let on = |cluster: &str, branch: &str| {
        let mut target = target(cluster, json!([]), Some((FLEET, "./apps")));
        target["apps"][0]["origin"]["branch"] = json!(branch);
        target
    };
    for (dev, prod, expected) in [
        ("dev", "main", "chart 1.1.0 in ./apps not "),
        ("main", "main", "chart 1.1.0 in ./apps not ./apps"),
        // What is promoted to a branch that nobody follows goes on to the one that is followed.
        ("live", "live", "chart 1.1.0 in ./apps not ./apps"),
    ] {
        let environments = json!({"dev": [on("d", dev)], "prod": [on("p", prod)]});
        check(json!({}), json!([]), environments, None, &[expected]);
    }
}

#[test]
fn images_carry_the_digest_they_run_with() {
    let here = |images: Value, path: &str| target(path, images, Some((FLEET, path)));
    let dev = json!([
        "registry.example/app:1.1.0@sha256:ab",
        "registry.example/sidecar:2"
    ]);
    let prod = json!(["registry.example/app:1.0.0", "registry.example/sidecar:2"]);
    let environments = json!({"dev": [here(dev, "d")], "prod": [here(prod, "p")]});
    let track = json!({"track": {"image": "registry.example/app"}});
    let expected = ["image registry.example/app 1.1.0@sha256:ab in p not d"];
    check(track, json!([]), environments.clone(), None, &expected);
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "app"});
    let app = json!({"appRef": deployment});
    check(app, json!([]), environments, None, &expected);
    let kustomization = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "name": "app",
    });
    let environments = json!({"dev": [here(json!([]), "d")], "prod": [here(json!([]), "p")]});
    let expected = ["source 1.1.0 in p not d"];
    let app = json!({"appRef": kustomization});
    check(app, json!([]), environments.clone(), None, &expected);
    let unknown = json!({"apiVersion": "example.com/v1", "kind": "Thing", "name": "app"});
    check(
        json!({"appRef": unknown}),
        json!([]),
        environments,
        None,
        &["marked"],
    );
}

#[test]
fn two_images_of_one_version_are_named() {
    let images = json!(["registry.example/app:1.0.0", "registry.example/side:1.0.0"]);
    let prod = target("p", images, Some((FLEET, "p")));
    let environments = json!({"dev": [target("d", json!([]), Some((FLEET, "d")))], "prod": [prod]});
    let app = json!({"appRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "app"}});
    let expected = ["one of registry.example/app,registry.example/side 1.1.0 in p not d"];
    check(app, json!([]), environments, None, &expected);
}

#[test]
fn images_are_observed_and_edited_by_the_same_names() {
    let names = [
        "nginx",
        "docker.io/library/nginx",
        "library/nginx",
        "acme/app",
        "ghcr.io/acme/app",
        "app",
        "docker.io/acme/app",
        "host:5000/acme/app",
        "localhost/app",
        "acme/myapp",
        "quay.io/acme/app",
    ];
    for image in names {
        for name in names {
            let observed = Image::parse(image).expect("an image").is(name);
            assert_eq!(
                git::manifest::is_image(image, name),
                observed,
                "{image} as {name}"
            );
        }
    }
}
