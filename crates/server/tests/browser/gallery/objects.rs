//! What the pages of the gallery show: pipelines in every state, and whatever belongs to them.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use testbed::forge::Forge;

use super::orders;
use crate::{
    checks,
    leaf::{deployment, helm_labels, put, put_pod, release, source},
    rollouts::create_fleet,
    world::{World, pipeline},
};

pub(super) const VERSION: &str = "pipelines.weave.works/v1alpha1";
const DIGEST: &str = "sha256:0123456789012345678901234567890123456789012345678901234567890123";

/// A time in the past.
pub(super) fn hours_ago(hours: i64) -> String {
    let ago = SignedDuration::from_hours(hours);
    Timestamp::now().saturating_sub(ago).unwrap().to_string()
}

/// Objects of every kind in every state that a page shows.
pub(super) fn something_of_everything(world: &World) {
    states(world);
    world.create(&regions());
    world.create(&digests());
    world.create(&long());
    world.create(&frozen());
    world.create(&frozen_without_release());
    world.create(&rolled_back());
    for (name, count) in [("few", 3), ("some", 60), ("many", 1000)] {
        create_fleet(world, name, count);
    }
    let mut new = pipeline("ingress");
    new["metadata"]["namespace"] = json!("platform");
    world.create(&new);
    orders::orders(world);
    orders::rejected(world);
    shared(world);
    leaves(world);
    checks::verdicts(world);
    changes(world);
}

pub(super) fn create(world: &World, object: &Value) {
    world.runtime.block_on(put(&world.server, object));
}

/// An app whose targets are on clusters that can be reached, and one that cannot.
fn leaves(world: &World) {
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    shop_on(world, "west", &ready);
    shop_on(world, "east", &json!({"phase": "Pending"}));
    world.create_cluster("lost", "True", "");
    let mut object = pipeline("app");
    let targets = ["west", "east", "lost"].map(|cluster| target(cluster, "5.0.0", true));
    object["status"] = json!({"environments": {"prod": {"targets": targets}}});
    world.create(&object);
    world.create_event("app", "prod waits until somebody merges the pull request");
    world.create_trigger("build", "app");
}

/// A second pipeline that promotes basket in prod.
fn shared(world: &World) {
    let mut object = pipeline("basket-eu");
    object["spec"]["appRef"]["name"] = json!("basket");
    object["status"] = json!({"environments": {
        "dev": {"targets": [target("dev", "6.2.0", true)]}, "prod": {"targets": [target("eu", "6.2.0", true)]},
    }});
    world.create(&object);
}

/// A pipeline whose revisions are digests and commits.
fn digests() -> Value {
    let mut object = pipeline("images");
    let commit = "main@sha1:7e5d4d8a66857990f9844f237630bbf2980f1795";
    object["status"] = json!({"environments": {
        "dev": {"targets": [target("eu", DIGEST, true)]}, "prod": {"targets": [target("eu", commit, true)]},
    }});
    object
}

/// A pipeline with more environments than fit beside each other, and long names.
fn long() -> Value {
    let mut object = pipeline("long");
    let name = |number: usize| match number {
        3 => "region-3-with-a-name-that-nobody-would-shorten".to_owned(),
        number => format!("region-{number}"),
    };
    let environments: Vec<_> = (0..8)
        .map(|number| json!({"name": name(number), "targets": [{"namespace": "shop"}]}))
        .collect();
    object["spec"]["environments"] = json!(environments);
    for number in 0..8 {
        let revision = if number < 4 {
            "6.2.0-rc.1+build.20261116"
        } else {
            "6.1.0"
        };
        object["status"]["environments"][name(number)] =
            json!({"targets": [target("eu", revision, true)]});
    }
    object
}

/// A pipeline that a Freeze stops, behind several other gates.
fn frozen() -> Value {
    let mut object = pipeline("ledger");
    object["spec"]["promotion"]["soak"] = json!("10m");
    object["status"] = json!({
        "freezes": [{"name": "stop", "reason": "incident 7", "environments": ["prod"], "times": {}}],
        "environments": {
            "dev": {"targets": [target("eu", "6.2.0", true)]},
            "prod": {"targets": [target("eu", "6.1.0", true)], "hold": {
                "reason": "Frozen", "message": "prod is frozen by stop (incident 7), 6.2.0 waits; resolved by deleting it",
            }},
        },
    });
    object
}

/// A pipeline that a Freeze stops although nothing waits.
pub(crate) fn frozen_without_release() -> Value {
    let mut object = pipeline("invoices");
    let targets = json!({"targets": [target("eu", "6.2.0", true)]});
    object["status"] = json!({
        "freezes": [{"name": "stop", "reason": "incident 7", "environments": ["prod"], "times": {"allow": ["Rollback"]}}],
        "environments": {"dev": targets, "prod": targets},
    });
    object
}

/// A pipeline whose dev went back twice: after a failed release, and from one that ran.
pub(crate) fn rolled_back() -> Value {
    let mut object = pipeline("refunds");
    let ago = |hours: i64| json!(hours_ago(hours));
    let mut back = target("dev", "6.1.0", true);
    back["readySince"] = ago(6);
    object["status"] = json!({"environments": {
        "dev": {
            "targets": [back],
            "ran": [
                {"revision": "6.1.0", "version": "6.1.0", "allReadyAt": ago(6), "earlierStays": [
                    {"readyAt": ago(40), "leftAt": ago(14)},
                ]},
                {"revision": "6.2.0", "version": "6.2.0", "allReadyAt": ago(14), "leftAt": ago(6)},
            ],
            "failures": [{
                "revision": "6.1.1", "target": "shop on dev", "message": "install retries exhausted",
                "at": ago(28), "endedAt": ago(24),
            }],
        },
        "prod": {
            "targets": [target("eu", "6.2.0", true)],
            "ran": [
                {"revision": "6.2.0", "version": "6.2.0", "allReadyAt": ago(10)},
                {"revision": "6.1.0", "version": "6.1.0", "allReadyAt": ago(36), "leftAt": ago(10)},
            ],
        },
    }});
    object
}

/// Files that were proposed.
fn changes(world: &World) {
    let content = "apiVersion: pipelines.weave.works/v1alpha1\nkind: Pipeline\nmetadata:\n  name: basket # the shop\n";
    for (name, status) in [
        (
            "add-basket",
            json!({"phase": "Proposed", "url": "https://forge.example/shop/pulls/12"}),
        ),
        (
            "add-cart",
            json!({"phase": "Failed", "message": "the branch main is protected"}),
        ),
    ] {
        let change = json!({
            "apiVersion": VERSION, "kind": "Change", "metadata": {"name": name, "namespace": "shop"},
            "spec": {
                "path": format!("pipelines/shop/{name}.yaml"), "content": content, "by": "olivia",
                "title": "Add pipeline shop/basket",
            },
            "status": status,
        });
        create(world, &change);
    }
}

/// A forge with a pull request as Sluice opens them.
pub(super) async fn forge() -> Forge {
    let forge = Forge::start_with_tls().await.unwrap();
    let manifest =
        |version: &str| format!("spec:\n  chart:\n    spec:\n      version: {version}\n");
    let files = [("clusters/prod/basket.yaml", manifest("6.1.0"))];
    let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
    let repository = forge.create_repository("team/config", &files).await;
    let repository = repository.unwrap();
    repository.branch("promotion", "main").await.unwrap();
    let files = [("clusters/prod/basket.yaml", manifest("6.2.0"))];
    let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
    repository
        .commit("promotion", "6.2.0", &files)
        .await
        .unwrap();
    let title = "Promote shop/basket in prod to 6.2.0";
    let number = repository.open(title, "promotion", "main").await.unwrap();
    let body = "Promotes `shop/basket` in `prod` from `6.1.0` to `6.2.0`.\n\n<details>\n<summary>metadata</summary>\n\n\
         shop/basket/prod\n</details>\n\nChanges:\n\n- `clusters/prod/basket.yaml`: **6.2.0**\n";
    repository.rewrite(number, body).await.unwrap();
    forge
}

pub(crate) fn target(cluster: &str, revision: &str, is_ready: bool) -> Value {
    json!({
        "clusterAppRef": {
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app",
            "clusterRef": {"kind": "GitopsCluster", "name": cluster},
        },
        "namespace": "shop", "ready": is_ready, "revision": revision,
        "readySince": "2026-11-01T10:00:00Z", "source": "Watch",
        "apps": [{
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app",
            "ready": is_ready, "revision": revision, "message": "install retries exhausted",
            "images": ["registry.example/team/checkout:6.2.0", "registry.example/team/proxy@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"],
        }],
    })
}

/// Pipelines in every state, a fleet among them.
pub(crate) fn states(world: &World) {
    let mut unreachable = target("edge-7", "6.1.0", false);
    unreachable["problem"] = json!("Unreachable");
    unreachable["error"] = json!("edge-7 does not answer: connection refused");
    let mut failed = target("eu", "6.1.0", false);
    failed["failed"] = json!("6.2.0");
    let payments = json!({
        "targets": [failed],
        "ran": [{"revision": "6.1.0", "version": "6.1.0", "allReadyAt": hours_ago(30)}],
        "failures": [{"revision": "6.2.0", "target": "shop on eu", "at": hours_ago(2)}],
    });
    let fleet: Vec<_> = (0..60)
        .map(|n| target(&format!("edge-{n}"), "6.2.0", n % 17 != 3))
        .chain([unreachable])
        .collect();
    let hold = json!({"reason": "Soaking", "message": "dev has not been ready at 6.2.0 for long enough; resolved by time"});
    let promotion = json!({
        "name": "checkout-prod", "revision": "6.2.0", "phase": "WaitingForMerge",
        "url": "https://forge.example/shop/pulls/7",
    });
    for (name, prod) in [
        ("basket", json!({"targets": [target("eu", "6.2.0", true)]})),
        (
            "checkout",
            json!({"targets": [target("eu", "6.1.0", true)], "promotion": promotion}),
        ),
        (
            "catalogue",
            json!({"targets": [target("eu", "6.1.0", true)], "hold": hold}),
        ),
        ("payments", payments),
        ("fleet", json!({"targets": fleet})),
    ] {
        let mut object = pipeline(name);
        object["status"] = json!({
            "environments": {"dev": {"targets": [target("dev", "6.2.0", true)]}, "prod": prod},
        });
        world.create(&object);
    }
    world.set_status(
        "basket",
        &json!({"preflight": {"prod": {
            "reason": "SecretMissing", "message": "the Secret forge does not exist; create it",
        }}}),
    );
    let mut suspended = pipeline("search");
    suspended["spec"]["suspend"] = json!(true);
    world.create(&suspended);
    world.create_cluster("eu", "True", "");
    world.create_cluster("edge-7", "False", "connection refused");
    freezes(world);
}

/// A pipeline that branches: `dev → {eu, us} → prod`.
fn regions() -> Value {
    let mut object = pipeline("regions");
    let environment = |name: &str, after: &[&str]| {
        json!({
            "name": name, "after": after,
            "targets": [{
                "namespace": "shop", "clusterRef": {"kind": "GitopsCluster", "name": format!("region-{name}")},
            }],
        })
    };
    object["spec"]["environments"] = json!([
        environment("dev", &[]),
        environment("eu", &["dev"]),
        environment("us", &["dev"]),
        environment("prod", &["eu", "us"]),
    ]);
    let running = [
        ("dev", "6.2.0"),
        ("eu", "6.2.0"),
        ("us", "6.1.0"),
        ("prod", "6.0.0"),
    ];
    for (name, revision) in running {
        object["status"]["environments"][name] =
            json!({"targets": [target(&format!("region-{name}"), revision, true)]});
    }
    object
}

/// A stop, windows, and a Freeze that cannot be understood.
fn freezes(world: &World) {
    let window = |zone: &str| json!([{"cron": "0 16 * * FRI", "window": "64h", "timeZone": zone}]);
    for (name, spec) in [
        (
            "stop",
            json!({"reason": "incident 7", "pipelines": ["basket"]}),
        ),
        (
            "weekend",
            json!({"reason": "no releases", "environments": ["prod"], "closed": window("Europe/Berlin")}),
        ),
        (
            "wrong",
            json!({"reason": "a typing mistake", "closed": window("Europe/Berlinn")}),
        ),
    ] {
        let freeze = json!({
            "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Freeze",
            "metadata": {"name": name, "namespace": "shop"}, "spec": spec,
        });
        world.runtime.block_on(put(&world.server, &freeze));
    }
}

/// A cluster on which `app` runs as a release, beside an app that no pipeline names.
pub(crate) fn shop_on(world: &World, cluster: &str, pod: &Value) {
    let server = world.create_leaf(cluster);
    let inventory = json!({"inventory": {"entries": [
        {"id": "shop_web_apps_Deployment", "v": "v1"},
        {"id": "shop_keys__Secret", "v": "v1"},
        {"id": "shop_gone_apps_StatefulSet", "v": "v1"},
    ]}});
    world.runtime.block_on(async {
        put(&server, &source()).await;
        put(&server, &release(inventory)).await;
        put(
            &server,
            &deployment("web", helm_labels(), "registry.example/web:5.0.0"),
        )
        .await;
        put(
            &server,
            &deployment("lonely", json!({}), "registry.example/lonely:1"),
        )
        .await;
        put_pod(&server, "web", "web-7f9-a", pod.clone()).await;
    });
}
