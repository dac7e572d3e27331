//! Bodies nobody should send: each is refused like the real server refuses it, and changes nothing.

use http::Method;
use serde_json::json;

use crate::support::{Answer, Context, anything, cases, config_map, overlay, spec_schema};

cases!("bad_input":
    malformed_json, malformed_json_of_custom, malformed_yaml, yaml_is_accepted,
    yaml_is_yaml_1_1, empty_body, not_an_object, null_and_empty_objects, wrong_types_of_kind,
    wrong_types_of_metadata, wrong_time, trailing_text, unknown_content_types, no_content_type,
    charset_is_accepted, wrong_list_kind, refused_requests_change_nothing,
);

/// A body that could not be read: the start of the message is fixed, the parser's words are not.
#[track_caller]
pub(crate) fn unrecognized(answer: Answer, kind: &str, message: &str) {
    let status = answer.refused_somehow(400, "BadRequest");
    let expected =
        format!("the object provided is unrecognized (must be of type {kind}): {message}");
    let found = status["message"].as_str().unwrap();
    assert!(
        found.starts_with(&expected),
        "{found}\nshould start with\n{expected}"
    );
}

/// Creates a Thing from text.
pub(crate) async fn create_thing(
    api: &Context,
    content_type: &str,
    body: impl Into<Vec<u8>>,
) -> Answer {
    api.send(Method::POST, &api.custom("things"), content_type, body)
        .await
}

pub(crate) async fn create(api: &Context, content_type: &str, body: impl Into<Vec<u8>>) -> Answer {
    api.send(Method::POST, &api.core("configmaps"), content_type, body)
        .await
}

pub(crate) const JSON: &str = "application/json";

/// How the complaint about JSON that is none begins.
pub(crate) const UNREADABLE: &str = "couldn't get version/kind; json parse error: ";

async fn malformed_json(api: Context) {
    for body in [
        "{bad",
        "{\"apiVersion\":\"v1\"",
        "{\"a\":}",
        "'x'",
        "{\"a\":tru}",
    ] {
        unrecognized(create(&api, JSON, body).await, "ConfigMap", UNREADABLE);
    }
}

async fn malformed_json_of_custom(api: Context) {
    api.define_things(anything()).await;
    for body in ["{bad", "{\"kind\":"] {
        unrecognized(create_thing(&api, JSON, body).await, "Thing", UNREADABLE);
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
    unrecognized(answer, "ConfigMap", UNREADABLE);
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
        unrecognized(create(&api, JSON, body).await, "ConfigMap", UNREADABLE);
    }
}

async fn not_an_object(api: Context) {
    for body in ["[]", "\"x\"", "5"] {
        unrecognized(create(&api, JSON, body).await, "ConfigMap", UNREADABLE);
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
    let bodies = [
        json!({"apiVersion": 5, "kind": "ConfigMap"}),
        json!({"apiVersion": "v1", "kind": 5}),
    ];
    for body in bodies {
        let answer = create(&api, JSON, body.to_string()).await;
        unrecognized(answer, "ConfigMap", UNREADABLE);
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
        overlay(&mut config, &body);
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
    unrecognized(create(&api, JSON, body).await, "ConfigMap", UNREADABLE);
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

async fn wrong_list_kind(api: Context) {
    let body = json!({"apiVersion": "v1", "kind": "List", "items": []});
    create(&api, JSON, body.to_string())
        .await
        .refused_somehow(400, "BadRequest");
}

/// Sends refused requests of all kinds and looks whether anything is different afterwards.
async fn refused_requests_change_nothing(api: Context) {
    api.define_things(spec_schema(json!({"n": {"type": "integer"}})))
        .await;
    api.create_thing("a", json!({"spec": {"n": 1}})).await;
    let before = api.get(&api.custom("things")).await.expect_code(200);
    let path = api.custom("things/a");
    let bodies = [
        "{bad",
        "[{}]",
        r#"{"spec":{"n":"x"}}"#,
        r#"{"metadata":{"name":"b"}}"#,
        r#"{"metadata":{"labels":{"bad key":"x"}}}"#,
    ];
    for body in bodies {
        let answers = [
            api.send(Method::PATCH, &path, "application/merge-patch+json", body)
                .await,
            api.send(Method::PATCH, &path, "application/json-patch+json", body)
                .await,
            api.send(Method::PUT, &path, JSON, body).await,
            create_thing(&api, JSON, body).await,
        ];
        for answer in answers {
            assert!((400..500).contains(&answer.code), "{answer}");
        }
    }
    let after = api.get(&api.custom("things")).await.expect_code(200);
    assert_eq!(after["items"], before["items"]);
}
