//! The installed admission policy on a real API server: kubectl needs the same permissions as the HTTP server.
#![expect(clippy::unwrap_used, reason = "a failing test is a panic")]

use std::time::Duration;

use kube::{
    Api, Client, Config, Discovery, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, GroupVersionKind},
};
use serde::Deserialize;
use serde_json::{Value, json};
use testbed::real::{Assets, ControlPlane};

const MANIFESTS: [&str; 4] = [
    include_str!("../../../deploy/manifests/namespace.yaml"),
    include_str!("../../../deploy/manifests/access.yaml"),
    include_str!("../../../deploy/manifests/roles.yaml"),
    include_str!("../../../deploy/manifests/policy.yaml"),
];
/// Refuses every ConfigMap.
const LAST_POLICY: &str = "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: last
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - apiGroups: ['']
      apiVersions: [v1]
      resources: [configmaps]
      operations: [CREATE]
  validations:
  - expression: 'false'
    reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: last
spec:
  policyName: last
  validationActions: [Deny]
";
const SLUICE: &str = "system:serviceaccount:pipeline-system:pipeline-controller";

/// What the server serves. A group that was defined just now is listed before it is.
async fn discover(client: &Client) -> Discovery {
    for _ in 0..300 {
        match Discovery::new(client.clone()).run().await {
            Ok(discovery) => return discovery,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    unreachable!("a group is not served");
}

/// Applies any objects, as kubectl would.
async fn apply(client: &Client, objects: impl IntoIterator<Item = DynamicObject>) {
    let discovery = discover(client).await;
    for object in objects {
        let types = object.types.clone().unwrap();
        let kind = GroupVersionKind::try_from(&types).unwrap();
        let (resource, _) = discovery.resolve_gvk(&kind).unwrap();
        let api: Api<DynamicObject> = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let parameters = PatchParams::apply("test").force();
        let patch = Patch::Apply(&object);
        api.patch(&object.name_any(), &parameters, &patch)
            .await
            .unwrap();
    }
}

fn objects(yaml: &str) -> Vec<DynamicObject> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
    let read = |document| DynamicObject::deserialize(document).unwrap();
    documents.into_iter().map(read).collect()
}

/// A client that speaks for somebody.
///
/// `user` or `user of group and group`.
async fn client_of(plane: &ControlPlane, user: &str) -> Client {
    let (user, groups) = user.split_once(" of ").unwrap_or((user, ""));
    let groups = groups.split(" and ").filter(|group| !group.is_empty());
    let kubeconfig = Kubeconfig::from_yaml(plane.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    config.auth_info.impersonate = Some(user.to_owned());
    config.auth_info.impersonate_groups = Some(groups.map(str::to_owned).collect());
    Client::try_from(config).unwrap()
}

fn kind(name: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(
        "pipelines.weave.works",
        "v1alpha1",
        name,
    ))
}

fn api(client: Client, kind_name: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client, "default", &kind(kind_name))
}

/// Pipelines in the group of the first proposal.
fn early_pipelines(client: Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("pipelines.wego.weave.works", "v1alpha1", "Pipeline");
    Api::namespaced_with(client, "default", &ApiResource::from_gvk(&kind))
}

fn pipeline() -> DynamicObject {
    DynamicObject::deserialize(json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "shop"},
            "environments": [{"name": "dev", "targets": []}, {"name": "prod", "targets": []}],
        },
    }))
    .unwrap()
}

fn promotion(name: &str) -> DynamicObject {
    DynamicObject::deserialize(json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Promotion",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "pipeline": "shop", "environment": "prod", "revision": "1.2.3", "version": "1.2.3",
            "ordinal": 0, "needsApproval": true, "strategy": {"notification": {}},
            "approvalPolicy": {
                "count": 2, "from": [{"group": "approvers"}, {"user": "prod-approver"}], "notRequester": true,
            },
            "request": {"id": "1", "kind": "Promote", "by": "requester"},
        },
    }))
    .unwrap()
}

/// A user, and the group `NAMEs`, with these verbs on these resources of ours, besides patching what
/// they want.
fn user(name: &str, resource: &str, verbs: &[&str]) -> Vec<DynamicObject> {
    let group = ["pipelines.weave.works"];
    let early = ["pipelines.wego.weave.works"];
    let role_name = name.replace(' ', "-");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": role_name, "namespace": "default"},
        "rules": [
            {"apiGroups": group, "resources": ["pipelines", "promotions", "changes", "freezes", "checkruns", "checkruns/status"],
             "verbs": ["get", "list", "create", "patch", "update", "delete", "deletecollection"]},
            {"apiGroups": early, "resources": ["pipelines"],
             "verbs": ["get", "list", "create", "patch", "update", "delete", "deletecollection"]},
            {"apiGroups": group, "resources": [resource], "verbs": verbs},
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": role_name, "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role_name},
        "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name},
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": format!("{name}s")},
        ],
    });
    let read = |object| DynamicObject::deserialize(object).unwrap();
    [role, binding].map(read).into()
}

struct World {
    plane: ControlPlane,
}

impl World {
    async fn new() -> Self {
        let plane = ControlPlane::start(&Assets::from_env().unwrap())
            .await
            .unwrap();
        let client = plane.client();
        let definitions = api::crds().into_iter().map(|definition| {
            let mut value = serde_json::to_value(definition).unwrap();
            value["apiVersion"] = json!("apiextensions.k8s.io/v1");
            value["kind"] = json!("CustomResourceDefinition");
            DynamicObject::deserialize(value).unwrap()
        });
        apply(&client, definitions).await;
        for manifest in MANIFESTS {
            apply(&client, objects(manifest)).await;
        }
        for (name, resource, verbs) in [
            ("patcher", "pipelines", &["get"][..]),
            ("approver", "pipelines", &["approve"]),
            ("prod-approver", "pipelines/prod", &["approve", "suspend"]),
            ("dev-approver", "pipelines/dev", &["approve", "suspend"]),
            ("operator", "pipelines", &["suspend", "promote"]),
            ("space operator", "pipelines", &["promote"]),
            ("freezer", "pipelines", &["freeze"]),
            ("on-call", "pipelines", &["promote", "override"]),
            ("reporter", "pipelines", &["report"]),
            ("prod-reporter", "pipelines/prod", &["report"]),
        ] {
            apply(&client, user(name, resource, verbs)).await;
        }
        let world = Self { plane };
        world.until_served().await;
        api(client, "Pipeline")
            .create(&PostParams::default(), &pipeline())
            .await
            .unwrap();
        let sluice = api(client_of(&world.plane, SLUICE).await, "Promotion");
        sluice
            .create(&PostParams::default(), &promotion("one"))
            .await
            .unwrap();
        world
    }

    /// Definitions take a moment until they are served, policies until they are enforced.
    ///
    /// The server learns policies in the order in which they were written: once it enforces one that was
    /// written last, it enforces all.
    async fn until_served(&self) {
        let client = self.plane.client();
        apply(&client, objects(LAST_POLICY)).await;
        let maps: Api<DynamicObject> = Api::namespaced_with(
            client.clone(),
            "default",
            &ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap")),
        );
        let probe = DynamicObject::deserialize(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "probe", "namespace": "default"},
        }));
        let probe = probe.unwrap();
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let promotions = api(client, "Promotion");
        for _ in 0..300 {
            let refused = [
                maps.create(&dry_run, &probe).await,
                promotions.create(&dry_run, &promotion("probe")).await,
            ];
            let is_refused = |answer: &kube::Result<DynamicObject>| matches!(answer, Err(kube::Error::Api(status)) if status.code == 403);
            if refused.iter().all(is_refused) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        unreachable!("the policies are not enforced");
    }

    /// What the server says to a merge patch: `ok`, or its message.
    async fn patch(&self, user: &str, kind: &str, patch: Value) -> String {
        let name = if kind == "Promotion" { "one" } else { "shop" };
        let client = client_of(&self.plane, user).await;
        let objects = match kind {
            "EarlyPipeline" => early_pipelines(client),
            kind => api(client, kind),
        };
        let patch = Patch::Merge(&patch);
        match objects.patch(name, &PatchParams::default(), &patch).await {
            Ok(_) => "ok".to_owned(),
            Err(kube::Error::Api(status)) => status.message,
            Err(error) => error.to_string(),
        }
    }

    async fn check(&self, user: &str, kind: &str, patch: Value, expected: &str) {
        let said = self.patch(user, kind, patch.clone()).await;
        assert!(
            said.contains(expected),
            "{user} {kind} {patch}:\n{said}\nand not\n{expected}"
        );
    }
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn labels_and_owners_of_a_promotion_are_written_by_sluice() {
    let world = World::new().await;
    let check = |patch, expected| world.check("approver", "Promotion", patch, expected);
    let refused = "the labels and owners of a promotion are written by Sluice";
    let label = |name: &str| json!({"metadata": {"labels": {name: "other"}}});
    check(label("pipelines.weave.works/pipeline"), refused).await;
    check(label("pipelines.weave.works/place"), refused).await;
    check(label("team"), "ok").await;
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}]);
    check(json!({"metadata": {"ownerReferences": owner}}), refused).await;
}

fn approvals(all: Value) -> Value {
    json!({"spec": {"approvals": all}})
}

/// The table of attacks on approvals; `planner/tests/rules/rights.rs` has it for the embedded API.
#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn attacks_on_approvals_are_refused() {
    let world = World::new().await;
    let check = |user, patch, expected| world.check(user, "Promotion", patch, expected);
    let no_right =
        "may not approve or reject promotions of pipeline shop into prod: the verb approve";
    let own = "everybody gives and replaces only their own approval";
    let by_policy = json!({"by": "prod-approver"});
    let member = json!({"by": "ann", "group": "approvers"});
    for (user, patch, expected) in [
        ("patcher", approvals(json!([{"by": "patcher"}])), no_right),
        (
            "dev-approver",
            approvals(json!([{"by": "dev-approver"}])),
            no_right,
        ),
        ("approver", approvals(json!([{"by": "boss"}])), own),
        (
            "approver",
            approvals(json!([{"by": "approver"}])),
            "do not count from approver",
        ),
        (
            "approver",
            approvals(json!([{"by": "approver", "group": "approvers"}])),
            "approver is not in the group approvers",
        ),
        (
            "ann of approvers",
            approvals(json!([{"by": "ann", "group": "dev-approvers"}])),
            "ann is not in the group dev-approvers",
        ),
        (
            "requester of approvers",
            approvals(json!([{"by": "requester", "group": "approvers"}])),
            "requester requested this promotion",
        ),
        (
            "prod-approver",
            approvals(json!([{"by": "prod-approver", "signature": "a5"}])),
            "are written by Sluice",
        ),
        (
            "prod-approver",
            json!({"spec": {"approval": {"by": "prod-approver"}}}),
            "approvals are given in spec.approvals",
        ),
        (
            "prod-approver",
            json!({"spec": {"withdrawn": {"reason": "no"}}}),
            "promotions are withdrawn by Sluice",
        ),
        (
            "prod-approver",
            json!({"spec": {"revision": "6.6.6"}}),
            "a promotion cannot be edited",
        ),
        (
            "prod-approver",
            json!({"spec": {"approvalPolicy": {"count": 1}}}),
            "a promotion cannot be edited",
        ),
        ("prod-approver", approvals(json!([by_policy])), "ok"),
        (
            "ann of approvers",
            approvals(json!([member])),
            "an approval cannot be taken back",
        ),
        (
            "ann of approvers",
            approvals(json!([{"by": "prod-approver", "changeDigest": "forged"}, member])),
            own,
        ),
        (
            "ann of approvers",
            approvals(json!([by_policy, member])),
            "ok",
        ),
        (
            "prod-approver",
            approvals(json!([{"by": "prod-approver", "note": "again"}, member])),
            "ok",
        ),
        (
            "prod-approver",
            json!({"spec": {"approvals": null}}),
            "an approval cannot be taken back",
        ),
        (
            "patcher",
            json!({"spec": {"rejection": {"by": "patcher"}}}),
            no_right,
        ),
        (
            "prod-approver",
            json!({"spec": {"rejection": {"by": "boss"}}}),
            "spec.rejection.by must be prod-approver",
        ),
        (
            "prod-approver",
            json!({"spec": {"rejection": {"by": "prod-approver"}}}),
            "ok",
        ),
        (
            "approver",
            json!({"spec": {"rejection": {"by": "approver"}}}),
            "a promotion is rejected once",
        ),
    ] {
        check(user, patch, expected).await;
    }
    let created = api(client_of(&world.plane, "approver").await, "Promotion")
        .create(&PostParams::default(), &promotion("two"))
        .await;
    let refused = created.unwrap_err().to_string();
    assert!(
        refused.contains("promotions are created by Sluice"),
        "{refused}"
    );
}

/// The cost of the policy stays within what the API server allows, for the largest pipeline and policy.
#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn the_largest_pipeline_is_within_the_cost_limit() {
    let world = World::new().await;
    let large = |soak: u32| {
        let from: Vec<_> = (0..16)
            .map(|it| json!({"group": format!("group-{it}")}))
            .collect();
        let environments: Vec<_> = (0..20)
            .map(|it| {
                let policy = json!({"count": 2, "from": from});
                json!({
                    "name": format!("environment-{it}"), "targets": [{"namespace": "shop"}],
                    "after": (it.max(16) - 16..it).map(|it| format!("environment-{it}")).collect::<Vec<_>>(),
                    "promotion": {
                        "strategy": {"notification": {}}, "soak": format!("{soak}m"), "approvalPolicy": policy,
                    },
                })
            })
            .collect();
        json!({"spec": {"environments": environments}})
    };
    world.check("patcher", "Pipeline", large(1), "ok").await;
    world.check("patcher", "Pipeline", large(2), "ok").await;
    let weaker = "may not weaken or remove what guards environment-0, environment-1";
    world.check("patcher", "Pipeline", large(1), weaker).await;
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn kubectl_obeys_the_rights_to_suspend_and_to_ask() {
    let world = World::new().await;
    let check = |user, patch, expected| world.check(user, "Pipeline", patch, expected);
    let suspend = |is: bool| json!({"spec": {"suspend": is}});
    let prod = |is: bool| {
        json!({"spec": {"environments": [
            {"name": "dev", "targets": []}, {"name": "prod", "targets": [], "suspend": is},
        ]}})
    };
    check(
        "patcher",
        suspend(true),
        "may not suspend or resume pipeline shop",
    )
    .await;
    check(
        "prod-approver",
        suspend(true),
        "may not suspend or resume pipeline shop",
    )
    .await;
    check("operator", suspend(true), "ok").await;
    check(
        "patcher",
        suspend(false),
        "may not suspend or resume pipeline shop",
    )
    .await;
    check(
        "dev-approver",
        prod(true),
        "may not suspend or resume environments",
    )
    .await;
    check("prod-approver", prod(true), "ok").await;
    let other = json!({"metadata": {"labels": {"team": "shop"}}});
    check("patcher", other, "ok").await;
    let ask = |by: &str| {
        let request =
            json!({"environment": "prod", "revision": "1.2.3", "kind": "Promote", "by": by});
        json!({"metadata": {"annotations": {"pipelines.weave.works/request": request.to_string()}}})
    };
    check(
        "patcher",
        ask("patcher"),
        "may not ask for promotions of pipeline shop",
    )
    .await;
    check(
        "operator",
        ask("boss"),
        "leave \"by\" out or make it operator",
    )
    .await;
    let hidden = "{\"environment\":\"prod\",\"revision\":\"1.2.3\",\"by\"\t:\"boss\"}";
    let hidden = json!({"metadata": {"annotations": {"pipelines.weave.works/request": hidden}}});
    check("operator", hidden, "leave \"by\" out or make it operator").await;
    let other = "leave \"by\" out or make it operator";
    check("operator", ask("ope rator"), other).await;
    let twice = "{\"prod\": {\"by\": \"operator\"}, \"dev\": {\"by\": \"boss\"}}";
    let twice = json!({"metadata": {"annotations": {"pipelines.weave.works/request": twice}}});
    check("operator", twice, other).await;
    check("operator", ask("operator"), "ok").await;
    let other = "leave \"by\" out or make it space operator";
    check("space operator", ask("spaceoperator"), other).await;
    check("space operator", ask("space operator"), "ok").await;
}

/// Many environments, each with a safeguard, and one without.
fn guarded() -> Value {
    let settings = |own: Value| {
        let mut settings = json!({"strategy": {"notification": {}}});
        settings
            .as_object_mut()
            .unwrap()
            .extend(own.as_object().unwrap().clone());
        settings
    };
    let environment = |name: &str, own: Value| json!({"name": name, "targets": [{"namespace": name}], "promotion": settings(own)});
    let mut environments = vec![environment("dev", json!({}))];
    for number in 1..5 {
        environments.push(environment(
            &format!("test-{number}"),
            json!({"soak": "1h"}),
        ));
    }
    environments.push(environment("late", json!({"when": "AllTargetsReady"})));
    environments.push(environment("prod", json!({"manual": true})));
    let from = json!([{"group": "approvers"}]);
    let policy = json!({"count": 2, "from": from, "notRequester": true, "expires": "1h"});
    environments.push(environment("live", json!({"approvalPolicy": policy})));
    environments.push(environment(
        "signed",
        json!({"requireVerifiedSource": true}),
    ));
    environments.push(environment("eu", json!({"checks": ["ticket"]})));
    environments[9]["verify"] = json!({"checks": ["smoke"], "onFailure": "Rollback"});
    let check = |name: &str| json!({"name": name, "external": {"secretRef": {"name": name}}});
    let checks = ["smoke", "ticket"].map(check);
    json!({"spec": {"environments": environments, "checks": checks}})
}

/// The guarded pipeline with one value set, or removed by null.
fn edited(path: &str, value: Value) -> Value {
    let mut pipeline = guarded();
    let (parent, last) = path.rsplit_once('/').unwrap();
    let parent = pipeline
        .pointer_mut(&format!("/spec/environments/{parent}"))
        .unwrap();
    match value {
        Value::Null => drop(parent.as_object_mut().unwrap().remove(last)),
        value => parent[last] = value,
    }
    pipeline
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn weakening_needs_the_right_to_approve() {
    let world = World::new().await;
    let check = |user, patch, expected| world.check(user, "Pipeline", patch, expected);
    check("patcher", guarded(), "ok").await;
    let refused = "may not weaken or remove what guards";
    for (path, value) in [
        ("6/promotion/manual", json!(false)),
        ("6/promotion/manual", Value::Null),
        ("6/name", json!("production")),
        ("6/targets", json!([{"namespace": "elsewhere"}])),
        (
            "6/promotion/strategy",
            json!({"webhook": {"url": "https://ci.example.com"}}),
        ),
        ("6/promotion/when", json!("AnyTargetReady")),
        ("7/promotion/approvalPolicy", Value::Null),
        ("7/promotion/approvalPolicy/count", json!(1)),
        ("7/promotion/approvalPolicy/count", Value::Null),
        ("7/promotion/approvalPolicy/from", Value::Null),
        (
            "7/promotion/approvalPolicy/from",
            json!([{"group": "approvers"}, {"user": "boss"}]),
        ),
        ("7/promotion/approvalPolicy/notRequester", json!(false)),
        ("7/promotion/approvalPolicy/expires", json!("61m")),
        ("7/promotion/approvalPolicy/expires", Value::Null),
        ("7/name", json!("live2")),
        ("7/targets", json!([{"namespace": "elsewhere"}])),
        (
            "7/promotion/strategy",
            json!({"webhook": {"url": "https://ci.example.com"}}),
        ),
        ("9/promotion/checks", json!([])),
        ("9/promotion/checks", Value::Null),
        ("9/verify/checks", json!(["ticket"])),
        ("9/verify", Value::Null),
        ("9/verify/onFailure", json!("Hold")),
        ("9/verify/onFailure", Value::Null),
        ("9/name", json!("us")),
        ("9/targets", json!([{"namespace": "elsewhere"}])),
        ("5/promotion/when", Value::Null),
        ("5/promotion/when", json!("AnyTargetReady")),
        ("1/promotion/soak", json!("59m")),
        ("1/promotion/soak", Value::Null),
        ("8/promotion/requireVerifiedSource", json!(false)),
        ("8/promotion/requireVerifiedSource", Value::Null),
        ("8/targets", json!([{"namespace": "elsewhere"}])),
        ("0/promotion/when", json!("AnyTargetReady")),
        // Another source for a guarded environment.
        ("6/after", json!(["dev"])),
        ("6/after", json!(["late", "dev"])),
        ("6/after", json!([])),
        ("5/targets", json!([])),
    ] {
        let users = [
            "patcher",
            "operator",
            "ann of patchers",
            "ann of dev-approvers",
        ];
        let users = users
            .iter()
            .filter(|user| !(path.starts_with('0') && user.contains("dev")));
        for user in users {
            check(user, edited(path, value.clone()), refused).await;
        }
        check("approver", edited(path, value), "ok").await;
        check("approver", guarded(), "ok").await;
    }
    for check_edit in [
        json!([{"name": "smoke", "external": {"secretRef": {"name": "other"}}}]),
        json!([{"name": "smoke", "external": {"secretRef": {"name": "smoke"}}}]),
        json!([]),
    ] {
        let mut redefined = guarded();
        redefined["spec"]["checks"] = check_edit;
        check(
            "patcher",
            redefined.clone(),
            "what guards eu of pipeline shop",
        )
        .await;
        check("approver", redefined, "ok").await;
        check("approver", guarded(), "ok").await;
    }
    for order in [
        |it: &mut Vec<Value>| it.swap(5, 6),
        |it: &mut Vec<Value>| {
            it.insert(6, json!({"name": "new", "targets": [{"namespace": "new"}]}));
        },
    ] {
        let mut reordered = guarded();
        order(reordered["spec"]["environments"].as_array_mut().unwrap());
        check("patcher", reordered.clone(), "what guards").await;
        check("approver", reordered, "ok").await;
        check("approver", guarded(), "ok").await;
    }
    // What it comes after stays the same.
    let same = edited("6/after", json!(["late"]));
    check("patcher", same, "ok").await;
    let mut last = guarded();
    let environments = last["spec"]["environments"].as_array_mut().unwrap();
    environments.push(json!({"name": "lab", "targets": [{"namespace": "lab"}], "after": []}));
    check("patcher", last, "ok").await;
    check("patcher", guarded(), "ok").await;
    let mut more = guarded();
    more["spec"]["environments"][9]["verify"]["checks"] = json!(["smoke", "ticket"]);
    check("patcher", more, "ok").await;
    check("approver", guarded(), "ok").await;
    let stricter = edited("1/promotion/soak", json!("2h"));
    check("patcher", stricter, "ok").await;
    check("patcher", guarded(), "what guards test-1 of pipeline shop").await;
    check("approver", guarded(), "ok").await;
    let moved = edited("0/targets", json!([{"namespace": "elsewhere"}]));
    check("patcher", moved, "ok").await;
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}]);
    let owned = json!({"metadata": {"ownerReferences": owner}});
    check("patcher", owned, refused).await;
    let manual = edited("6/promotion/manual", json!(false));
    check("ann of patchers and prod-approvers", manual, "ok").await;
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn rights_are_checked_for_many_environments_at_once() {
    let world = World::new().await;
    // For more environments at once, the right for the whole pipeline is needed.
    let guarded = || {
        let mut pipeline = guarded();
        let environments = pipeline["spec"]["environments"].as_array_mut().unwrap();
        environments.truncate(7);
        environments.push(json!({"name": "lab", "targets": [{"namespace": "lab"}]}));
        pipeline
    };
    let check = |user, patch, expected| world.check(user, "Pipeline", patch, expected);
    check("patcher", guarded(), "ok").await;
    let suspended = |is: bool| {
        let mut pipeline = guarded();
        for environment in pipeline["spec"]["environments"].as_array_mut().unwrap() {
            environment["suspend"] = json!(is);
        }
        pipeline
    };
    let no_right = "may not suspend or resume environments of pipeline shop";
    check("prod-approver", suspended(true), no_right).await;
    check("operator", suspended(true), "ok").await;
    check("operator", suspended(false), "ok").await;
    // Removing a suspended environment, to add it again, resumes it.
    let mut first = guarded();
    first["spec"]["environments"][7]["suspend"] = json!(true);
    check("operator", first, "ok").await;
    let mut without = guarded();
    let environments = without["spec"]["environments"].as_array_mut();
    environments.unwrap().remove(7);
    check("patcher", without.clone(), no_right).await;
    check("operator", without, "ok").await;
    check("patcher", guarded(), "ok").await;
    let none = json!({"spec": {"environments": []}});
    check(
        "patcher",
        none.clone(),
        "what guards test-1, test-2, test-3, test-4, late, prod of",
    )
    .await;
    // One right for each of them, and none for the whole pipeline.
    for number in 1..5 {
        let resource = format!("pipelines/test-{number}");
        let name = format!("tester-{number}");
        apply(
            &world.plane.client(),
            user(&name, &resource, &["approve", "suspend"]),
        )
        .await;
    }
    for name in ["late", "lab"] {
        let resource = format!("pipelines/{name}");
        let approver = user(
            &format!("{name}-approver"),
            &resource,
            &["approve", "suspend"],
        );
        apply(&world.plane.client(), approver).await;
    }
    let everywhere = "ann of tester-1s and tester-2s and tester-3s and tester-4s and late-approvers \
                      and lab-approvers and prod-approvers and dev-approvers";
    check(everywhere, suspended(true), "ok").await;
    check(everywhere, none, "ok").await;
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn a_guarded_pipeline_is_deleted_by_who_may_approve() {
    let world = World::new().await;
    let check = |user, patch, expected| world.check(user, "Pipeline", patch, expected);
    check("patcher", guarded(), "ok").await;
    let pipelines = async |user| api(client_of(&world.plane, user).await, "Pipeline");
    let parameters = DeleteParams::default();
    let refused = pipelines("patcher").await.delete("shop", &parameters).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("what guards test-1"), "{refused}");
    let all = ListParams::default();
    let refused = pipelines("patcher")
        .await
        .delete_collection(&parameters, &all)
        .await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("what guards test-1"), "{refused}");
    let deleted = pipelines("approver")
        .await
        .delete("shop", &parameters)
        .await;
    deleted.unwrap();
    let plain = pipelines("patcher").await;
    plain
        .create(&PostParams::default(), &pipeline())
        .await
        .unwrap();
    plain.delete("shop", &parameters).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn a_change_is_by_who_creates_it() {
    let world = World::new().await;
    let create = async |user: &str, name: &str, by: Value| {
        let change = DynamicObject::deserialize(json!({
            "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Change",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"path": "a.yaml", "content": "a: 1", "title": "Add a", "by": by},
        }));
        let changes = api(client_of(&world.plane, user).await, "Change");
        let created = changes
            .create(&PostParams::default(), &change.unwrap())
            .await;
        created.err().map(|error| error.to_string())
    };
    let refused = create("patcher", "one", json!("boss")).await.unwrap();
    assert!(refused.contains("spec.by must be patcher"), "{refused}");
    assert_eq!(create("patcher", "one", json!("patcher")).await, None);
    assert_eq!(create("patcher", "two", json!(null)).await, None);
    assert_eq!(create(SLUICE, "three", json!("boss")).await, None);
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn a_freeze_is_written_and_deleted_by_who_may_freeze() {
    let world = World::new().await;
    let freeze = DynamicObject::deserialize(json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Freeze",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"reason": "weekend", "closed": [{"cron": "0 16 * * FRI", "window": "64h"}]},
    }));
    let freeze = freeze.unwrap();
    let freezes = async |user: &str| api(client_of(&world.plane, user).await, "Freeze");
    let created = |result: kube::Result<DynamicObject>| match result {
        Ok(_) => "ok".to_owned(),
        Err(error) => error.to_string(),
    };
    let parameters = PostParams::default();
    let refused = created(freezes("operator").await.create(&parameters, &freeze).await);
    let no_right = "may not write the Freeze shop: the verb freeze on pipelines is needed";
    assert!(
        refused.contains(&format!("operator {no_right}")),
        "{refused}"
    );
    let accepted = created(freezes("freezer").await.create(&parameters, &freeze).await);
    assert_eq!(accepted, "ok");
    let weaker = json!({"spec": {"allow": ["Rollback"]}});
    world
        .check("approver", "Freeze", weaker.clone(), no_right)
        .await;
    world.check("freezer", "Freeze", weaker, "ok").await;
    let deleted = freezes("patcher")
        .await
        .delete("shop", &DeleteParams::default())
        .await;
    let refused = deleted.unwrap_err().to_string();
    assert!(refused.contains(no_right), "{refused}");
    let deleted = freezes("freezer")
        .await
        .delete("shop", &DeleteParams::default())
        .await;
    assert!(deleted.is_ok());
    let by_sluice = created(freezes(SLUICE).await.create(&parameters, &freeze).await);
    assert_eq!(by_sluice, "ok");
}

fn check_run() -> DynamicObject {
    DynamicObject::deserialize(json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "CheckRun",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "pipeline": "shop", "environment": "prod", "revision": "1.2.3", "version": "1.2.3",
            "attempt": 0, "cause": "Verify", "check": {"name": "ticket", "external": {}},
        },
    }))
    .unwrap()
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn check_runs_are_written_by_sluice_and_results_by_who_may_report() {
    let world = World::new().await;
    let runs = async |user: &str| api(client_of(&world.plane, user).await, "CheckRun");
    let parameters = PostParams::default();
    let refused = runs("approver")
        .await
        .create(&parameters, &check_run())
        .await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("created and deleted by Sluice"),
        "{refused}"
    );
    let created = runs(SLUICE).await.create(&parameters, &check_run()).await;
    assert!(created.is_ok(), "{created:?}");
    let parameters = DeleteParams::default();
    let deleted = runs("approver").await.delete("shop", &parameters).await;
    let refused = deleted.unwrap_err().to_string();
    assert!(
        refused.contains("created and deleted by Sluice"),
        "{refused}"
    );
    let status = json!({"status": {"verdict": "Passed"}});
    let (by_user, patch) = (PatchParams::default(), Patch::Merge(&status));
    let approver = runs("approver").await;
    let patched = approver.patch_status("shop", &by_user, &patch).await;
    let refused = patched.unwrap_err().to_string();
    assert!(
        refused.contains("the status of a check run is written by Sluice"),
        "{refused}"
    );
    let check = |user, patch, expected| world.check(user, "CheckRun", patch, expected);
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}]);
    let owned = json!({"metadata": {"ownerReferences": owner}});
    check(
        "reporter",
        owned,
        "the labels and owners of a check run are written by Sluice",
    )
    .await;
    let by = |by: &str| json!({"spec": {"result": {"passed": true, "by": by}}});
    let no_right = "may not report checks of pipeline shop in prod: the verb report on pipelines";
    check("approver", by("approver"), no_right).await;
    check(
        "reporter",
        by("somebody"),
        "spec.result.by must be reporter",
    )
    .await;
    let unnamed = json!({"spec": {"result": {"passed": true}}});
    check("reporter", unnamed, "spec.result.by must be reporter").await;
    let signed = json!({"spec": {"result": {"passed": true, "by": "reporter", "signature": "a"}}});
    check("reporter", signed, "spec.result.by must be reporter").await;
    let edited = json!({"spec": {"revision": "2", "result": {"passed": true, "by": "reporter"}}});
    check("reporter", edited, "a check run cannot be edited").await;
    check("prod-reporter", by("prod-reporter"), "ok").await;
    check("reporter", by("reporter"), "is set once").await;
    let deleted = runs(SLUICE).await.delete("shop", &parameters).await;
    assert!(deleted.is_ok());
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn any_change_of_an_override_needs_its_right() {
    let world = World::new().await;
    let check = |user, patch, expected| world.check(user, "Pipeline", patch, expected);
    let annotation = |text: Value| json!({"metadata": {"annotations": {"pipelines.weave.works/override": text}}});
    let wanted = json!(r#"{"request": "r1", "reason": "incident", "passes": ["freeze/shop"]}"#);
    let no_right =
        "may not override gates of pipeline shop: the verb override on pipelines is needed";
    check("operator", annotation(wanted.clone()), no_right).await;
    check("on-call", annotation(wanted), "ok").await;
    check("operator", annotation(Value::Null), no_right).await;
    check(
        "operator",
        json!({"metadata": {"labels": {"a": "b"}}}),
        "ok",
    )
    .await;
    // The annotation stays after its request was handled. A new request with the same id would use it.
    let ask = |id: &str| {
        let request = json!({"prod": {"id": id, "revision": "1.2.3"}}).to_string();
        json!({"metadata": {"annotations": {"pipelines.weave.works/request": request}}})
    };
    check("operator", ask("r1"), no_right).await;
    check("operator", ask("r2"), "ok").await;
    check("on-call", ask("r1"), "ok").await;
    check("on-call", annotation(Value::Null), "ok").await;
    check("operator", ask("r1"), "ok").await;
}

/// What is written there is copied by Sluice, whose own writes nobody checks.
#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn the_early_group_gives_nobody_more_rights() {
    let world = World::new().await;
    let check = |user, patch, expected| world.check(user, "EarlyPipeline", patch, expected);
    let mut early = pipeline();
    early.types.as_mut().unwrap().api_version = "pipelines.wego.weave.works/v1alpha1".to_owned();
    early.data["spec"] = guarded()["spec"].clone();
    let pipelines = async |user| early_pipelines(client_of(&world.plane, user).await);
    let created = pipelines("patcher").await;
    created
        .create(&PostParams::default(), &early)
        .await
        .unwrap();

    let refused = "may not weaken or remove what guards prod of pipeline shop: the verb approve";
    check(
        "patcher",
        edited("6/promotion/manual", json!(false)),
        refused,
    )
    .await;
    // What comes after it then comes after another one.
    let both = "may not weaken or remove what guards prod, live of pipeline shop: the verb approve";
    check("patcher", edited("6/name", json!("production")), both).await;
    let suspend = json!({"spec": {"suspend": true}});
    check(
        "patcher",
        suspend.clone(),
        "may not suspend or resume pipeline shop",
    )
    .await;
    check("operator", suspend, "ok").await;
    let ask = |by: &str| {
        let request = json!({"environment": "prod", "revision": "1.2.3", "by": by}).to_string();
        json!({"metadata": {"annotations": {"pipelines.weave.works/request": request}}})
    };
    check(
        "patcher",
        ask("patcher"),
        "may not ask for promotions of pipeline shop",
    )
    .await;
    check(
        "operator",
        ask("boss"),
        "leave \"by\" out or make it operator",
    )
    .await;
    check("operator", ask("operator"), "ok").await;
    let memory = json!({"pipelines.weave.works/adopted": "{\"suspend\": true}"});
    let forged = json!({"metadata": {"annotations": memory}});
    let by_sluice = "the annotation pipelines.weave.works/adopted is written by Sluice";
    check("operator", forged.clone(), by_sluice).await;
    world.check("approver", "Pipeline", forged, by_sluice).await;
    let parameters = DeleteParams::default();
    let refused = pipelines("patcher").await.delete("shop", &parameters).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("what guards test-1"), "{refused}");
    check("approver", edited("6/promotion/manual", json!(false)), "ok").await;
    pipelines("approver")
        .await
        .delete("shop", &parameters)
        .await
        .unwrap();
    let kept = api(world.plane.client(), "Pipeline")
        .get_opt("shop")
        .await
        .unwrap();
    assert!(
        kept.is_some(),
        "another Pipeline of the name is not concerned"
    );
}
