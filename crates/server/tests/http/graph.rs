//! A pipeline whose environments branch: its page, and what REST says about the order.

use serde_json::{Value, json};

use crate::{
    rest::{get, grant},
    session::{look, signed_in},
    world::World,
};

fn target(version: &str) -> Value {
    json!({
        "clusterAppRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app"},
        "namespace": "shop", "ready": true, "revision": version, "version": version,
        "readySince": "2026-11-01T10:00:00Z", "source": "Watch",
    })
}

/// `dev → {eu, us} → prod`; the regions have no revision in common.
async fn diamond() -> World {
    let world = World::new().await;
    let environment = |name: &str, after: Value| {
        let mut environment = json!({"name": name, "targets": [{"namespace": name}]});
        if !after.is_null() {
            environment["after"] = after;
        }
        environment
    };
    let environments = json!([
        environment("dev", Value::Null),
        environment("eu", json!(["dev"])),
        environment("us", json!(["dev"])),
        environment("prod", json!(["eu", "us"])),
    ]);
    world
        .edit(json!({"spec": {"environments": environments}}))
        .await;
    let versions = [
        ("dev", "5.0.0"),
        ("eu", "5.0.0"),
        ("us", "4.0.0"),
        ("prod", "3.0.0"),
    ];
    let statuses =
        versions.map(|(name, version)| (name.to_owned(), json!({"targets": [target(version)]})));
    let statuses: serde_json::Map<_, _> = statuses.into_iter().collect();
    world.edit_status(json!({"environments": statuses})).await;
    world
}

#[tokio::test(start_paused = true)]
async fn the_page_draws_branches_and_says_in_words_what_comes_after_what() {
    let world = diamond().await;
    let cookie = signed_in(&world).await;
    let page = look(&world, "/pipelines/default/app", &cookie).await;
    assert_eq!(page.code, 200, "{}", page.body);
    let picture = page.body.split(r#"id="picture""#).nth(1).unwrap();
    let columns: Vec<_> = picture.split(r#"class="depth""#).skip(1).take(3).collect();
    let [first, second, third] = columns.as_slice() else {
        panic!("three columns: {picture}");
    };
    assert!(
        first.contains(">dev<") && !first.contains("<path class"),
        "{first}"
    );
    assert!(
        second.contains(">eu<") && second.contains(">us<"),
        "{second}"
    );
    assert_eq!(second.matches("<path class").count(), 2, "{second}");
    assert_eq!(second.matches("after dev").count(), 2, "{second}");
    // Each line ends where it should: from the middle to a quarter and to three quarters.
    for line in [
        "M0 500 C500 500 500 250 1000 250",
        "M0 500 C500 500 500 750 1000 750",
    ] {
        assert!(second.contains(line), "{second}");
    }
    assert!(third.contains("after eu, us"), "{third}");
    assert!(
        third.contains("readiness of eu, us"),
        "the gate names both: {third}"
    );
    let hold = "no revision is verified in each of eu and us: eu has 5.0.0 and us has 4.0.0";
    assert!(page.body.contains(hold), "{}", page.body);
}

#[tokio::test(start_paused = true)]
async fn a_line_passes_the_columns_between_its_ends() {
    let world = diamond().await;
    let environments = json!([
        {"name": "dev", "targets": [{"namespace": "dev"}]},
        {"name": "eu", "after": ["dev"], "targets": [{"namespace": "eu"}]},
        {"name": "prod", "after": ["eu", "dev"], "targets": [{"namespace": "prod"}]},
    ]);
    world
        .edit(json!({"spec": {"environments": environments}}))
        .await;
    let cookie = signed_in(&world).await;
    let page = look(&world, "/pipelines/default/app", &cookie).await;
    let columns: Vec<_> = page.body.split(r#"class="depth""#).skip(1).collect();
    assert_eq!(columns.len(), 3, "{}", page.body);
    assert!(columns[1].contains(r#"<li class="passing idle""#));
    // From dev to the row below eu, and from there into prod.
    for (column, line) in [
        (1, "M0 500 C500 500 500 750 1000 750"),
        (2, "M0 750 C500 750 500 500 1000 500"),
    ] {
        assert!(columns[column].contains(line), "{}", columns[column]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_is_drawn_as_before() {
    let world = World::new().await;
    let cookie = signed_in(&world).await;
    let page = look(&world, "/pipelines/default/app", &cookie).await;
    assert!(page.body.contains(r#"class="flow""#), "{}", page.body);
    assert!(!page.body.contains(r#"class="depth""#), "{}", page.body);
}

#[tokio::test(start_paused = true)]
async fn rest_names_what_each_environment_comes_after() {
    let world = diamond().await;
    grant(&world, "vera", &["get", "list"], "pipelines").await;
    let answer = get(&world, "vera", "/api/v1/pipelines/default/app/environments").await;
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    let after = body["items"].as_array().unwrap().iter();
    let after: Vec<_> = after.map(|it| it["after"].clone()).collect();
    assert_eq!(json!(after), json!([[], ["dev"], ["dev"], ["eu", "us"]]));
}
