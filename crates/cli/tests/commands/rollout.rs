//! `sluice rollout`: what it shows of waves and targets, and what it requests.

use api::{Pipeline, Promotion};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::cluster::{CommandOutput, TestCluster};

fn rollout() -> Value {
    json!({
        "waves": [
            {"selector": {"matchLabels": {"ring": "canary"}}, "soak": "30m"},
            {"percent": 40, "maxConcurrent": 2},
        ],
        "maxFailures": 0,
    })
}

fn pipeline() -> Value {
    let mut pipeline = crate::cluster::pipeline();
    let targets = (1..=6).map(|number| {
        let cluster = json!({"kind": "GitopsCluster", "name": format!("edge-{number}")});
        json!({"namespace": "web", "clusterRef": cluster})
    });
    pipeline["spec"]["environments"][1]["targets"] = targets.collect();
    pipeline["spec"]["promotion"]["rollout"] = rollout();
    pipeline
}

fn target(number: usize, revision: &str) -> Value {
    json!({
        "clusterAppRef": {
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "web",
            "clusterRef": {"kind": "GitopsCluster", "name": format!("edge-{number}")},
        },
        "namespace": "web", "ready": true, "readySince": "2026-01-01T00:00:00Z",
        "revision": revision, "version": revision, "source": "Watch",
    })
}

/// The first wave is done; of the second, one target failed and one cannot be reached.
fn status() -> Value {
    let mut failed = target(2, "1.0.0");
    failed["ready"] = json!(false);
    failed["failed"] = json!("2.0.0");
    failed["error"] = json!("install retries exhausted");
    let mut lost = target(3, "1.0.0");
    lost["ready"] = json!(false);
    lost["problem"] = json!("Unreachable");
    lost["error"] = json!("connection refused");
    let waiting = (4..=6).map(|number| target(number, "1.0.0"));
    let targets = [target(1, "2.0.0"), failed, lost]
        .into_iter()
        .chain(waiting);
    let targets: Vec<Value> = targets.collect();
    let waves = json!([
        {"targets": 1, "ready": 1, "doneAt": "2026-01-01T01:00:00Z"},
        {"targets": 2, "failed": 1, "unreachable": 1},
        {"targets": 3},
    ]);
    let mut status = crate::cluster::status();
    status["environments"]["prod"] = json!({
        "targets": targets,
        "ran": [{"revision": "1.0.0"}],
        "promotion": {"name": "web-prod-1", "revision": "2.0.0", "phase": "Deploying"},
        "rollout": {"promotion": "web-prod-1", "revision": "2.0.0", "waves": waves},
    });
    status
}

fn promotion() -> Value {
    json!({
        "metadata": {"name": "web-prod-1", "labels": {"pipelines.weave.works/pipeline": "web"}},
        "spec": {
            "pipeline": "web", "environment": "prod", "revision": "2.0.0", "version": "2.0.0",
            "ordinal": 0, "rollout": rollout(),
            "strategy": crate::cluster::pipeline()["spec"]["promotion"]["strategy"],
        },
    })
}

fn promotion_status() -> Value {
    let at = "2026-01-01T00:00:00Z";
    let target = |number: usize, wave: i64, batch: Value| {
        let name = format!("edge-{number}/web");
        json!({
            "target": name, "wave": wave, "batch": batch, "ready": number == 1, "failed": number == 2,
        })
    };
    let mut targets = vec![
        target(1, 0, json!(1)),
        target(2, 1, json!(2)),
        target(3, 1, json!(2)),
    ];
    targets.extend((4..=6).map(|number| target(number, 2, Value::Null)));
    json!({
        "phase": "Deploying",
        "reason": "RolloutStopped",
        "message": "the rollout is stopped: edge-2/web failed; resolved by a person",
        "rollout": {
            "total": 6,
            "waves": [{"openedAt": at, "doneAt": at}, {"openedAt": at}, {}],
            "targets": targets,
            "batches": [
                {"number": 1, "startedAt": at, "landedAt": at},
                {"number": 2, "startedAt": at, "landedAt": at, "url": "https://forge.example.com/shop/pulls/8"},
            ],
            "failed": ["edge-2/web"],
            "stopped": {"at": at, "message": "edge-2/web failed"},
        },
    })
}

/// A cluster where a rollout into prod is stopped.
async fn stopped() -> TestCluster {
    let cluster = TestCluster::empty().await;
    let pipelines: Api<Pipeline> = Api::default_namespaced(cluster.client.clone());
    let object = serde_json::from_value(pipeline()).unwrap();
    let parameters = PostParams::default();
    pipelines.create(&parameters, &object).await.unwrap();
    cluster.set_status(status()).await;
    let promotions: Api<Promotion> = Api::default_namespaced(cluster.client.clone());
    let object = serde_json::from_value(promotion()).unwrap();
    promotions.create(&parameters, &object).await.unwrap();
    cluster.set_promotion_status(promotion_status()).await;
    cluster
}

#[tokio::test]
async fn waves_and_targets_are_shown_with_the_way_on() {
    let cluster = stopped().await;
    let output = cluster.prints(&["rollout", "web", "prod"]).await;
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], "default/web  2.0.0 into prod  stopped");
    for (line, start, end) in [
        (2, "wave 1 of 3  ●  ", " ago, takes ring=canary"),
        (
            3,
            "wave 2 of 3  ✖▲  ",
            "0 of 2 ready, 1 failed, 1 unreachable, takes 40 % of the targets",
        ),
        (4, "wave 3 of 3  ○○○  ", "0 of 3 ready, takes the rest"),
    ] {
        assert!(lines[line].starts_with(start), "{output}");
        assert!(lines[line].ends_with(end), "{output}");
    }
    let expected = "
✖ edge-2/web  failed, runs 1.0.0: install retries exhausted
▲ edge-3/web  unreachable, runs 1.0.0: connection refused

waits: the rollout is stopped: edge-2/web failed; resolved by a person [RolloutStopped]
try: sluice rollout web prod --resume -n default
try: sluice retry web prod -n default
try: sluice rollout web prod --skip edge-2/web -n default";
    assert_eq!(lines[5..].join("\n"), expected);
}

#[tokio::test]
async fn programs_get_the_same_as_json_and_yaml() {
    let cluster = stopped().await;
    let output = cluster
        .prints(&["rollout", "web", "prod", "-o", "json"])
        .await;
    let document: Value = serde_json::from_str(&output).unwrap();
    let rollout = &document["rollout"];
    assert_eq!(rollout["state"], "stopped");
    assert_eq!(rollout["waves"][0]["state"], "done");
    assert_eq!(
        rollout["waves"][1]["counts"],
        json!({"failed": 1, "unreachable": 1})
    );
    let failed = json!({
        "target": "edge-2/web", "state": "failed", "batch": 2, "runs": "1.0.0",
        "url": "https://forge.example.com/shop/pulls/8", "message": "install retries exhausted",
    });
    assert_eq!(rollout["waves"][1]["targets"][0], failed);
    assert_eq!(rollout["waitsFor"]["reason"], "RolloutStopped");
    let yaml = cluster
        .prints(&["rollout", "web", "prod", "-o", "yaml"])
        .await;
    assert!(yaml.contains("state: stopped"), "{yaml}");
}

#[tokio::test]
async fn the_status_has_a_bar_for_each_wave() {
    let cluster = stopped().await;
    let output = cluster.prints(&["status", "web"]).await;
    for line in [
        "    wave 1 of 3  ●                         1 of 1 ready, done",
        "    wave 2 of 3  ✖▲                        0 of 2 ready, 1 failed, 1 unreachable",
        "    wave 3 of 3  ○○○                       0 of 3 ready",
    ] {
        assert!(output.lines().any(|it| it == line), "{line}\n{output}");
    }
    let document = cluster.prints(&["status", "web", "-o", "json"]).await;
    let document: Value = serde_json::from_str(&document).unwrap();
    let waves = &document["environments"][1]["rollout"]["waves"];
    assert_eq!(waves[1]["failed"], 1, "{document}");
    // What has ended is not news.
    let ended = json!({"finishedAt": "2026-01-02T00:00:00Z"});
    cluster
        .set_status(json!({"environments": {"prod": {"rollout": ended}}}))
        .await;
    let output = cluster.prints(&["status", "web"]).await;
    assert!(!output.contains("wave 1"), "{output}");
}

#[tokio::test]
async fn where_nothing_goes_in_waves_the_command_says_so() {
    let cluster = TestCluster::new().await;
    let output = cluster.run(&["rollout", "web", "prod"]).await;
    assert_eq!(output.code, 1);
    assert_eq!(
        output.err,
        "sluice: promotions into prod do not go in waves: they have no promotion.rollout\n"
    );
    let pipelines: Api<Pipeline> = Api::default_namespaced(cluster.client.clone());
    let patch = Patch::Merge(json!({"spec": {"promotion": {"rollout": rollout()}}}));
    let parameters = PatchParams::default();
    pipelines.patch("web", &parameters, &patch).await.unwrap();
    assert_eq!(
        cluster.prints(&["rollout", "web", "prod"]).await,
        "no rollout into prod of web yet; the next promotion goes in 2 waves, then the rest\n"
    );
}

/// Runs a command while the planner answers the request that it writes for prod.
async fn answered(cluster: &TestCluster, arguments: &[&str]) -> CommandOutput {
    let mut command = cluster.command(arguments);
    let (output, ()) = tokio::join!(command.output(), async {
        loop {
            let pipeline = cluster.pipeline().await;
            let mut annotations = pipeline.metadata.annotations.iter().flatten();
            if annotations.any(|(name, _)| name == api::names::REQUEST_ANNOTATION) {
                let model = pipeline.status.clone().unwrap();
                let promotions = [cluster.promotion().await];
                let now = jiff::Timestamp::now();
                let plan = planner::plan(&pipeline, &model, &promotions, now);
                let says = &plan.environments["prod"];
                let prod = json!({
                    "lastRequest": says.last_request, "rolloutOrders": says.rollout_orders,
                });
                cluster
                    .set_status(json!({"environments": {"prod": prod}}))
                    .await;
                return;
            }
            tokio::task::yield_now().await;
        }
    });
    output.unwrap().into()
}

async fn orders(cluster: &TestCluster) -> api::pipeline::RolloutOrders {
    let status = cluster.pipeline().await.status.unwrap();
    status.environments["prod"].rollout_orders.clone().unwrap()
}

#[tokio::test]
async fn a_rollout_is_resumed_stopped_and_retried() {
    let cluster = stopped().await;
    let output = answered(&cluster, &["rollout", "web", "prod", "--resume"]).await;
    assert_eq!(
        output.out, "requested to resume the rollout into prod: resumed the rollout of 2.0.0\n",
        "{}",
        output.err
    );
    assert!(orders(&cluster).await.resumed_at.is_some());
    let cluster = stopped().await;
    let stop = [
        "rollout",
        "web",
        "prod",
        "--stop",
        "--reason",
        "errors \"in\" eu",
    ];
    let output = answered(&cluster, &stop).await;
    assert_eq!(
        output.out, "requested to stop the rollout into prod: stopped the rollout of 2.0.0\n",
        "{}",
        output.err
    );
    let stop = orders(&cluster).await.stopped.unwrap();
    assert_eq!(
        (stop.by.as_deref(), stop.message.as_str()),
        (Some("admin"), "errors 'in' eu")
    );
    let cluster = stopped().await;
    let output = answered(&cluster, &["retry", "web", "prod"]).await;
    assert_eq!(
        output.out, "requested to retry in prod: the rollout of 2.0.0 is retried\n",
        "{}",
        output.err
    );
}

#[tokio::test]
async fn a_target_is_skipped_by_its_name_or_its_cluster() {
    for typed in ["edge-3/web", "edge-3"] {
        let cluster = stopped().await;
        let output = answered(&cluster, &["rollout", "web", "prod", "--skip", typed]).await;
        assert_eq!(output.code, 0, "{}", output.err);
        let expected =
            format!("requested to skip {typed} in prod: the rollout goes on without edge-3/web\n");
        assert_eq!(output.out, expected);
        assert_eq!(orders(&cluster).await.skipped, ["edge-3/web"]);
    }
    let cluster = stopped().await;
    let output = answered(&cluster, &["rollout", "web", "prod", "--skip", "edge-1"]).await;
    assert_eq!((output.code, output.out.as_str()), (1, ""));
    assert!(
        output
            .err
            .contains("edge-1/web is ready, so nothing waits for it"),
        "{}",
        output.err
    );
}

#[tokio::test]
async fn typing_mistakes_are_refused_before_anything_is_written() {
    let cluster = stopped().await;
    for (typed, code, expected) in [
        (
            &["--skip", "egde-3"][..],
            1,
            "the rollout has no target egde-3: did you mean edge-3?",
        ),
        (
            &["--skip", "edge-3/wbe"],
            1,
            "the rollout has no target edge-3/wbe: did you mean edge-3/web?",
        ),
        (
            &["--skip", "mars"],
            1,
            "the rollout has no target mars: `sluice rollout` lists those that are not ready",
        ),
        (&["--stop", "--resume"], 2, "cannot be used with"),
        (&["--stop", "-o", "json"], 2, "cannot be used with"),
        (
            &["--note", "why"],
            2,
            "--note needs --stop, --resume or --skip",
        ),
    ] {
        let arguments = [&["rollout", "web", "prod"], typed].concat();
        let output = cluster.run(&arguments).await;
        assert_eq!(output.code, code, "{typed:?}: {}", output.err);
        assert!(output.err.contains(expected), "{typed:?}: {}", output.err);
    }
    let output = cluster.run(&["rollout", "web", "prd"]).await;
    assert!(output.err.contains("did you mean prod?"), "{}", output.err);
    let annotations = cluster.pipeline().await.metadata.annotations;
    assert!(annotations.unwrap_or_default().is_empty());
}

#[tokio::test]
async fn targets_that_can_be_skipped_are_completed() {
    let cluster = stopped().await;
    let words = [
        "__complete",
        "--",
        "rollout",
        "web",
        "prod",
        "--skip",
        "edge-",
    ];
    let output = cluster.prints(&words).await;
    let found: Vec<&str> = output.lines().collect();
    let expected = [
        "edge-2/web",
        "edge-3/web",
        "edge-4/web",
        "edge-5/web",
        "edge-6/web",
    ];
    assert_eq!(found, expected);
}
