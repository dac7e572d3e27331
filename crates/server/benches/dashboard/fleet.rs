//! The page of a rollout through 1,000 targets: bytes, first paint, and how long a target that becomes ready
//! takes to its cell on the map.

use std::net::SocketAddr;

use api::{Pipeline, Promotion};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use testbed::browser::Chromium;
use tokio::runtime::Runtime;

use crate::{CHANGES, LOADS, spread};

const TARGETS: usize = 1000;
const AT: &str = "2026-11-01T10:00:00Z";

pub(crate) fn measure(
    browser: &mut Chromium,
    runtime: &Runtime,
    pipelines: &Api<Pipeline>,
    server: SocketAddr,
) {
    let promotions: Api<Promotion> = Api::namespaced(pipelines.clone().into_client(), "shop");
    runtime.block_on(create(pipelines, &promotions));
    println!("a rollout through {TARGETS} targets");
    let mut paints = Vec::new();
    for _ in 0..LOADS {
        browser.go(&format!("http://{server}/pipelines/shop/fleet"));
        browser.until("performance.getEntriesByName('first-contentful-paint').length > 0");
        let paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime";
        paints.push(browser.evaluate(paint).as_f64().unwrap());
    }
    let bytes = "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
        .filter((it) => !it.name.includes('/live')).reduce((sum, it) => sum + it.decodedBodySize, 0)";
    let bytes = browser.evaluate(bytes).as_u64().unwrap();
    println!("first load: {} kB unpacked", bytes / 1000);
    println!("first contentful paint: {}", spread(paints));
    let ready = browser.evaluate("document.querySelectorAll('.cells .ready').length");
    let ready = usize::try_from(ready.as_u64().unwrap()).unwrap();
    let mut took = Vec::new();
    for number in 1..=CHANGES {
        let wanted = ready + number;
        browser.evaluate(&format!(
            "window.shown = new Promise((done) => {{
               const look = () => document.querySelectorAll('.cells .ready').length >= {wanted}
                 && requestAnimationFrame(() => done(Date.now()));
               new MutationObserver(look).observe(document.querySelector('main'), {{childList: true, subtree: true}});
             }}); true"
        ));
        let began = jiff::Timestamp::now().as_millisecond();
        runtime.block_on(advance(pipelines, &promotions, wanted));
        let shown = browser.evaluate("window.shown").as_i64().unwrap();
        took.push((shown - began) as f64);
    }
    println!("change to screen: {}", spread(took));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

async fn create(pipelines: &Api<Pipeline>, promotions: &Api<Promotion>) {
    let strategy = json!({"pull-request": {
        "type": "github", "url": "https://forge.example/shop.git", "baseBranch": "main",
        "secretRef": {"name": "forge"},
    }});
    let rollout = json!({"waves": [{"percent": 5}, {"percent": 20}], "maxFailures": "5%"});
    let pipeline = json!({
        "metadata": {"name": "fleet"},
        "spec": {
            "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "fleet"},
            "environments": [
                {"name": "dev", "targets": [{"namespace": "dev"}]},
                {"name": "prod", "targets": [{"namespace": "prod", "clusterSelector": {}}]},
            ],
            "promotion": {"strategy": strategy, "rollout": rollout},
        },
    });
    let promotion = json!({
        "metadata": {"name": "fleet-prod", "labels": {"pipelines.weave.works/pipeline": "fleet"}},
        "spec": {
            "pipeline": "fleet", "environment": "prod", "revision": "6.2.0", "version": "6.2.0",
            "replaces": "6.1.0", "ordinal": 0, "rollout": rollout, "strategy": strategy,
        },
    });
    let parameters = PostParams::default();
    let pipeline = serde_json::from_value(pipeline).unwrap();
    pipelines.create(&parameters, &pipeline).await.unwrap();
    let promotion = serde_json::from_value(promotion).unwrap();
    promotions.create(&parameters, &promotion).await.unwrap();
    advance(pipelines, promotions, TARGETS / 2).await;
}

/// Stores what a controller says once this many targets are ready: the pipeline first, as it does.
async fn advance(pipelines: &Api<Pipeline>, promotions: &Api<Promotion>, ready: usize) {
    let targets: Vec<_> = (0..TARGETS)
        .map(|number| target(number, number < ready))
        .collect();
    let status = json!({"status": {"environments": {
        "dev": {"targets": [target(0, true)]},
        "prod": {
            "targets": targets,
            "promotion": {"name": "fleet-prod", "revision": "6.2.0", "phase": "Deploying"},
        },
    }}});
    let parameters = PatchParams::default();
    let patch = Patch::Merge(status);
    let patched = pipelines.patch_status("fleet", &parameters, &patch).await;
    patched.unwrap();
    let members: Vec<Value> = (0..TARGETS)
        .map(|number| {
            json!({
                "target": format!("edge-{number}/shop"), "wave": wave(number),
                "batch": (number < ready + 20).then_some(1), "ready": number < ready,
            })
        })
        .collect();
    let status = json!({"status": {
        "phase": "Deploying", "reason": "Deploying",
        "rollout": {
            "total": TARGETS, "targets": members,
            "waves": [{"openedAt": AT, "doneAt": AT}, {"openedAt": AT, "doneAt": AT}, {"openedAt": AT}],
            "batches": [{"number": 1, "startedAt": AT, "landedAt": jiff::Timestamp::now().to_string()}],
        },
    }});
    let patch = Patch::Merge(status);
    let patched = promotions
        .patch_status("fleet-prod", &parameters, &patch)
        .await;
    patched.unwrap();
}

fn wave(number: usize) -> usize {
    match number {
        0..50 => 0,
        50..250 => 1,
        _ => 2,
    }
}

fn target(number: usize, is_new: bool) -> Value {
    let revision = if is_new { "6.2.0" } else { "6.1.0" };
    json!({
        "clusterAppRef": {
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "fleet",
            "clusterRef": {"kind": "GitopsCluster", "name": format!("edge-{number}")},
        },
        "namespace": "shop", "ready": true, "revision": revision, "version": revision,
        "readySince": AT, "source": "Watch",
    })
}
