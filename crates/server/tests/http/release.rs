//! `/release`: CI proposes a revision.

use planner::RELEASE_REPORT;
use serde_json::json;

use crate::{
    loops::{Strategy, URL},
    world::{KEY, World, ask, sign, whole_call},
};

const PATH: &str = "/release/default/app";

async fn hooked() -> World {
    let world = World::new().await;
    world.demand_signatures().await;
    world
        .edit(json!({"spec": {"source": {"kind": "Hook"}}}))
        .await;
    world
}

/// RFC-0001, story 7: CI triggers the pipeline by a webhook. Here the part of the server.
#[tokio::test(start_paused = true)]
async fn story_7_a_signed_release_is_stored_and_enters_the_first_environment() {
    let world = hooked().await;
    world.promotes(Strategy::Opens);
    let answer = ask(
        &world.hooks,
        Ok(whole_call(PATH, r#"{"revision": "6.0.0"}"#, 0)),
    )
    .await;
    assert_eq!(answer.code, 201);
    assert_eq!(answer.headers["location"], URL);
    let report = &world.pipeline().await.status.unwrap().reports[RELEASE_REPORT];
    assert_eq!((report.revision.as_str(), report.signed), ("6.0.0", true));
    let promotion = &world.promotions().await[0];
    assert_eq!(promotion.spec.environment, "dev");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_release_is_refused() {
    let world = hooked().await;
    let good = r#"{"revision": "6.0.0"}"#;
    for (path, body, code) in [
        ("/release/default/other", good, 404),
        ("/release/default", good, 404),
        ("/release/default/app/dev", good, 404),
        (PATH, "", 400),
        (PATH, "{}", 400),
        (PATH, r#"{"revision": 6}"#, 400),
        (PATH, r#"{"revision": ""}"#, 422),
    ] {
        let answer = ask(&world.hooks, Ok(whole_call(path, body, 0))).await;
        assert_eq!(answer.code.as_u16(), code, "{path} {body}");
    }
    // As Flux signs, which anybody could send again.
    assert_eq!(
        world.post_signed(PATH, good, &sign(KEY, good)).await.code,
        401
    );
    assert_eq!(world.post(PATH, good).await.code, 401);
    let status = world.pipeline().await.status.unwrap_or_default();
    assert!(status.reports.is_empty());
    world.edit(json!({"spec": {"source": null}})).await;
    let answer = ask(&world.hooks, Ok(whole_call(PATH, good, 0))).await;
    assert_eq!(answer.code, 422);
}

#[tokio::test(start_paused = true)]
async fn an_older_release_does_not_replace_a_newer_one() {
    let world = hooked().await;
    for (revision, seconds_ago, code) in [("6.0.0", 10, 202), ("5.0.0", 60, 202)] {
        let body = json!({"revision": revision}).to_string();
        let answer = ask(&world.hooks, Ok(whole_call(PATH, &body, seconds_ago))).await;
        assert_eq!(answer.code.as_u16(), code);
    }
    let report = &world.pipeline().await.status.unwrap().reports[RELEASE_REPORT];
    assert_eq!(report.revision, "6.0.0");
}
