//! Lists: order, versions, pages.

use serde_json::{Value, json};

use crate::support::{Answer, Context, anything, cases, resource_version};

cases!("list":
    is_ordered_by_name, has_a_version, of_built_in_items_has_no_kinds,
    of_custom_items_has_kinds, all_namespaces_are_ordered, empty_list_has_items,
    paging_walks_through, paging_counts_what_remains, paging_with_selector_does_not_count,
    paging_shows_one_snapshot, page_larger_than_list, limit_zero_is_no_limit,
    malformed_limit_is_refused, malformed_continue_is_refused, continue_with_version_is_refused,
    version_zero_gives_everything, not_older_than_is_satisfied, exact_version_shows_the_past,
    malformed_version_is_refused, future_version_times_out, match_needs_a_version,
    match_exact_needs_more_than_zero, unknown_match_is_refused,
    initial_events_are_not_for_lists, get_at_version_zero, get_at_malformed_version,
    get_at_future_version, unknown_parameters_are_ignored,
);

/// ConfigMaps of these names.
async fn config_maps(api: &Context, names: &[&str]) {
    for name in names {
        api.config_map(name, json!({"metadata": {"labels": {"all": "yes"}}}))
            .await;
    }
}

fn continue_token(list: &Answer) -> &str {
    list.body["metadata"]["continue"]
        .as_str()
        .unwrap_or_default()
}

async fn is_ordered_by_name(api: Context) {
    config_maps(&api, &["b", "a", "a-b", "a.b", "c"]).await;
    let list = api.get(&api.core("configmaps")).await;
    assert_eq!(list.names(), ["a", "a-b", "a.b", "b", "c"]);
    assert_eq!(list.body["kind"], "ConfigMapList");
    assert_eq!(list.body["apiVersion"], "v1");
}

async fn has_a_version(api: Context) {
    let created = api.config_map("a", json!({})).await;
    let list = api.get(&api.core("configmaps")).await.expect_code(200);
    let number = |value: &Value| resource_version(value).parse::<u64>().unwrap();
    assert!(number(&list) >= number(&created));
    assert_eq!(
        list["metadata"]["continue"].as_str().unwrap_or_default(),
        ""
    );
}

async fn of_built_in_items_has_no_kinds(api: Context) {
    config_maps(&api, &["a"]).await;
    let list = api.get(&api.core("configmaps")).await.expect_code(200);
    assert_eq!(list["items"][0]["kind"], Value::Null);
    assert_eq!(list["items"][0]["apiVersion"], Value::Null);
}

async fn of_custom_items_has_kinds(api: Context) {
    api.define_things(anything()).await;
    let created = api.create_thing("a", json!({"spec": {"x": 1}})).await;
    let list = api.get(&api.custom("things")).await.expect_code(200);
    assert_eq!(list["kind"], "ThingList");
    assert_eq!(list["apiVersion"], format!("{}/v1", api.group));
    assert_eq!(list["items"], json!([created]));
}

async fn all_namespaces_are_ordered(api: Context) {
    api.define_things(anything()).await;
    let second = format!("{}-z", api.namespace);
    api.create_namespace(&second).await;
    for (namespace, name) in [(&second, "a"), (&api.namespace, "c"), (&api.namespace, "b")] {
        let path = format!("/apis/{}/v1/namespaces/{namespace}/things", api.group);
        api.post(&path, &api.thing(name, json!({})))
            .await
            .expect_code(201);
    }
    let all = format!("/apis/{}/v1/things", api.group);
    let list = api.get(&all).await;
    // Ordered by the text `namespace/name`, in which `x-z/` comes before `x/`.
    assert_eq!(list.names(), ["a", "b", "c"]);
    let selected = api
        .get(&format!(
            "{all}?fieldSelector=metadata.namespace%3D{second}"
        ))
        .await;
    assert_eq!(selected.names(), ["a"]);
}

async fn empty_list_has_items(api: Context) {
    api.define_things(anything()).await;
    for path in [api.core("configmaps"), api.custom("things")] {
        assert_eq!(api.get(&path).await.body["items"], json!([]));
    }
}

async fn paging_walks_through(api: Context) {
    config_maps(&api, &["a", "b", "c", "d", "e"]).await;
    let first = api.get(&api.core("configmaps?limit=2")).await;
    assert_eq!(first.names(), ["a", "b"]);
    let second = api
        .get(&api.core(&format!(
            "configmaps?limit=2&continue={}",
            continue_token(&first)
        )))
        .await;
    assert_eq!(second.names(), ["c", "d"]);
    assert_eq!(
        resource_version(&second.body),
        resource_version(&first.body)
    );
    let third = api
        .get(&api.core(&format!(
            "configmaps?limit=2&continue={}",
            continue_token(&second)
        )))
        .await;
    assert_eq!(third.names(), ["e"]);
    assert_eq!(continue_token(&third), "");
}

async fn paging_counts_what_remains(api: Context) {
    config_maps(&api, &["a", "b", "c", "d", "e"]).await;
    let first = api.get(&api.core("configmaps?limit=2")).await;
    assert_eq!(first.body["metadata"]["remainingItemCount"], 3);
    let path = api.core(&format!(
        "configmaps?limit=2&continue={}",
        continue_token(&first)
    ));
    assert_eq!(
        api.get(&path).await.body["metadata"]["remainingItemCount"],
        1
    );
}

async fn paging_with_selector_does_not_count(api: Context) {
    config_maps(&api, &["a", "b", "c"]).await;
    api.config_map("aa", json!({})).await;
    let first = api
        .get(&api.core("configmaps?limit=2&labelSelector=all%3Dyes"))
        .await;
    assert_eq!(first.names(), ["a", "b"]);
    assert_eq!(first.body["metadata"]["remainingItemCount"], Value::Null);
    let token = continue_token(&first);
    let rest = api
        .get(&api.core(&format!(
            "configmaps?labelSelector=all%3Dyes&continue={token}"
        )))
        .await;
    assert_eq!(rest.names(), ["c"]);
}

async fn paging_shows_one_snapshot(api: Context) {
    api.define_things(anything()).await;
    for name in ["a", "b", "c"] {
        api.create_thing(name, json!({"spec": {"x": 1}})).await;
    }
    let first = api.get(&api.custom("things?limit=1")).await;
    api.merge(&api.custom("things/b"), &json!({"spec": {"x": 2}}))
        .await
        .expect_code(200);
    api.create_thing("bb", json!({})).await;
    api.delete(&api.custom("things/c")).await.expect_code(200);
    let rest = api
        .get(&api.custom(&format!(
            "things?limit=9&continue={}",
            continue_token(&first)
        )))
        .await;
    assert_eq!(rest.names(), ["b", "c"]);
    assert_eq!(rest.body["items"][0]["spec"], json!({"x": 1}));
    assert_eq!(resource_version(&rest.body), resource_version(&first.body));
}

async fn page_larger_than_list(api: Context) {
    config_maps(&api, &["a", "b"]).await;
    for limit in [2, 3] {
        let list = api
            .get(&api.core(&format!("configmaps?limit={limit}")))
            .await;
        assert_eq!(list.names(), ["a", "b"]);
        assert_eq!(continue_token(&list), "");
        assert_eq!(list.body["metadata"]["remainingItemCount"], Value::Null);
    }
}

async fn limit_zero_is_no_limit(api: Context) {
    config_maps(&api, &["a", "b"]).await;
    assert_eq!(
        api.get(&api.core("configmaps?limit=0")).await.names(),
        ["a", "b"]
    );
    assert_eq!(
        api.get(&api.core("configmaps?limit=-1")).await.names(),
        ["a", "b"]
    );
}

async fn malformed_limit_is_refused(api: Context) {
    let message = "strconv.ParseInt: parsing \"x\": invalid syntax";
    for parameter in ["limit", "timeoutSeconds"] {
        let path = api.core(&format!("configmaps?{parameter}=x"));
        api.get(&path).await.refused(400, "BadRequest", message);
    }
}

async fn malformed_continue_is_refused(api: Context) {
    for token in ["bad", "e30", "%7B%7D"] {
        let path = api.core(&format!("configmaps?limit=2&continue={token}"));
        let status = api.get(&path).await.refused_somehow(400, "BadRequest");
        let message = status["message"].as_str().unwrap();
        assert!(
            message.starts_with("invalid continue token: continue key is not valid: "),
            "{message}"
        );
    }
}

async fn continue_with_version_is_refused(api: Context) {
    config_maps(&api, &["a", "b"]).await;
    let first = api.get(&api.core("configmaps?limit=1")).await;
    let version = resource_version(&first.body);
    let token = continue_token(&first);
    let path = api.core(&format!(
        "configmaps?limit=1&continue={token}&resourceVersion={version}"
    ));
    let message = "specifying resource version is not allowed when using continue";
    api.get(&path).await.refused(400, "BadRequest", message);
}

/// A list at version 0 comes from the server's cache; it may lag and it may ignore the limit.
async fn version_zero_gives_everything(api: Context) {
    config_maps(&api, &["a", "b"]).await;
    let complete = |answer: &Answer| answer.names() == ["a", "b"];
    api.wait_for(&api.core("configmaps?resourceVersion=0"), complete)
        .await;
}

async fn not_older_than_is_satisfied(api: Context) {
    config_maps(&api, &["a"]).await;
    let version = resource_version(&api.config_map("b", json!({})).await).to_owned();
    for query in [
        format!("resourceVersion={version}"),
        format!("resourceVersion={version}&resourceVersionMatch=NotOlderThan"),
    ] {
        let list = api.get(&api.core(&format!("configmaps?{query}"))).await;
        assert_eq!(list.names(), ["a", "b"]);
    }
}

async fn exact_version_shows_the_past(api: Context) {
    api.define_things(anything()).await;
    let created = api.create_thing("a", json!({"spec": {"x": 1}})).await;
    let version = resource_version(&created);
    api.merge(&api.custom("things/a"), &json!({"spec": {"x": 2}}))
        .await
        .expect_code(200);
    api.create_thing("b", json!({})).await;
    let path = format!("things?resourceVersion={version}&resourceVersionMatch=Exact");
    let list = api.get(&api.custom(&path)).await;
    assert_eq!(list.names(), ["a"]);
    assert_eq!(list.body["items"][0]["spec"], json!({"x": 1}));
    assert_eq!(resource_version(&list.body), version);
}

async fn malformed_version_is_refused(api: Context) {
    for version in ["abc", "-1"] {
        let message = format!(
            "invalid resource version: resourceVersion: Invalid value: \"{version}\": \
             strconv.ParseUint: parsing \"{version}\": invalid syntax"
        );
        let path = api.core(&format!("configmaps?resourceVersion={version}"));
        api.get(&path).await.refused(400, "BadRequest", &message);
    }
}

#[track_caller]
fn timed_out(answer: Answer) {
    let status = answer.refused_somehow(504, "Timeout");
    let message = status["message"].as_str().unwrap();
    assert!(
        message.starts_with("Timeout: Too large resource version: 999999999, current: "),
        "{message}"
    );
    let cause =
        json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
    assert_eq!(
        status["details"],
        json!({"causes": [cause], "retryAfterSeconds": 1})
    );
}

async fn future_version_times_out(api: Context) {
    timed_out(
        api.get(&api.core("configmaps?resourceVersion=999999999"))
            .await,
    );
}

/// A query that is refused with this one cause.
async fn refused_query(api: &Context, query: &str, reason: &str, message: &str) {
    let answer = api.get(&api.core(&format!("configmaps?{query}"))).await;
    let status = answer.refused_somehow(422, "Invalid");
    let field = if query.contains("sendInitialEvents") {
        "sendInitialEvents"
    } else {
        "resourceVersionMatch"
    };
    let cause = json!({"reason": reason, "message": message, "field": field});
    assert_eq!(
        status["details"],
        json!({"group": "meta.k8s.io", "kind": "ListOptions", "causes": [cause]})
    );
    let whole = format!("ListOptions.meta.k8s.io \"\" is invalid: {field}: {message}");
    assert_eq!(status["message"], whole);
}

async fn match_needs_a_version(api: Context) {
    let message = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
    refused_query(
        &api,
        "resourceVersionMatch=Exact",
        "FieldValueForbidden",
        message,
    )
    .await;
}

async fn match_exact_needs_more_than_zero(api: Context) {
    let message =
        "Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
    let query = "resourceVersion=0&resourceVersionMatch=Exact";
    refused_query(&api, query, "FieldValueForbidden", message).await;
}

async fn unknown_match_is_refused(api: Context) {
    let message =
        "Unsupported value: \"Nope\": supported values: \"Exact\", \"NotOlderThan\", \"\"";
    let query = "resourceVersion=1&resourceVersionMatch=Nope";
    refused_query(&api, query, "FieldValueNotSupported", message).await;
}

async fn initial_events_are_not_for_lists(api: Context) {
    let message = "Forbidden: sendInitialEvents is forbidden for list";
    refused_query(
        &api,
        "sendInitialEvents=true",
        "FieldValueForbidden",
        message,
    )
    .await;
}

async fn get_at_version_zero(api: Context) {
    config_maps(&api, &["a"]).await;
    api.wait_for(&api.core("configmaps/a?resourceVersion=0"), |answer| {
        answer.code == 200
    })
    .await;
}

async fn get_at_malformed_version(api: Context) {
    config_maps(&api, &["a"]).await;
    let message = "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax";
    api.get(&api.core("configmaps/a?resourceVersion=abc"))
        .await
        .refused(500, "", message);
}

async fn get_at_future_version(api: Context) {
    config_maps(&api, &["a"]).await;
    timed_out(
        api.get(&api.core("configmaps/a?resourceVersion=999999999"))
            .await,
    );
}

async fn unknown_parameters_are_ignored(api: Context) {
    config_maps(&api, &["a"]).await;
    let path = api.core("configmaps?nonsense=1&dryRun=All&pretty=true&empty&=x");
    assert_eq!(api.get(&path).await.names(), ["a"]);
    assert_eq!(
        api.get(&api.core("configmaps/a?nonsense=1")).await.code,
        200
    );
}
