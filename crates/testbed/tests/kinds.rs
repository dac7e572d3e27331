//! Our kinds on a Kubernetes API: the CRDs can be applied, existing manifests are accepted and stored
//! completely, and invalid ones are refused.
//!
//! Runs on the embedded API, or with `SLUICE_TEST_API=real` and `KUBEBUILDER_ASSETS` on a real one.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test is a panic"
)]

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    core::{GroupVersionKind, Status},
    runtime::wait::{await_condition, conditions::is_crd_established},
};
use serde_json::{Value, json};
use testbed::real::{Assets, ControlPlane};

const MANIFESTS: [&str; 4] = [
    include_str!("../../api/tests/manifests/clusters.yaml"),
    include_str!("../../api/tests/manifests/pipelines.yaml"),
    include_str!("../../api/tests/manifests/promotions.yaml"),
    include_str!("../../api/tests/manifests/triggers.yaml"),
];

/// An API with our definitions on it.
struct World {
    client: Client,
    _server: Option<ControlPlane>,
}

impl World {
    async fn new() -> Self {
        let is_real = std::env::var("SLUICE_TEST_API").is_ok_and(|api| api == "real");
        let server = match is_real {
            true => Some(
                ControlPlane::start(&Assets::from_env().unwrap())
                    .await
                    .unwrap(),
            ),
            false => None,
        };
        let client = match &server {
            Some(server) => server.client(),
            None => apiserver::Server::in_memory().client(),
        };
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in api::crds() {
            let created = definitions
                .create(&PostParams::default(), &definition)
                .await
                .unwrap();
            await_condition(
                definitions.clone(),
                &created.name_any(),
                is_crd_established(),
            )
            .await
            .unwrap();
        }
        Self {
            client,
            _server: server,
        }
    }

    fn api(&self, object: &Value) -> Api<DynamicObject> {
        let api_version = object["apiVersion"].as_str().unwrap();
        let (group, version) = api_version.split_once('/').unwrap();
        let kind = GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap());
        let namespace = object["metadata"]["namespace"]
            .as_str()
            .unwrap_or("default");
        Api::namespaced_with(
            self.client.clone(),
            namespace,
            &ApiResource::from_gvk(&kind),
        )
    }

    async fn create(&self, object: &Value) -> Result<Value, String> {
        let parsed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        match self
            .api(object)
            .create(&PostParams::default(), &parsed)
            .await
        {
            Ok(created) => Ok(serde_json::to_value(created).unwrap()),
            Err(kube::Error::Api(status)) => Err(causes(&status)),
            Err(error) => panic!("{error}"),
        }
    }

    async fn patch(&self, object: &Value, patch: &Value) -> Result<Value, String> {
        let name = object["metadata"]["name"].as_str().unwrap();
        let patched = self
            .api(object)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        match patched {
            Ok(object) => Ok(serde_json::to_value(object).unwrap()),
            Err(kube::Error::Api(status)) => Err(causes(&status)),
            Err(error) => panic!("{error}"),
        }
    }
}

/// `field: reason` of everything an answer complains about.
fn causes(status: &Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let mut causes: Vec<_> = causes
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect();
    causes.dedup();
    causes.join("; ")
}

fn documents() -> Vec<Value> {
    let parse = |document| {
        let mut object: Value = serde_saphyr::from_str(document).unwrap();
        // All of them live in one namespace here.
        object["metadata"]["namespace"] = json!("default");
        object
    };
    MANIFESTS
        .into_iter()
        .flat_map(|text| text.split("\n---\n"))
        .map(parse)
        .collect()
}

async fn everything_people_wrote_is_kept_whole(world: &World) {
    for object in documents() {
        let created = world.create(&object).await.unwrap_or_else(|why| {
            panic!("{} {}: {why}", object["kind"], object["metadata"]["name"])
        });
        assert_eq!(
            created.get("spec"),
            object.get("spec"),
            "nothing is pruned or defaulted"
        );
        if object["kind"] == "Pipeline" {
            assert_eq!(created["status"], json!({"observedGeneration": -1}));
        }
    }
}

async fn a_promotion_is_frozen(world: &World) {
    let promotion = documents()
        .into_iter()
        .find(|object| object["kind"] == "Promotion")
        .unwrap();
    let name = promotion["metadata"]["name"].as_str().unwrap();
    for change in [
        json!({"revision": "other"}),
        json!({"environment": "other"}),
    ] {
        let refusal = world
            .patch(&promotion, &json!({"spec": change}))
            .await
            .unwrap_err();
        assert!(
            refusal.contains("Invalid value"),
            "{name}: {change}: {refusal}"
        );
    }
    let rejection = json!({"spec": {"rejection": {"by": "someone", "at": "2026-01-02T03:04:05Z"}}});
    world.patch(&promotion, &rejection).await.unwrap();
    let forged = json!({"spec": {"rejection": {"by": "someone else"}}});
    assert!(
        world.patch(&promotion, &forged).await.is_err(),
        "a rejection is given once"
    );
}

async fn what_cannot_be_right_is_refused(world: &World) {
    let pipeline = |spec: Value| {
        json!({
            "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": "refused"}, "spec": spec,
        })
    };
    let trigger = |spec: Value| {
        json!({
            "apiVersion": "pipeline.jquad.rocks/v1alpha1", "kind": "PipelineTrigger",
            "metadata": {"name": "refused"}, "spec": spec,
        })
    };
    let both = json!({
        "namespace": "x",
        "clusterRef": {"kind": "GitopsCluster", "name": "x"},
        "clusterSelector": {"matchLabels": {"a": "b"}},
    });
    let source = json!({"kind": "GitRepository", "name": "x"});
    let cases = [
        (
            pipeline(json!({"environments": [{"name": "dev"}]})),
            "spec.environments[0].targets",
        ),
        (
            pipeline(json!({"environments": [{"name": "dev", "targets": [both]}]})),
            "targets[0]",
        ),
        (trigger(json!({"source": source})), "exactly one"),
        (
            trigger(json!({"source": source, "pipelineRun": {}, "pipelineRunSpec": {}})),
            "exactly one",
        ),
        (trigger(json!({"pipelineRun": {}})), "spec.source"),
    ];
    for (object, expected) in cases {
        let refusal = world.create(&object).await.unwrap_err();
        assert!(refusal.contains(expected), "{object}: {refusal}");
    }
}

#[tokio::test]
async fn kinds() {
    let world = World::new().await;
    everything_people_wrote_is_kept_whole(&world).await;
    a_promotion_is_frozen(&world).await;
    what_cannot_be_right_is_refused(&world).await;
}
