//! Requests nobody should send: each is refused like the real server refuses it, and changes nothing.

use http::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Context, anything, cases, config_map};

cases!("bad_input":
    malformed_json, malformed_json_of_custom, malformed_yaml, yaml_is_accepted, yaml_is_yaml_1_1,
    empty_body, not_an_object, null_and_empty_objects, wrong_types_of_kind, wrong_types_of_metadata,
    wrong_time, trailing_text, unknown_content_types, no_content_type, charset_is_accepted,
    body_over_the_limit, body_at_the_limit, deep_lists, deep_objects, deep_yaml, deep_patches,
    nesting_below_the_limit, invalid_utf8, lone_surrogates, duplicate_keys, duplicate_keys_strict,
    huge_numbers, numbers_beyond_floats, names_in_paths, dots_in_paths, slashes_in_paths,
    malformed_percent_encoding, methods_on_collections, methods_on_objects,
    malformed_delete_options, unknown_field_validation, too_long_field_manager, unknown_accept,
    wrong_list_kind, refused_requests_change_nothing,
);

const JSON: &str = "application/json";
const UNRECOGNIZED: &str = "the object provided is unrecognized (must be of type";

async fn create(api: &Context, content_type: &str, body: impl Into<Vec<u8>>) -> Answer {
    api.send(Method::POST, &api.core("configmaps"), content_type, body)
        .await
}

/// Creates a Thing from text.
async fn create_thing(api: &Context, content_type: &str, body: impl Into<Vec<u8>>) -> Answer {
    api.send(Method::POST, &api.custom("things"), content_type, body)
        .await
}

#[track_caller]
fn unrecognized(answer: Answer, kind: &str, message: &str) {
    let status = answer.refused_somehow(400, "BadRequest");
    let expected = format!("{UNRECOGNIZED} {kind}): {message}");
    let found = status["message"].as_str().unwrap();
    assert!(
        found.starts_with(&expected),
        "{found}\nshould start with\n{expected}"
    );
}

async fn malformed_json(api: Context) {
    for body in [
        "{bad",
        "{\"apiVersion\":\"v1\"",
        "{\"a\":}",
        "'x'",
        "{\"a\":tru}",
    ] {
        unrecognized(
            create(&api, JSON, body).await,
            "ConfigMap",
            "couldn't get version/kind; json parse error: ",
        );
    }
}

async fn malformed_json_of_custom(api: Context) {
    api.define_things(anything()).await;
    for body in ["{bad", "{\"kind\":"] {
        unrecognized(
            create_thing(&api, JSON, body).await,
            "Thing",
            "couldn't get version/kind; json parse error: ",
        );
    }
}

async fn malformed_yaml(api: Context) {
    for body in ["a: [1\nb", "apiVersion: {a: b", "\tx: 1"] {
        unrecognized(
            create(&api, "application/yaml", body).await,
            "ConfigMap",
            "yaml: ",
        );
    }
    let answer = create(&api, "application/yaml", "- a\n- b\n").await;
    unrecognized(
        answer,
        "ConfigMap",
        "couldn't get version/kind; json parse error: ",
    );
}

async fn yaml_is_accepted(api: Context) {
    let body =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: |\n    two\n    lines\n";
    let created = create(&api, "application/yaml", body)
        .await
        .expect_code(201);
    assert_eq!(created["data"], json!({"k": "two\nlines\n"}));
}

async fn yaml_is_yaml_1_1(api: Context) {
    api.define_things(anything()).await;
    let body = format!(
        "apiVersion: {}/v1\nkind: Thing\nmetadata: {{name: a}}\nspec: {{flag: yes, off: 'yes', octal: 0644, text: 1.0.0}}\n",
        api.group
    );
    let created = create_thing(&api, "application/yaml", body)
        .await
        .expect_code(201);
    assert_eq!(created["spec"]["flag"], true);
    assert_eq!(created["spec"]["octal"], 420);
    assert_eq!(created["spec"]["text"], "1.0.0");
}

async fn empty_body(api: Context) {
    for body in ["", " "] {
        let message = "couldn't get version/kind; json parse error: unexpected end of JSON input";
        unrecognized(create(&api, JSON, body).await, "ConfigMap", message);
    }
}

async fn not_an_object(api: Context) {
    for (body, kind) in [("[]", "array"), ("\"x\"", "string"), ("5", "number")] {
        let message = format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {kind} into"
        );
        unrecognized(create(&api, JSON, body).await, "ConfigMap", &message);
    }
}

async fn null_and_empty_objects(api: Context) {
    api.define_things(anything()).await;
    for body in ["null", "{}"] {
        let status = create(&api, JSON, body)
            .await
            .refused_somehow(422, "Invalid");
        assert_eq!(status["details"]["causes"][0]["field"], "metadata.name");
        unrecognized(
            create_thing(&api, JSON, body).await,
            "Thing",
            "Object 'Kind' is missing in ",
        );
    }
}

async fn wrong_types_of_kind(api: Context) {
    for (body, field) in [
        (json!({"apiVersion": 5, "kind": "ConfigMap"}), "apiVersion"),
        (json!({"apiVersion": "v1", "kind": 5}), "kind"),
    ] {
        let message = format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .{field} of type string"
        );
        unrecognized(
            create(&api, JSON, body.to_string()).await,
            "ConfigMap",
            &message,
        );
    }
}

async fn wrong_types_of_metadata(api: Context) {
    api.define_things(anything()).await;
    let bodies = [
        json!({"metadata": "x"}),
        json!({"metadata": []}),
        json!({"metadata": {"name": 5}}),
        json!({"metadata": {"labels": {"a": 1}}}),
        json!({"metadata": {"labels": []}}),
        json!({"metadata": {"finalizers": "x"}}),
        json!({"metadata": {"ownerReferences": {}}}),
    ];
    for body in bodies {
        let mut config = config_map("a");
        crate::support::overlay(&mut config, &body);
        let thing = api.thing("a", body);
        for (answer, kind) in [
            (create(&api, JSON, config.to_string()).await, "ConfigMap"),
            (create_thing(&api, JSON, thing.to_string()).await, "Thing"),
        ] {
            let status = answer.refused_somehow(400, "BadRequest");
            let expected = format!(
                "{kind} in version \"v1\" cannot be handled as a {kind}: json: cannot unmarshal "
            );
            assert!(
                status["message"].as_str().unwrap().starts_with(&expected),
                "{status}"
            );
        }
    }
}

async fn wrong_time(api: Context) {
    let mut body = config_map("a");
    body["metadata"]["creationTimestamp"] = json!("nonsense");
    let status = create(&api, JSON, body.to_string())
        .await
        .refused_somehow(400, "BadRequest");
    let expected =
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: parsing time \"nonsense\"";
    assert!(
        status["message"].as_str().unwrap().starts_with(expected),
        "{status}"
    );
}

async fn trailing_text(api: Context) {
    let body = format!("{} trailing", config_map("a"));
    let message =
        "couldn't get version/kind; json parse error: invalid character 't' after top-level value";
    unrecognized(create(&api, JSON, body).await, "ConfigMap", message);
}

#[track_caller]
fn unsupported(answer: Answer) {
    let status = answer.refused_somehow(415, "UnsupportedMediaType");
    let expected = "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml";
    assert!(
        status["message"].as_str().unwrap().starts_with(expected),
        "{status}"
    );
}

async fn unknown_content_types(api: Context) {
    for content_type in [
        "text/plain",
        "application/nonsense",
        "bad;;type",
        "*/*",
        "application/merge-patch+json",
    ] {
        unsupported(create(&api, content_type, config_map("a").to_string()).await);
    }
    let path = api.core("configmaps/a");
    unsupported(
        api.send(
            Method::PUT,
            &path,
            "text/plain",
            config_map("a").to_string(),
        )
        .await,
    );
    unsupported(api.send(Method::DELETE, &path, "text/plain", "{}").await);
}

async fn no_content_type(api: Context) {
    // Nothing says what the body is; the real server takes it for JSON.
    let created = create(&api, "", config_map("a").to_string())
        .await
        .expect_code(201);
    assert_eq!(created["kind"], "ConfigMap");
}

async fn charset_is_accepted(api: Context) {
    create(
        &api,
        "application/json; charset=utf-8",
        config_map("a").to_string(),
    )
    .await
    .expect_code(201);
}

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
        let message =
            "couldn't get version/kind; json parse error: invalid character '[' exceeded max depth";
        unrecognized(answer, "Thing", message);
    }
}

async fn deep_objects(api: Context) {
    api.define_things(anything()).await;
    let answer = create_thing(&api, JSON, nested_thing(&api, 10_001, "{\"a\":", "}")).await;
    let message =
        "couldn't get version/kind; json parse error: invalid character '{' exceeded max depth";
    unrecognized(answer, "Thing", message);
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
        assert!(
            message.starts_with("error decoding patch: ")
                && message.ends_with("exceeded max depth"),
            "{message}"
        );
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

async fn names_in_paths(api: Context) {
    let long = "a".repeat(300);
    for name in ["Bad_Name", &long, "a%20b"] {
        let status = api
            .get(&api.core(&format!("configmaps/{name}")))
            .await
            .refused_somehow(404, "NotFound");
        assert_eq!(status["details"]["kind"], "configmaps");
    }
    assert!(
        api.get("/api/v1/namespaces/Bad_Name/configmaps")
            .await
            .names()
            .is_empty()
    );
}

async fn dots_in_paths(api: Context) {
    let answer = api.get(&api.core("configmaps/%2e%2e")).await;
    answer.refused(
        400,
        "BadRequest",
        "Name parameter invalid: \"..\": may not be '..'",
    );
}

async fn slashes_in_paths(api: Context) {
    api.config_map("a", json!({})).await;
    let message = "the server could not find the requested resource";
    api.get(&api.core("configmaps/a%2fb"))
        .await
        .refused(404, "NotFound", message);
    api.get("/api/v1//namespaces")
        .await
        .refused(404, "NotFound", message);
    assert_eq!(api.get(&api.core("configmaps/")).await.names(), ["a"]);
}

async fn malformed_percent_encoding(api: Context) {
    api.config_map("a", json!({})).await;
    assert_eq!(
        api.get(&api.core("configmaps?labelSelector=%zz"))
            .await
            .names(),
        ["a"]
    );
    api.get(&api.core("configmaps?labelSelector=%ff"))
        .await
        .refused_somehow(400, "BadRequest");
    api.get(&api.core("configmaps?fieldSelector=%ff"))
        .await
        .refused_somehow(400, "BadRequest");
}

const NOT_ALLOWED: &str = "the server does not allow this method on the requested resource";

async fn methods_on_collections(api: Context) {
    let refused = [
        (Method::PUT, api.core("configmaps")),
        (Method::PATCH, api.core("configmaps")),
        (Method::POST, "/api/v1/configmaps".to_owned()),
        (Method::DELETE, "/api/v1/configmaps".to_owned()),
        (Method::DELETE, "/api/v1/namespaces".to_owned()),
        (Method::OPTIONS, api.core("configmaps")),
    ];
    for (method, path) in refused {
        let answer = api
            .send(method, &path, JSON, config_map("a").to_string())
            .await;
        let status = answer.refused(405, "MethodNotAllowed", NOT_ALLOWED);
        assert_eq!(status["details"], json!({}));
    }
}

async fn methods_on_objects(api: Context) {
    api.config_map("a", json!({})).await;
    let answer = api.post(&api.core("configmaps/a"), &config_map("a")).await;
    answer.refused(405, "MethodNotAllowed", NOT_ALLOWED);
}

async fn malformed_delete_options(api: Context) {
    api.config_map("a", json!({})).await;
    let path = api.core("configmaps/a");
    let bodies = [
        "{bad",
        "[]",
        r#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":"x"}"#,
        r#"{"kind":"Foo","apiVersion":"v1"}"#,
    ];
    for body in bodies {
        api.send(Method::DELETE, &path, JSON, body)
            .await
            .refused_somehow(400, "BadRequest");
    }
    api.get(&path).await.expect_code(200);
}

async fn unknown_field_validation(api: Context) {
    let answer = api
        .post(
            &api.core("configmaps?fieldValidation=Nope"),
            &config_map("a"),
        )
        .await;
    let message = "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"Nope\": \
                   supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"";
    answer.refused(422, "Invalid", message);
}

async fn too_long_field_manager(api: Context) {
    let path = api.core(&format!("configmaps?fieldManager={}", "a".repeat(129)));
    let message = "CreateOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: may not be more than 128 bytes";
    api.post(&path, &config_map("a"))
        .await
        .refused(422, "Invalid", message);
}

async fn unknown_accept(api: Context) {
    let request = http::Request::get(api.core("configmaps")).header("accept", "text/plain");
    let response = api
        .client
        .send(request.body(kube::client::Body::empty()).unwrap())
        .await
        .unwrap();
    assert_eq!(response.status(), 406);
}

async fn wrong_list_kind(api: Context) {
    let body = json!({"apiVersion": "v1", "kind": "List", "items": []});
    create(&api, JSON, body.to_string())
        .await
        .refused_somehow(400, "BadRequest");
}

/// Sends refused requests of all kinds and looks whether anything is different afterwards.
async fn refused_requests_change_nothing(api: Context) {
    api.define_things(crate::support::spec_schema(
        json!({"n": {"type": "integer"}}),
    ))
    .await;
    api.create_thing("a", json!({"spec": {"n": 1}})).await;
    let before = api.get(&api.custom("things")).await.expect_code(200);
    let path = api.custom("things/a");
    let bodies = [
        "{bad",
        "[]",
        r#"{"spec":{"n":"x"}}"#,
        r#"{"metadata":{"name":"b"}}"#,
        r#"{"metadata":{"labels":{"bad key":"x"}}}"#,
    ];
    for body in bodies {
        for (method, content_type) in [
            (Method::PATCH, "application/merge-patch+json"),
            (Method::PUT, JSON),
            (Method::PATCH, "application/json-patch+json"),
        ] {
            let answer = api.send(method, &path, content_type, body).await;
            assert!(
                (400..500).contains(&answer.code)
                    || answer.body["items"] == Value::Null && answer.code == 200 && body == "[]",
                "{answer}"
            );
        }
        let answer = create_thing(&api, JSON, body).await;
        assert!((400..500).contains(&answer.code), "{answer}");
    }
    let after = api.get(&api.custom("things")).await.expect_code(200);
    assert_eq!(after["items"], before["items"]);
}
