//! Whole repositories through the preview: what a promotion into prod would change, or why not.

use std::collections::BTreeMap;

use api::{Pipeline, names::PromotionSite};
use serde_json::{Value, json};

use crate::strategy::preview::preview_proposal;

pub(super) const URL: &str = "https://git.example/team/fleet.git";

pub(super) type DrawnRepository = BTreeMap<String, String>;

/// Files as one text, `== path` before each.
pub(super) fn repository(text: &str) -> DrawnRepository {
    let parts = text.split("== ").filter(|part| !part.trim().is_empty());
    let file = |part: &str| {
        let (path, content) = part.split_once('\n').expect("a path");
        (path.trim().to_owned(), content.to_owned())
    };
    parts.map(file).collect()
}

/// A pipeline from dev to prod, a cluster each.
pub(super) fn pipeline(app: Value, paths: &[&str], origins: Value) -> Value {
    let commit = json!({"url": URL, "baseBranch": "main", "paths": paths});
    let environment = |name: &str| {
        let cluster = json!({"kind": "GitopsCluster", "name": name});
        json!({"name": name, "targets": [{"namespace": "shop", "clusterRef": cluster}]})
    };
    let mut status = json!({});
    for (name, path) in origins.as_object().expect("origins") {
        let cluster = json!({"clusterRef": {"kind": "GitopsCluster", "name": name}});
        let origin = (!path.is_null()).then(|| json!({"url": URL, "path": path}));
        let app = json!({"name": "app", "origin": origin});
        let target = json!({"clusterAppRef": cluster, "namespace": "shop", "apps": [app]});
        status[name] = json!({"targets": [target]});
    }
    json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
        "metadata": {"name": "app", "namespace": "team"},
        "spec": {
            "appRef": app, "promotion": {"strategy": {"commit": commit}},
            "environments": [environment("dev"), environment("prod")],
        },
        "status": {"environments": status},
    })
}

/// The repository after a promotion, or the word for why there is none.
pub(super) fn promote(
    pipeline: Value,
    environment: &str,
    revision: &str,
    before: &DrawnRepository,
) -> Result<DrawnRepository, String> {
    let pipeline: Pipeline = serde_json::from_value(pipeline).expect("a pipeline");
    let place = PromotionSite {
        environment: environment.to_owned(),
        target: None,
    };
    let version = planner::version_for(&pipeline, &[], revision);
    let proposal = preview_proposal(&pipeline, &place, (revision, &version)).expect("a change");
    let (url, proposal) = proposal.map_err(|failure| failure.reason)?;
    let files = before.iter();
    let files = files.map(|(path, text)| (path.clone(), text.clone().into_bytes()));
    let edited = git::propose::preview(&files.collect(), &url, &proposal);
    let edited = edited.map_err(|error| error.reason().to_owned())?;
    let mut after = before.clone();
    for (path, edited) in edited {
        after.insert(path, String::from_utf8(edited.content).expect("text"));
    }
    Ok(after)
}

const RELEASE: &str = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata:\n  \
                       name: app\n  namespace: shop\nspec:\n  chart:\n    spec:\n      version: ";

fn release() -> Value {
    json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app"})
}

fn applied() -> Value {
    json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "name": "app"})
}

/// `<…>` is what must become the new value; without it the word for the refusal is expected.
fn check(pipeline: Value, revision: &str, text: &str, expected: &str) {
    let before = repository(&text.replace(['<', '>'], ""));
    let after = promote(pipeline, "prod", revision, &before);
    let expected = match text.split_once('<') {
        Some((start, rest)) => {
            let (_, end) = rest.split_once('>').expect("it ends");
            Ok(repository(&format!("{start}{expected}{end}")))
        }
        None => Err(expected.to_owned()),
    };
    assert_eq!(after, expected, "{text}");
}

#[test]
fn nothing_of_another_environment_is_changed() {
    let none = || json!({});
    let base = format!(
        "== apps/base/kustomization.yaml\nresources: [r.yaml]\n== apps/base/r.yaml\n{RELEASE}1.0.0\n\
         == apps/dev/kustomization.yaml\nresources: [../base]\n\
         == apps/prod/kustomization.yaml\nresources: [../base]\n"
    );
    let in_dev = format!("== apps/dev/r.yaml\n{RELEASE}1.0.0\n== apps/prod/other.yaml\na: b\n");
    let patched = format!(
        "{}== apps/dev/p.yaml\n{RELEASE}1.0.0\n",
        base.replace("version: 1.0.0", "chart: app").replace(
            "[../base]\n== apps/prod",
            "[../base]\npatches: [{path: p.yaml}]\n== apps/prod"
        )
    );
    let wide: &[&str] = &["apps/**"];
    for text in [&base, &in_dev, &patched] {
        check(
            pipeline(release(), wide, none()),
            "1.1.0",
            text,
            "SharedManifest",
        );
    }
    let one = format!("== apps/r.yaml\n{RELEASE}1.0.0\n");
    let same = json!({"dev": "./apps", "prod": "./apps"});
    check(
        pipeline(release(), &[], same),
        "1.1.0",
        &one,
        "SharedManifest",
    );
    let both = json!({"dev": "./apps/dev", "prod": "./apps/prod"});
    check(
        pipeline(release(), &[], both),
        "1.1.0",
        &base,
        "SharedManifest",
    );
    let unknown = json!({"dev": null, "prod": "./apps/prod"});
    check(
        pipeline(release(), &[], unknown.clone()),
        "1.1.0",
        &base,
        "NotObserved",
    );
    let own = format!("== apps/prod/r.yaml\n{RELEASE}<1.0.0>\n");
    check(pipeline(release(), &[], unknown), "1.1.0", &own, "1.1.0");
}

#[test]
fn files_beside_each_other_are_told_apart_by_paths() {
    let text = format!("== apps/app-dev.yaml\n{RELEASE}1\n== apps/app-prod.yaml\n{RELEASE}<1>\n");
    for pattern in ["apps/app-${environment}.yaml", "apps/*-${environment}.yaml"] {
        check(
            pipeline(release(), &[pattern], json!({})),
            "1.1.0",
            &text,
            "1.1.0",
        );
    }
}

#[test]
fn sources_are_pinned_to_what_their_revision_says() {
    let source = |kind: &str, pin: &str| {
        format!(
            "== apps/prod/a.yaml\napiVersion: source.toolkit.fluxcd.io/v1\nkind: {kind}\n\
             metadata: {{name: app, namespace: shop}}\nspec:\n  ref:\n    {pin}\n---\n\
             apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n\
             metadata: {{name: app, namespace: shop}}\nspec:\n  sourceRef: {{kind: {kind}, name: app}}\n"
        )
    };
    let (old, digest) = ("0".repeat(64), format!("sha256:{}", "b".repeat(64)));
    let commit = "c".repeat(40);
    let tagged = format!("v1.1.0@{digest}");
    let committed = format!("v1.1.0@sha1:{commit}");
    for (kind, pin, revision, expected) in [
        (
            "OCIRepository",
            "tag: <v1.0.0>".to_owned(),
            &tagged,
            "v1.1.0",
        ),
        (
            "OCIRepository",
            format!("digest: <sha256:{old}>"),
            &tagged,
            &digest,
        ),
        (
            "OCIRepository",
            format!("digest: <sha256:{old}>"),
            &digest,
            &digest,
        ),
        (
            "OCIRepository",
            format!("tag: v1.1.0\n    digest: <sha256:{old}>"),
            &tagged,
            &digest,
        ),
        (
            "OCIRepository",
            "tag: v1.0.0".to_owned(),
            &digest,
            "UneditableFile",
        ),
        (
            "GitRepository",
            "tag: <v1.0.0>".to_owned(),
            &committed,
            "v1.1.0",
        ),
        (
            "GitRepository",
            format!("commit: <{}>", "a".repeat(40)),
            &committed,
            &commit,
        ),
    ] {
        let pipeline = pipeline(applied(), &["apps/${environment}/**"], json!({}));
        check(pipeline, revision, &source(kind, &pin), expected);
    }
}

#[test]
fn another_repository_is_another() {
    let text = format!("== apps/r.yaml\n{RELEASE}1.0.0\n");
    let mut pipeline = pipeline(release(), &[], json!({"prod": "./apps"}));
    let origin = "/status/environments/prod/targets/0/apps/0/origin/url";
    let origin = pipeline.pointer_mut(origin).expect("an origin");
    *origin = json!("https://git.example/other/team/fleet");
    check(pipeline, "1.1.0", &text, "NoMarker");
}

#[test]
fn the_layout_of_fluxs_own_example_is_set() {
    let text = format!(
        "== apps/base/podinfo/kustomization.yaml\nnamespace: shop\nresources: [r.yaml]\n\
         == apps/base/podinfo/r.yaml\n{RELEASE}'>=1.0.0'\n\
         == apps/dev/kustomization.yaml\nresources: [../base/podinfo]\npatches:\n- path: v.yaml\n  \
         target: {{kind: HelmRelease}}\n== apps/dev/v.yaml\n{RELEASE}1.1.0\n\
         == apps/prod/kustomization.yaml\nresources: [../base/podinfo]\npatches:\n- path: v.yaml\n  \
         target: {{kind: HelmRelease}}\n== apps/prod/v.yaml\n{RELEASE}\"<1.0.0>\"\n"
    );
    let text = text.replace("'>=1.0.0'", "1.x");
    let pipeline = pipeline(release(), &["apps/${environment}/**"], json!({}));
    check(pipeline, "1.1.0", &text, "1.1.0");
}

#[test]
fn namespaces_of_one_cluster_are_told_apart() {
    let applier = |environment: &str| {
        format!(
            "== clusters/main/{environment}.yaml\napiVersion: kustomize.toolkit.fluxcd.io/v1\n\
             kind: Kustomization\nmetadata: {{name: app, namespace: shop-{environment}}}\n\
             spec: {{path: apps/{environment}}}\n== apps/{environment}/kustomization.yaml\n\
             resources: [../base]\n"
        )
    };
    let base = "== apps/base/d.yaml\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  \
                template: {spec: {containers: [{name: web, image: 'acme/web:1.0.0'}]}}\n";
    let images = "images: [{name: acme/web, newTag: <1.0.0>}]\n";
    let origins = json!({"dev": "./clusters/main", "prod": "./clusters/main"});
    let mut pipeline = pipeline(applied(), &[], origins);
    pipeline["spec"]["track"] = json!({"image": "acme/web"});
    for environment in ["dev", "prod"] {
        let target = format!("/status/environments/{environment}/targets/0");
        let target = pipeline.pointer_mut(&target).expect("a target");
        target["namespace"] = json!(format!("shop-{environment}"));
    }
    let (dev, prod) = (applier("dev"), applier("prod"));
    let own = format!("{base}{dev}{prod}{images}");
    check(pipeline.clone(), "1.1.0", &own, "1.1.0");
    let both = format!(
        "{base}{dev}{}{prod}{images}",
        images.replace(['<', '>'], "")
    );
    check(pipeline.clone(), "1.1.0", &both, "1.1.0");
    check(
        pipeline,
        "1.1.0",
        &format!("{base}{dev}{prod}"),
        "SharedManifest",
    );
}
