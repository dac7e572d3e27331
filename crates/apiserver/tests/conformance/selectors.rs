//! Label selectors and field selectors.

use serde_json::json;

use crate::support::{Context, anything, cases, version};

cases!("selectors":
    labels_select, labels_tolerate_spaces_and_commas, malformed_labels_are_refused,
    label_keys_are_checked, label_values_are_checked, several_label_parameters_use_the_first,
    thousands_of_values, fields_select, fields_tolerate_empty_terms, unknown_fields_are_refused,
    unknown_fields_of_custom_are_refused, malformed_fields_are_refused, secrets_by_type,
    pods_by_phase_and_node, events_by_object, namespaces_by_phase, custom_fields,
    custom_fields_must_be_declared,
);

/// ConfigMaps a, b, c labelled with their name, and d without that label.
async fn labelled(api: &Context) {
    for name in ["a", "b", "c"] {
        api.config_map(
            name,
            json!({"metadata": {"labels": {"n": name, "all": "yes"}}}),
        )
        .await;
    }
    api.config_map(
        "d",
        json!({"metadata": {"labels": {"all": "yes", "size": "7"}}}),
    )
    .await;
}

fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => (byte as char).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// The names that a selector gives, joined.
async fn selected(api: &Context, path: &str, parameter: &str, selector: &str) -> String {
    let list = api
        .get(&format!("{path}?{parameter}={}", encoded(selector)))
        .await;
    list.names().join(" ")
}

async fn labels_select(api: Context) {
    labelled(&api).await;
    let expectations = [
        ("n=a", "a"),
        ("n==a", "a"),
        ("n!=a", "b c d"),
        ("n in (a,b)", "a b"),
        ("n notin (a,b)", "c d"),
        ("n", "a b c"),
        ("!n", "d"),
        ("n in (a),all", "a"),
        ("n=a,n=b", ""),
        ("nope!=x", "a b c d"),
        ("n=", ""),
        ("size>6", "d"),
        ("size<7", ""),
        ("", "a b c d"),
    ];
    for (selector, expected) in expectations {
        let found = selected(&api, &api.core("configmaps"), "labelSelector", selector).await;
        assert_eq!(found, expected, "{selector}");
    }
}

async fn labels_tolerate_spaces_and_commas(api: Context) {
    labelled(&api).await;
    let expectations = [
        ("n = a", "a"),
        ("n in ( a , b )", "a b"),
        ("n in (a,,b)", "a b"),
        ("! n", "d"),
        ("n in ()", ""),
    ];
    for (selector, expected) in expectations {
        let found = selected(&api, &api.core("configmaps"), "labelSelector", selector).await;
        assert_eq!(found, expected, "{selector}");
    }
}

async fn malformed_labels_are_refused(api: Context) {
    let expectations = [
        (
            "n in (a",
            "unable to parse requirement: found '', expected: ',' or ')'",
        ),
        (
            "n in a",
            "unable to parse requirement: found 'a' expected: '('",
        ),
        (
            "=a",
            "found '=', expected: !, identifier, or 'end of string'",
        ),
        ("n=a,", "found '', expected: identifier after ','"),
        (
            ",n=a",
            "found ',', expected: !, identifier, or 'end of string'",
        ),
        (
            "n ==== a",
            "unable to parse requirement: found '==', expected: identifier",
        ),
        (
            "!",
            "unable to parse requirement: found '', expected: identifier",
        ),
        (
            "bad key=x",
            "unable to parse requirement: found 'key', expected: in, notin, =, ==, !=, gt, lt",
        ),
        ("n=a b", "found 'b', expected: ',' or 'end of string'"),
        ("!n=a", "found '=', expected: ',' or 'end of string'"),
        (
            "n>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ];
    for (selector, message) in expectations {
        let path = api.core(&format!("configmaps?labelSelector={}", encoded(selector)));
        api.get(&path).await.refused(400, "BadRequest", message);
    }
}

async fn label_keys_are_checked(api: Context) {
    let long = "a".repeat(64);
    let expectations = [
        (long.as_str(), "name part must be no more than 63 bytes"),
        (
            "x/y/z",
            "a valid label key must consist of alphanumeric characters",
        ),
        ("%20", "name part must consist of alphanumeric characters"),
        (
            "UPPER/name",
            "prefix part a lowercase RFC 1123 subdomain must consist of",
        ),
    ];
    for (key, message) in expectations {
        let path = api.core(&format!("configmaps?labelSelector={}%3Dx", encoded(key)));
        let status = api.get(&path).await.refused_somehow(400, "BadRequest");
        let expected =
            format!("unable to parse requirement: <nil>: Invalid value: \"{key}\": {message}");
        assert!(
            status["message"].as_str().unwrap().starts_with(&expected),
            "{status}"
        );
    }
}

async fn label_values_are_checked(api: Context) {
    let long = "a".repeat(64);
    let path = api.core(&format!("configmaps?labelSelector=a%3D{long}"));
    let message = format!(
        "unable to parse requirement: values[0][a]: Invalid value: \"{long}\": must be no more than 63 bytes"
    );
    api.get(&path).await.refused(400, "BadRequest", &message);
}

async fn several_label_parameters_use_the_first(api: Context) {
    labelled(&api).await;
    let path = api.core("configmaps?labelSelector=n%3Da&labelSelector=n%3Db");
    assert_eq!(api.get(&path).await.names(), ["a"]);
}

async fn thousands_of_values(api: Context) {
    labelled(&api).await;
    let values: Vec<String> = (0..2000).map(|number| format!("v{number}")).collect();
    let selector = format!("n in ({},b)", values.join(","));
    assert_eq!(
        selected(&api, &api.core("configmaps"), "labelSelector", &selector).await,
        "b"
    );
}

async fn fields_select(api: Context) {
    labelled(&api).await;
    let here = format!("metadata.namespace={}", api.namespace);
    let both = format!("metadata.name=a,{here}");
    let expectations = [
        ("metadata.name=a", "a"),
        ("metadata.name==a", "a"),
        ("metadata.name!=a", "b c d"),
        (here.as_str(), "a b c d"),
        ("metadata.namespace=other", ""),
        (both.as_str(), "a"),
        ("metadata.name!=a,metadata.name!=b", "c d"),
        ("metadata.name=", ""),
    ];
    for (selector, expected) in expectations {
        let found = selected(&api, &api.core("configmaps"), "fieldSelector", selector).await;
        assert_eq!(found, expected, "{selector}");
    }
}

async fn fields_tolerate_empty_terms(api: Context) {
    labelled(&api).await;
    for (selector, expected) in [
        (",", "a b c d"),
        ("metadata.name=a,,", "a"),
        ("metadata.name=a\\,b", ""),
    ] {
        let found = selected(&api, &api.core("configmaps"), "fieldSelector", selector).await;
        assert_eq!(found, expected, "{selector}");
    }
}

async fn unknown_fields_are_refused(api: Context) {
    for field in ["data.x", "metadata.labels", "spec.nodeName"] {
        let message = format!(
            "\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
        let path = api.core(&format!("configmaps?fieldSelector={field}%3D1"));
        api.get(&path).await.refused(400, "BadRequest", &message);
    }
}

async fn unknown_fields_of_custom_are_refused(api: Context) {
    api.define_things(anything()).await;
    let answer = api
        .get(&api.custom("things?fieldSelector=spec.x%3D1"))
        .await;
    answer.refused(400, "BadRequest", "field label not supported: spec.x");
}

async fn malformed_fields_are_refused(api: Context) {
    for selector in ["metadata.name", "metadata.name in (a)"] {
        let message = format!("invalid selector: '{selector}'; can't understand '{selector}'");
        let path = api.core(&format!("configmaps?fieldSelector={}", encoded(selector)));
        api.get(&path).await.refused(400, "BadRequest", &message);
    }
    let path = api.core(&format!(
        "configmaps?fieldSelector={}",
        encoded("metadata.name=a\\")
    ));
    api.get(&path).await.refused(
        400,
        "BadRequest",
        "invalid field selector: invalid escape sequence: \\",
    );
}

async fn secrets_by_type(api: Context) {
    for (name, kind) in [("plain", "Opaque"), ("special", "example.com/special")] {
        let body =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind});
        api.post(&api.core("secrets"), &body).await.expect_code(201);
    }
    let secrets = api.core("secrets");
    assert_eq!(
        selected(&api, &secrets, "fieldSelector", "type=Opaque").await,
        "plain"
    );
    assert_eq!(
        selected(&api, &secrets, "fieldSelector", "type!=Opaque").await,
        "special"
    );
    let answer = api.get(&api.core("secrets?fieldSelector=data%3Dx")).await;
    answer.refused(400, "BadRequest", "field label not supported: data");
}

async fn pods_by_phase_and_node(api: Context) {
    for (name, node) in [("placed", json!("node-1")), ("waiting", json!(null))] {
        let body = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": node},
        });
        api.post(&api.core("pods"), &body).await.expect_code(201);
    }
    for (name, phase) in [("placed", "Running"), ("waiting", "Pending")] {
        let patch = json!({"status": {"phase": phase}});
        api.merge(&api.core(&format!("pods/{name}/status")), &patch)
            .await
            .expect_code(200);
    }
    let expectations = [
        ("status.phase=Running", "placed"),
        ("status.phase=Pending", "waiting"),
        ("spec.nodeName=node-1", "placed"),
        ("spec.nodeName=", "waiting"),
    ];
    for (selector, expected) in expectations {
        assert_eq!(
            selected(&api, &api.core("pods"), "fieldSelector", selector).await,
            expected,
            "{selector}"
        );
    }
    let answer = api.get(&api.core("pods?fieldSelector=nonsense%3D1")).await;
    answer.refused(400, "BadRequest", "field label not supported: nonsense");
}

async fn events_by_object(api: Context) {
    for (name, kind, reason) in [("one", "ConfigMap", "Why"), ("two", "Secret", "Because")] {
        let involved = json!({"apiVersion": "v1", "kind": kind, "name": name, "namespace": api.namespace, "uid": name});
        let body = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": involved,
            "reason": reason, "type": "Normal", "message": "text", "source": {"component": "me"},
        });
        api.post(&api.core("events"), &body).await.expect_code(201);
    }
    let here = format!("involvedObject.namespace={}", api.namespace);
    let expectations = [
        ("involvedObject.name=one", "one"),
        ("involvedObject.kind=Secret", "two"),
        ("involvedObject.uid=one", "one"),
        ("reason=Because", "two"),
        ("type=Normal", "one two"),
        ("involvedObject.kind=ConfigMap,involvedObject.name=two", ""),
        (here.as_str(), "one two"),
        ("source=me", "one two"),
        ("metadata.name=two", "two"),
        ("involvedObject.apiVersion=v1", "one two"),
    ];
    for (selector, expected) in expectations {
        assert_eq!(
            selected(&api, &api.core("events"), "fieldSelector", selector).await,
            expected,
            "{selector}"
        );
    }
    let events = format!("/apis/events.k8s.io/v1/namespaces/{}/events", api.namespace);
    assert_eq!(
        selected(&api, &events, "fieldSelector", "regarding.kind=Secret").await,
        "two"
    );
    assert_eq!(
        selected(
            &api,
            &events,
            "fieldSelector",
            "regarding.name=one,reason=Why"
        )
        .await,
        "one"
    );
    let answer = api.get(&api.core("events?fieldSelector=message%3Dx")).await;
    answer.refused(400, "BadRequest", "field label not supported: message");
}

async fn namespaces_by_phase(api: Context) {
    let selector = format!("status.phase=Active,metadata.name={}", api.namespace);
    let found = selected(&api, "/api/v1/namespaces", "fieldSelector", &selector).await;
    assert_eq!(found, api.namespace);
    let label = format!("kubernetes.io/metadata.name={}", api.namespace);
    let found = selected(&api, "/api/v1/namespaces", "labelSelector", &label).await;
    assert_eq!(found, api.namespace);
}

async fn custom_fields(api: Context) {
    let schema = crate::support::spec_schema(
        json!({"color": {"type": "string"}, "size": {"type": "integer"}}),
    );
    let mut versions = version("v1", schema);
    versions["selectableFields"] = json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]);
    api.define(&api.things(json!([versions]))).await;
    api.create_thing("blue", json!({"spec": {"color": "blue", "size": 5}}))
        .await;
    api.create_thing("none", json!({})).await;
    api.create_thing("red", json!({"spec": {"color": "red", "size": 5}}))
        .await;
    let expectations = [
        ("spec.color=red", "red"),
        ("spec.size=5", "blue red"),
        ("spec.color=", "none"),
        ("spec.color!=red", "blue none"),
        ("spec.color=red,metadata.name=red", "red"),
    ];
    for (selector, expected) in expectations {
        let found = selected(&api, &api.custom("things"), "fieldSelector", selector).await;
        assert_eq!(found, expected, "{selector}");
    }
}

async fn custom_fields_must_be_declared(api: Context) {
    let mut versions = version(
        "v1",
        crate::support::spec_schema(json!({"color": {"type": "string"}})),
    );
    versions["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
    api.define(&api.things(json!([versions]))).await;
    for field in ["spec.other", ".spec.color"] {
        let answer = api
            .get(&api.custom(&format!("things?fieldSelector={field}%3Dred")))
            .await;
        answer.refused(
            400,
            "BadRequest",
            &format!("field label not supported: {field}"),
        );
    }
}
