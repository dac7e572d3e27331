//! Bodies that are too large, too deep, or full of odd text and numbers.

use http::Method;
use serde_json::json;

use crate::bad_input::{JSON, UNREADABLE, create, create_thing, unrecognized};
use crate::support::{Context, anything, cases, config_map};

cases!("limits":
    body_over_the_limit, body_at_the_limit, deep_lists, deep_objects, deep_yaml, deep_patches,
    nesting_below_the_limit, invalid_utf8, lone_surrogates, duplicate_keys,
    duplicate_keys_strict, huge_numbers, numbers_beyond_floats, copies_are_bounded,
    copies_are_bounded_in_nesting, objects_are_bounded,
);

/// A ConfigMap whose JSON has exactly this many bytes.
fn sized_config_map(bytes: usize) -> String {
    let empty = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": ""}}).to_string();
    empty.replace(
        "\"k\":\"\"",
        &format!("\"k\":\"{}\"", "x".repeat(bytes - empty.len())),
    )
}

const LIMIT: usize = 3 * 1024 * 1024;

async fn body_over_the_limit(api: Context) {
    let too_large = sized_config_map(LIMIT + 1);
    let message = "Request entity too large: limit is 3145728";
    let path = api.core("configmaps/a");
    create(&api, JSON, too_large.clone())
        .await
        .refused(413, "RequestEntityTooLarge", message);
    for (method, content_type) in [
        (Method::PUT, JSON),
        (Method::PATCH, "application/merge-patch+json"),
        (Method::DELETE, JSON),
    ] {
        let answer = api
            .send(method, &path, content_type, too_large.clone())
            .await;
        answer.refused(413, "RequestEntityTooLarge", message);
    }
    api.get(&path).await.expect_code(404);
}

async fn body_at_the_limit(api: Context) {
    let answer = create(&api, JSON, sized_config_map(LIMIT)).await;
    let message = "ConfigMap \"a\" is invalid: []: Too long: may not be more than 1048576 bytes";
    let status = answer.refused(422, "Invalid", message);
    assert_eq!(
        status["details"]["causes"][0]["reason"],
        "FieldValueTooLong"
    );
    create(&api, JSON, sized_config_map(1_000_000))
        .await
        .expect_code(201);
}

/// A Thing whose spec is nested this deep, as text.
fn nested_thing(api: &Context, levels: usize, open: &str, close: &str) -> String {
    format!(
        "{{\"apiVersion\":\"{}/v1\",\"kind\":\"Thing\",\"metadata\":{{\"name\":\"deep\"}},\"spec\":{{\"x\":{}1{}}}}}",
        api.group,
        open.repeat(levels),
        close.repeat(levels)
    )
}

async fn deep_lists(api: Context) {
    api.define_things(anything()).await;
    for levels in [10_001, 200_000] {
        let answer = create_thing(&api, JSON, nested_thing(&api, levels, "[", "]")).await;
        unrecognized(answer, "Thing", UNREADABLE);
    }
}

async fn deep_objects(api: Context) {
    api.define_things(anything()).await;
    let answer = create_thing(&api, JSON, nested_thing(&api, 10_001, "{\"a\":", "}")).await;
    unrecognized(answer, "Thing", UNREADABLE);
}

async fn deep_yaml(api: Context) {
    api.define_things(anything()).await;
    let answer = create_thing(
        &api,
        "application/yaml",
        nested_thing(&api, 100_000, "[", "]"),
    )
    .await;
    unrecognized(answer, "Thing", "yaml: ");
}

async fn deep_patches(api: Context) {
    api.define_things(anything()).await;
    api.create_thing("a", json!({})).await;
    let path = api.custom("things/a");
    let merge = format!(
        "{{\"spec\":{}1{}}}",
        "{\"a\":".repeat(10_001),
        "}".repeat(10_001)
    );
    let json = format!(
        "[{{\"op\":\"add\",\"path\":\"/spec\",\"value\":{}1{}}}]",
        "[".repeat(10_001),
        "]".repeat(10_001)
    );
    for (content_type, body) in [
        ("application/merge-patch+json", merge),
        ("application/json-patch+json", json),
    ] {
        let status = api
            .send(Method::PATCH, &path, content_type, body)
            .await
            .refused_somehow(400, "BadRequest");
        let message = status["message"].as_str().unwrap();
        assert!(message.starts_with("error decoding patch: "), "{message}");
    }
}

async fn nesting_below_the_limit(api: Context) {
    api.define_things(anything()).await;
    let created = create_thing(&api, JSON, nested_thing(&api, 100, "[", "]"))
        .await
        .expect_code(201);
    assert!(created["spec"]["x"][0][0][0].is_array());
}

async fn invalid_utf8(api: Context) {
    let body = config_map("a").to_string().replace('}', "");
    let mut body = body
        .replacen(
            "\"metadata\":{",
            "\"data\":{\"k\":\"??\"},\"metadata\":{",
            1,
        )
        .into_bytes();
    body.extend_from_slice(b"}}");
    let at = body.windows(2).position(|pair| pair == b"??").unwrap();
    body[at..at + 2].copy_from_slice(&[0xff, 0xfe]);
    let created = create(&api, JSON, body).await.expect_code(201);
    assert_eq!(created["data"]["k"], "\u{fffd}\u{fffd}");
}

async fn lone_surrogates(api: Context) {
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"\ud800","z":"\u0000"}}"#;
    let created = create(&api, JSON, body).await.expect_code(201);
    assert_eq!(created["data"], json!({"k": "\u{fffd}", "z": "\u{0}"}));
}

const DUPLICATE: &str =
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1","k":"2"}}"#;

async fn duplicate_keys(api: Context) {
    let created = create(&api, JSON, DUPLICATE).await.expect_code(201);
    assert_eq!(created["data"], json!({"k": "2"}));
}

async fn duplicate_keys_strict(api: Context) {
    let path = api.core("configmaps?fieldValidation=Strict");
    let answer = api.send(Method::POST, &path, JSON, DUPLICATE).await;
    let message = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: duplicate field \"data.k\"";
    answer.refused(400, "BadRequest", message);
}

async fn huge_numbers(api: Context) {
    api.define_things(anything()).await;
    let spec =
        json!({"max": i64::MAX, "min": i64::MIN, "fraction": 0.1, "whole": 1.0, "exponent": 1e3});
    let created = api.create_thing("a", json!({"spec": spec})).await;
    assert_eq!(created["spec"]["max"], i64::MAX);
    assert_eq!(created["spec"]["min"], i64::MIN);
    assert_eq!(created["spec"]["fraction"], 0.1);
    let text = nested_thing(&api, 0, "", "").replace(":1}", ":123456789012345678901234567890}");
    let created = create_thing(&api, JSON, text).await.expect_code(201);
    assert_eq!(
        created["spec"]["x"].as_f64(),
        Some(1.234_567_890_123_456_8e29)
    );
}

async fn numbers_beyond_floats(api: Context) {
    api.define_things(anything()).await;
    let text = nested_thing(&api, 0, "", "").replace(":1}", ":1e400}");
    let status = create_thing(&api, JSON, text)
        .await
        .refused_somehow(400, "BadRequest");
    assert!(
        status["message"].as_str().unwrap().contains("1e400"),
        "{status}"
    );
}

/// A patch that copies the whole spec into itself, this often.
fn doubling(times: usize) -> serde_json::Value {
    let copy = |index| json!({"op": "copy", "from": "/spec", "path": format!("/spec/x{index}")});
    (0..times).map(copy).collect()
}

async fn copies_are_bounded(api: Context) {
    api.define_things(anything()).await;
    let spec = json!({"text": "x".repeat(1000)});
    let created = api.create_thing("a", json!({"spec": spec})).await;
    let path = api.custom("things/a");
    let message = "the server rejected our request due to an error in our request";
    for times in [13, 40] {
        let answer = api.json_patch(&path, &doubling(times)).await;
        answer.refused(422, "Invalid", message);
    }
    assert_eq!(api.get(&path).await.expect_code(200), created);
    let patched = api.json_patch(&path, &doubling(5)).await.expect_code(200);
    assert_eq!(patched["spec"]["x4"]["x3"]["text"], spec["text"]);
}

/// Nesting beyond what a body may have is refused, and the server goes on.
async fn copies_are_bounded_in_nesting(api: Context) {
    api.define_things(anything()).await;
    let created = api.create_thing("a", json!({"spec": {}})).await;
    let path = api.custom("things/a");
    // Each copies the whole spec to where it is deepest.
    let deepen = |times: u32| {
        let path = format!("/spec{}", "/a".repeat(2_usize.pow(times)));
        json!({"op": "copy", "from": "/spec", "path": path})
    };
    let deeper: serde_json::Value = (0..16).map(deepen).collect();
    let answer = api.json_patch(&path, &deeper).await;
    assert!([400, 422].contains(&answer.code), "{answer}");
    assert_eq!(api.get(&path).await.expect_code(200), created);
}

/// No row of requests makes an object larger than one may be.
async fn objects_are_bounded(api: Context) {
    api.define_things(anything()).await;
    api.create_thing("a", json!({"spec": {}})).await;
    let path = api.custom("things/a");
    let grow = |index| json!({"spec": {format!("x{index}"): "x".repeat(1_000_000)}});
    api.merge(&path, &grow(0)).await.expect_code(200);
    let mut codes = Vec::new();
    for index in 1..4 {
        codes.push(api.merge(&path, &grow(index)).await.code);
    }
    assert!(codes.last().is_some_and(|code| *code >= 400), "{codes:?}");
    let size = api.get(&path).await.text.len();
    assert!(size <= LIMIT, "{size}");
}
