//! Pipelines in the API group of the first proposal: applied as they are, worked on under the same
//! name in ours, and told about where they were written.

use api::{WegoPipeline, pipeline::PipelineStatus};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{is_true, kubectl_apply, listing};
use crate::world::{World, apply, wait_for};

const PIPELINES: &str = include_str!("pipelines.yaml");

/// With clusters that run labelled apps at these versions.
async fn world(clusters: &[(&str, &str)]) -> World {
    let mut world = World::on_any_hub(&[("a.yaml", "a: 1\n")]).await;
    world.adopt();
    for (cluster, version) in clusters {
        world.leaf(cluster, "web", version).await;
        world.label_app(cluster, "web", "storefront").await;
    }
    world
}

fn originals(world: &World) -> Api<WegoPipeline> {
    Api::namespaced(world.hub.clone(), "default")
}

/// Waits until an original is so.
async fn until(world: &World, name: &str, mut is_so: impl FnMut(&WegoPipeline) -> bool) {
    let originals = originals(world);
    let mut last = None;
    let wait = async || {
        let original = originals.get(name).await.unwrap();
        let is_so = is_so(&original);
        last = Some(original);
        is_so
    };
    assert!(wait_for(wait).await, "{last:#?}");
}

/// The apps of each target with their versions, as the status lists them.
fn shown(status: &PipelineStatus) -> String {
    let environments = status.environments.iter();
    let targets = environments.flat_map(|(name, it)| it.targets.iter().map(move |it| (name, it)));
    let shown = targets.map(|(environment, target)| {
        let apps = target.apps.iter();
        let apps =
            apps.map(|app| format!("{} {}", app.name, app.revision.as_deref().unwrap_or("-")));
        format!("{environment}: {}", apps.collect::<Vec<_>>().join(", "))
    });
    shown.collect::<Vec<_>>().join("; ")
}

#[tokio::test]
async fn its_status_says_what_runs_where() {
    let world = world(&[("early", "6.1.6"), ("live", "6.1.5")]).await;
    kubectl_apply(&world, &listing(PIPELINES, "storefront", "", "")).await;
    until(&world, "storefront", |it| {
        let status = it.status.clone().unwrap_or_default();
        let is_observed = status.observed_generation == it.metadata.generation;
        is_observed && shown(&status) == "dev: app 6.1.6; prod: app 6.1.5"
    })
    .await;
    let copy = world.pipelines().get("storefront").await.unwrap();
    assert!(is_true(&copy, "Ready"));
    let owner = &copy.metadata.owner_references.unwrap()[0];
    assert_eq!(
        (owner.api_version.as_str(), owner.name.as_str()),
        ("pipelines.wego.weave.works/v1alpha1", "storefront")
    );
}

#[tokio::test]
async fn several_targets_are_told_apart() {
    let clusters = [
        ("early-north", "1.0.0"),
        ("early-south", "1.1.0"),
        ("live", "1.0.0"),
    ];
    let world = world(&clusters).await;
    for (cluster, _) in clusters {
        world.label_app(cluster, "web", "storefront-regions").await;
    }
    kubectl_apply(&world, &listing(PIPELINES, "storefront-regions", "", "")).await;
    until(&world, "storefront-regions", |it| {
        let status = it.status.clone().unwrap_or_default();
        shown(&status) == "dev: app 1.0.0; dev: app 1.1.0; prod: app 1.0.0"
    })
    .await;
}

#[tokio::test]
async fn an_edit_of_either_ends_in_both() {
    let world = world(&[]).await;
    let mut storefront = listing(PIPELINES, "storefront", "", "");
    kubectl_apply(&world, &storefront).await;
    until(&world, "storefront", |it| it.status.is_some()).await;

    // The original decides.
    storefront["spec"]["environments"][1]["name"] = json!("live");
    kubectl_apply(&world, &storefront).await;
    until_copy(&world, |spec| spec["environments"][1]["name"] == "live").await;
    world
        .patch_pipeline("storefront", json!({"spec": {"environments": []}}))
        .await;
    until_copy(&world, |spec| spec["environments"][1]["name"] == "live").await;

    // What people ask of the copy goes to the original.
    let request = r#"{"live": {"revision": "1.2.3"}}"#;
    let asked = json!({"pipelines.weave.works/request": request});
    let suspended = json!([
        storefront["spec"]["environments"][0],
        {"name": "live", "suspend": true, "targets": storefront["spec"]["environments"][1]["targets"]},
    ]);
    let patch = json!({
        "metadata": {"annotations": asked},
        "spec": {"suspend": true, "environments": suspended},
    });
    world.patch_pipeline("storefront", patch).await;
    until(&world, "storefront", |it| {
        let spec = &it.spec.pipeline;
        let annotations = it.metadata.annotations.clone().unwrap_or_default();
        let asked = annotations.get("pipelines.weave.works/request");
        spec.suspend && spec.environments[1].suspend && asked.is_some_and(|it| it == request)
    })
    .await;
    until_copy(&world, |spec| spec["suspend"] == true).await;

    // And what is taken back on the original is taken back on the copy.
    let patch = Patch::Merge(json!({"spec": {"suspend": false}}));
    let api = originals(&world);
    let patched = api
        .patch("storefront", &PatchParams::default(), &patch)
        .await;
    patched.unwrap();
    until_copy(&world, |spec| {
        spec["suspend"].is_null() && spec["environments"][1]["suspend"] == true
    })
    .await;
}

async fn until_copy(world: &World, is_so: impl Fn(&Value) -> bool) {
    let mut last = Value::Null;
    let wait = async || {
        let copy = world.pipelines().get_opt("storefront").await.unwrap();
        last = json!(copy.map(|copy| copy.spec));
        is_so(&last)
    };
    assert!(wait_for(wait).await, "{last:#}");
}

#[tokio::test]
async fn somebody_elses_pipeline_of_the_name_is_never_touched() {
    let world = world(&[]).await;
    let mut foreign = listing(PIPELINES, "storefront", "", "");
    foreign["apiVersion"] = json!("pipelines.weave.works/v1alpha1");
    foreign["spec"]["environments"][1]["name"] = json!("theirs");
    apply(&world.hub, &foreign).await;
    kubectl_apply(&world, &listing(PIPELINES, "storefront", "", "")).await;
    until(&world, "storefront", |it| {
        let status = it.status.clone().unwrap_or_default();
        let conditions = &status.conditions;
        let ready = conditions.iter().find(|it| it.type_ == "Ready");
        ready.is_some_and(|it| {
            it.reason == "NameTaken" && it.message.contains("was not made from this one")
        })
    })
    .await;
    let theirs = world.pipelines().get("storefront").await.unwrap();
    assert_eq!(theirs.spec.environments[1].name, "theirs");
    assert_eq!(theirs.metadata.owner_references, None);

    let pipelines = world.pipelines();
    let deleted = pipelines
        .delete("storefront", &DeleteParams::default())
        .await;
    deleted.unwrap();
    until(&world, "storefront", |it| {
        let status = it.status.clone().unwrap_or_default();
        status.environments.contains_key("prod")
    })
    .await;
}

/// Older installs do not have the group.
#[tokio::test]
async fn everything_else_works_without_the_group() {
    let world = world(&[]).await;
    let definitions: Api<kube::api::DynamicObject> = Api::all_with(
        world.hub.clone(),
        &kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
        )),
    );
    let name = "pipelines.pipelines.wego.weave.works";
    let deleted = definitions.delete(name, &DeleteParams::default()).await;
    deleted.unwrap();
    let lacking = async || {
        controller::installed::compare(&world.hub)
            .await
            .unwrap()
            .is_empty()
    };
    assert!(wait_for(lacking).await, "the group is missed");
    let mut plain = listing(PIPELINES, "storefront", "", "");
    plain["apiVersion"] = json!("pipelines.weave.works/v1alpha1");
    apply(&world.hub, &plain).await;
    let is_observed = async || {
        let pipeline = world.pipelines().get("storefront").await.unwrap();
        pipeline.status.is_some_and(|it| it.environments.len() == 2)
    };
    assert!(wait_for(is_observed).await, "it is not looked at");
}
