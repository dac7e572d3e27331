//! Rollouts in waves, by REST and on the page of the pipeline.

use serde_json::{Value, json};

use crate::{
    loops::Strategy,
    rest::{get, grant, post},
    session::{look, signed_in, submit},
    world::{Answer, World},
};

const PROD: &str = "/api/v1/pipelines/default/app/environments/prod";

fn report(revision: &str) -> Value {
    json!({"revision": revision, "at": "2026-02-08T12:34:13Z", "severity": "info", "signed": true})
}

/// prod has four targets, which get a revision in waves of one, two and one.
async fn fleet() -> World {
    let world = World::new().await;
    let targets = (1..=4).map(|number| json!({"namespace": format!("prod-{number}")}));
    let targets: Vec<Value> = targets.collect();
    let environments = json!([
        {"name": "dev", "targets": [{"namespace": "app-dev"}]},
        {"name": "prod", "targets": targets},
    ]);
    let rollout = json!({"waves": [{"percent": 25}, {"percent": 50, "maxConcurrent": 1}]});
    world
        .edit(json!({"spec": {"environments": environments, "promotion": {"rollout": rollout}}}))
        .await;
    grant(&world, "ann", &["get", "promote"], "pipelines").await;
    grant(&world, "eve", &["get"], "pipelines").await;
    world
}

/// The first target has been started with 5.0.0.
async fn rolling_out() -> World {
    let world = fleet().await;
    world.promotes(Strategy::Delivers);
    let at = |number: usize| (format!("prod/-/prod-{number}"), report("4.0.0"));
    let mut reports: serde_json::Map<_, _> = (1..=4).map(at).collect();
    reports.insert("dev/-/app-dev".to_owned(), report("5.0.0"));
    world.edit_status(json!({"reports": reports})).await;
    world.settle().await;
    world
}

async fn act(world: &World, user: &str, verb: &str, body: Value) -> Answer {
    post(world, user, &format!("{PROD}/{verb}"), body).await
}

async fn shown(world: &World) -> Value {
    world.settle().await;
    let answer = get(world, "eve", &format!("{PROD}/rollout")).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

/// The only target that is in flight.
fn in_flight(rollout: &Value) -> String {
    let waves = rollout["waves"].as_array().unwrap().iter();
    let targets = waves.flat_map(|wave| wave["targets"].as_array().unwrap());
    let targets: Vec<_> = targets.filter(|it| it["state"] == "in-flight").collect();
    assert_eq!(targets.len(), 1, "{rollout}");
    targets[0]["target"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_rollout_is_shown_with_its_waves_and_targets() {
    let world = fleet().await;
    let none = get(&world, "eve", &format!("{PROD}/rollout")).await;
    assert_eq!(none.code, 404, "{}", none.body);
    assert!(none.body.contains("a rollout into prod of default/app"));
    let world = rolling_out().await;
    let rollout = shown(&world).await;
    assert_eq!(rollout["state"], "in progress", "{rollout}");
    assert_eq!(rollout["revision"], "5.0.0");
    let counts: Vec<_> = (0..3)
        .map(|wave| &rollout["waves"][wave]["counts"])
        .collect();
    let expected = [
        json!({"in-flight": 1}),
        json!({"waiting": 2}),
        json!({"waiting": 1}),
    ];
    assert_eq!(counts, expected.iter().collect::<Vec<_>>());
    assert_eq!(rollout["waves"][0]["takes"], "25 % of the targets");
    let refused = get(&world, "nobody", &format!("{PROD}/rollout")).await;
    assert_eq!(refused.code, 401);
}

#[tokio::test(start_paused = true)]
async fn a_rollout_is_stopped_and_resumed_by_those_who_may_promote() {
    let world = rolling_out().await;
    let early = act(&world, "ann", "resume-rollout", json!({})).await;
    assert_eq!(early.code, 422, "{}", early.body);
    assert!(early.body.contains("the rollout of 5.0.0 is not stopped"));
    for verb in ["stop-rollout", "resume-rollout", "skip-target"] {
        let refused = act(&world, "eve", verb, json!({"target": "-/prod-1"})).await;
        assert_eq!(refused.code, 403, "{verb}: {}", refused.body);
    }
    let body = json!({"note": "errors in the first target"});
    let answer = act(&world, "ann", "stop-rollout", body).await;
    assert_eq!(answer.code, 202, "{}", answer.body);
    assert!(answer.body.contains("stopped the rollout of 5.0.0"));
    let rollout = shown(&world).await;
    assert_eq!(rollout["state"], "stopped");
    assert_eq!(rollout["stopped"]["by"], "ann");
    assert_eq!(rollout["stopped"]["message"], "errors in the first target");
    assert_eq!(rollout["waitsFor"]["reason"], "RolloutStopped");
    // What was started goes on, and nothing follows it.
    let first = in_flight(&rollout).replace("-/", "prod/-/");
    world
        .edit_status(json!({"reports": {first: report("5.0.0")}}))
        .await;
    let rollout = shown(&world).await;
    assert_eq!(rollout["waves"][0]["counts"], json!({"ready": 1}));
    assert_eq!(rollout["waves"][1]["counts"], json!({"waiting": 2}));
    let answer = act(&world, "ann", "resume-rollout", json!({})).await;
    assert_eq!(answer.code, 202, "{}", answer.body);
    assert!(answer.body.contains("resumed the rollout of 5.0.0"));
    let rollout = shown(&world).await;
    assert_eq!(rollout["state"], "in progress");
    assert_eq!(
        rollout["waves"][1]["counts"],
        json!({"in-flight": 1, "waiting": 1})
    );
}

#[tokio::test(start_paused = true)]
async fn a_rollout_goes_on_without_a_target_that_is_skipped() {
    let world = rolling_out().await;
    for (body, because) in [
        (json!({}), "`target` is required"),
        (
            json!({"target": "mars/prod"}),
            "the rollout has no target mars/prod",
        ),
        (json!({"target": "x".repeat(513)}), "at most 512 characters"),
    ] {
        let refused = act(&world, "ann", "skip-target", body).await;
        assert_eq!(refused.code, 422, "{}", refused.body);
        assert!(refused.body.contains(because), "{}", refused.body);
    }
    let target = in_flight(&shown(&world).await);
    let answer = act(&world, "ann", "skip-target", json!({"target": target})).await;
    assert_eq!(answer.code, 202, "{}", answer.body);
    assert!(answer.body.contains("the rollout goes on without"));
    let rollout = shown(&world).await;
    assert_eq!(rollout["waves"][0]["counts"], json!({"skipped": 1}));
    assert_eq!(rollout["waves"][0]["state"], "done");
    assert_ne!(in_flight(&rollout), target, "the next wave has begun");
}

#[tokio::test(start_paused = true)]
async fn without_a_rollout_there_is_nothing_to_stop() {
    let world = fleet().await;
    world.promotes(Strategy::Delivers);
    let refused = act(&world, "ann", "stop-rollout", json!({})).await;
    assert_eq!(refused.code, 422, "{}", refused.body);
    assert!(
        refused.body.contains("no rollout into prod is in progress"),
        "{}",
        refused.body
    );
}

#[tokio::test(start_paused = true)]
async fn the_page_has_the_map_and_the_forms() {
    let world = rolling_out().await;
    let cookie = signed_in(&world).await;
    let page = look(&world, "/pipelines/default/app", &cookie).await.body;
    for part in [
        "id=\"rollout-1\"",
        "Wave 1 of 3",
        "class=\"map-cell in-flight\"",
        "1 in flight",
        "3 waiting",
        "Stop the rollout",
        "Skip the target",
        "Wave 2 of 3: 0 of 2 ready",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("Resume the rollout"), "it is not stopped");
    let csrf = page.split("name=\"csrf\" value=\"").nth(1).unwrap();
    let csrf = csrf.split('"').next().unwrap();
    let form = format!("csrf={csrf}&verb=stop-rollout&environment=prod&note=too+slow");
    let answer = submit(&world, "/pipelines/default/app/act", &cookie, &form).await;
    assert_eq!(answer.code, 303, "{}", answer.body);
    world.settle().await;
    let page = look(&world, "/pipelines/default/app", &cookie).await.body;
    for part in ["Stopped by olivia", ": too slow", "Resume the rollout"] {
        assert!(page.contains(part), "{part}: {page}");
    }
}
