//! Creating objects: what is set, what is ignored, what is refused.

use serde_json::{Value, json};

use crate::support::{Context, OTHER_NAMESPACE, OTHER_UID, anything, cases, config_map, overlay};

cases!("create":
    create_gives_what_is_stored, create_sets_identity, create_ignores_identity_given,
    create_twice_is_refused, create_custom_twice_is_refused,
    create_with_resource_version_is_refused, create_without_name_is_refused,
    create_with_invalid_name_is_refused, create_with_too_long_name_is_refused,
    create_custom_with_invalid_name_is_refused, create_in_other_namespace_is_refused,
    create_in_missing_namespace_is_refused, generate_name_appends, generate_name_is_checked,
    labels_are_checked, annotations_are_checked, finalizers_are_checked, owners_are_checked,
    only_one_controller, kind_and_version_may_be_left_out_of_built_in,
    kind_must_be_given_for_custom, wrong_kind_is_refused, wrong_kind_of_custom_is_refused,
    wrong_version_of_custom_is_refused,
);

pub(crate) const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case \
    alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
    (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

pub(crate) const LABEL_KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
    '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

async fn create_gives_what_is_stored(api: Context) {
    let created = api.config_map("a", json!({"data": {"k": "v"}})).await;
    let got = api.get(&api.core("configmaps/a")).await.expect_code(200);
    assert_eq!(created, got);
    assert_eq!(got["kind"], "ConfigMap");
    assert_eq!(got["apiVersion"], "v1");
    assert_eq!(got["data"], json!({"k": "v"}));
}

async fn create_sets_identity(api: Context) {
    let metadata = api.config_map("a", json!({})).await["metadata"].take();
    assert_eq!(metadata["name"], "a");
    assert_eq!(metadata["namespace"], api.namespace.as_str());
    assert_eq!(metadata["uid"].as_str().unwrap().len(), 36);
    assert!(
        metadata["resourceVersion"]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .unwrap()
            > 0
    );
    let created = metadata["creationTimestamp"].as_str().unwrap();
    assert!(created.len() == 20 && created.ends_with('Z'), "{created}");
    assert_eq!(metadata["generation"], Value::Null);
}

async fn create_ignores_identity_given(api: Context) {
    let given = json!({"metadata": {
        "uid": OTHER_UID, "creationTimestamp": "2020-01-01T00:00:00Z",
        "deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5,
    }});
    let created = api.config_map("a", given).await;
    assert_ne!(created["metadata"]["uid"], OTHER_UID);
    assert_ne!(
        created["metadata"]["creationTimestamp"],
        "2020-01-01T00:00:00Z"
    );
    assert_eq!(created["metadata"]["deletionTimestamp"], Value::Null);
    assert_eq!(
        created["metadata"]["deletionGracePeriodSeconds"],
        Value::Null
    );
}

async fn create_twice_is_refused(api: Context) {
    api.config_map("a", json!({})).await;
    let answer = api.post(&api.core("configmaps"), &config_map("a")).await;
    let status = answer.refused(409, "AlreadyExists", "configmaps \"a\" already exists");
    assert_eq!(
        status["details"],
        json!({"name": "a", "kind": "configmaps"})
    );
    assert_eq!(status["metadata"], json!({}));
}

async fn create_custom_twice_is_refused(api: Context) {
    api.define_things(anything()).await;
    api.create_thing("a", json!({})).await;
    let answer = api
        .post(&api.custom("things"), &api.thing("a", json!({})))
        .await;
    let message = format!("things.{} \"a\" already exists", api.group);
    let status = answer.refused(409, "AlreadyExists", &message);
    assert_eq!(
        status["details"],
        json!({"name": "a", "group": api.group, "kind": "things"})
    );
}

async fn create_with_resource_version_is_refused(api: Context) {
    let mut body = config_map("a");
    body["metadata"]["resourceVersion"] = json!("5");
    let answer = api.post(&api.core("configmaps"), &body).await;
    answer.refused(
        500,
        "",
        "resourceVersion should not be set on objects to be created",
    );
}

async fn create_without_name_is_refused(api: Context) {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
    let answer = api.post(&api.core("configmaps"), &body).await;
    let message = "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required";
    let status = answer.refused(422, "Invalid", message);
    assert_eq!(
        status["details"],
        json!({"kind": "ConfigMap", "causes": [{
            "reason": "FieldValueRequired", "field": "metadata.name",
            "message": "Required value: name or generateName is required",
        }]})
    );
}

async fn create_with_invalid_name_is_refused(api: Context) {
    let answer = api
        .post(&api.core("configmaps"), &config_map("Bad_Name"))
        .await;
    let invalid = format!("Invalid value: \"Bad_Name\": {SUBDOMAIN}");
    let message = format!("ConfigMap \"Bad_Name\" is invalid: metadata.name: {invalid}");
    let status = answer.refused(422, "Invalid", &message);
    assert_eq!(
        status["details"],
        json!({"name": "Bad_Name", "kind": "ConfigMap", "causes": [
            {"reason": "FieldValueInvalid", "message": invalid, "field": "metadata.name"},
        ]})
    );
}

async fn create_with_too_long_name_is_refused(api: Context) {
    let name = "a".repeat(254);
    let answer = api.post(&api.core("configmaps"), &config_map(&name)).await;
    let status = answer.refused_somehow(422, "Invalid");
    let expected = format!("Invalid value: \"{name}\": must be no more than 253 characters");
    assert_eq!(status["details"]["causes"][0]["message"], expected);
}

async fn create_custom_with_invalid_name_is_refused(api: Context) {
    api.define_things(anything()).await;
    let answer = api
        .post(&api.custom("things"), &api.thing("Bad_Name", json!({})))
        .await;
    let status = answer.refused_somehow(422, "Invalid");
    assert_eq!(status["details"]["kind"], "Thing");
    assert_eq!(status["details"]["group"], api.group.as_str());
    assert_eq!(status["details"]["causes"][0]["field"], "metadata.name");
}

async fn create_in_other_namespace_is_refused(api: Context) {
    let mut body = config_map("a");
    body["metadata"]["namespace"] = json!("other");
    let answer = api.post(&api.core("configmaps"), &body).await;
    answer.refused(400, "BadRequest", OTHER_NAMESPACE);
}

async fn create_in_missing_namespace_is_refused(api: Context) {
    let answer = api
        .post("/api/v1/namespaces/missing/configmaps", &config_map("a"))
        .await;
    let status = answer.refused(404, "NotFound", "namespaces \"missing\" not found");
    assert_eq!(
        status["details"],
        json!({"name": "missing", "kind": "namespaces"})
    );
    let list = api.get("/api/v1/namespaces/missing/configmaps").await;
    assert!(list.names().is_empty());
}

async fn generate_name_appends(api: Context) {
    let body =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}});
    let one = api
        .post(&api.core("configmaps"), &body)
        .await
        .expect_code(201);
    let two = api
        .post(&api.core("configmaps"), &body)
        .await
        .expect_code(201);
    for created in [&one, &two] {
        let name = created["metadata"]["name"].as_str().unwrap();
        assert!(
            name.starts_with("gen-") && name.len() == "gen-".len() + 5,
            "{name}"
        );
        assert_eq!(created["metadata"]["generateName"], "gen-");
    }
    assert_ne!(one["metadata"]["name"], two["metadata"]["name"]);
}

async fn generate_name_is_checked(api: Context) {
    let body =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "Gen_"}});
    let status = api
        .post(&api.core("configmaps"), &body)
        .await
        .refused_somehow(422, "Invalid");
    assert_eq!(
        status["details"]["causes"][0]["field"],
        "metadata.generateName"
    );
    assert_eq!(status["details"]["causes"][1]["field"], "metadata.name");
}

/// Creates a ConfigMap with this metadata, which must be refused for exactly this cause.
async fn refused_metadata(api: &Context, metadata: Value, cause: Value) {
    let mut body = config_map("a");
    overlay(&mut body["metadata"], &metadata);
    let status = api
        .post(&api.core("configmaps"), &body)
        .await
        .refused_somehow(422, "Invalid");
    assert_eq!(
        status["details"],
        json!({"name": "a", "kind": "ConfigMap", "causes": [cause]})
    );
    let text = format!(
        "ConfigMap \"a\" is invalid: {}: {}",
        cause["field"].as_str().unwrap(),
        cause["message"].as_str().unwrap()
    );
    assert_eq!(status["message"], text);
}

async fn labels_are_checked(api: Context) {
    let cause = json!({"reason": "FieldValueInvalid", "field": "metadata.labels",
        "message": format!("Invalid value: \"bad key\": {LABEL_KEY}")});
    refused_metadata(&api, json!({"labels": {"bad key": "x"}}), cause).await;
    let cause = json!({"reason": "FieldValueInvalid", "field": "metadata.labels", "message":
        "Invalid value: \"bad value!\": a valid label must be an empty string or consist of \
         alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
         character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
         '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"});
    refused_metadata(&api, json!({"labels": {"k": "bad value!"}}), cause).await;
}

async fn annotations_are_checked(api: Context) {
    let cause = json!({"reason": "FieldValueInvalid", "field": "metadata.annotations",
        "message": format!("Invalid value: \"bad key\": {LABEL_KEY}")});
    refused_metadata(&api, json!({"annotations": {"bad key": "x"}}), cause).await;
}

async fn finalizers_are_checked(api: Context) {
    let cause = json!({"reason": "FieldValueInvalid", "field": "metadata.finalizers[0]",
        "message": "Invalid value: \"bad\": name is neither a standard finalizer name nor is it fully qualified"});
    refused_metadata(&api, json!({"finalizers": ["bad"]}), cause).await;
}

async fn owners_are_checked(api: Context) {
    let cause = json!({"reason": "FieldValueInvalid", "field": "metadata.ownerReferences.uid",
        "message": "Invalid value: \"\": must not be empty"});
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a"});
    refused_metadata(&api, json!({"ownerReferences": [owner]}), cause).await;
}

async fn only_one_controller(api: Context) {
    let owner = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "controller": true});
    let mut body = config_map("a");
    body["metadata"]["ownerReferences"] = json!([owner("x"), owner("y")]);
    let status = api
        .post(&api.core("configmaps"), &body)
        .await
        .refused_somehow(422, "Invalid");
    let cause = &status["details"]["causes"][0];
    assert_eq!(cause["field"], "metadata.ownerReferences");
    let expected = "Only one reference can have Controller set to true. Found \"true\" in \
                    references for ConfigMap/x and ConfigMap/y";
    assert!(
        cause["message"].as_str().unwrap().ends_with(expected),
        "{cause}"
    );
}

async fn kind_and_version_may_be_left_out_of_built_in(api: Context) {
    let body = json!({"metadata": {"name": "a"}});
    let created = api
        .post(&api.core("configmaps"), &body)
        .await
        .expect_code(201);
    assert_eq!(created["kind"], "ConfigMap");
    assert_eq!(created["apiVersion"], "v1");
}

async fn kind_must_be_given_for_custom(api: Context) {
    api.define_things(anything()).await;
    let body = json!({"apiVersion": format!("{}/v1", api.group), "metadata": {"name": "a"}});
    let status = api
        .post(&api.custom("things"), &body)
        .await
        .refused_somehow(400, "BadRequest");
    let expected =
        "the object provided is unrecognized (must be of type Thing): Object 'Kind' is missing in";
    assert!(
        status["message"].as_str().unwrap().starts_with(expected),
        "{status}"
    );
    let body = json!({"kind": "Thing", "metadata": {"name": "a"}});
    let message = format!(
        "the API version in the data () does not match the expected API version ({}/v1)",
        api.group
    );
    api.post(&api.custom("things"), &body)
        .await
        .refused(400, "BadRequest", &message);
}

async fn wrong_kind_is_refused(api: Context) {
    let body = json!({"apiVersion": "v1", "kind": "Nope", "metadata": {"name": "a"}});
    let status = api
        .post(&api.core("configmaps"), &body)
        .await
        .refused_somehow(400, "BadRequest");
    let expected = "Nope in version \"v1\" cannot be handled as a ConfigMap: ";
    assert!(
        status["message"].as_str().unwrap().starts_with(expected),
        "{status}"
    );
}

async fn wrong_kind_of_custom_is_refused(api: Context) {
    api.define_things(anything()).await;
    let body = api.thing("a", json!({"kind": "Other"}));
    let answer = api.post(&api.custom("things"), &body).await;
    let message = format!(
        "Other.{} \"a\" is invalid: kind: Invalid value: \"Other\": must be Thing",
        api.group
    );
    let status = answer.refused(422, "Invalid", &message);
    assert_eq!(status["details"]["kind"], "Other");
    assert_eq!(status["details"]["causes"][0]["field"], "kind");
}

async fn wrong_version_of_custom_is_refused(api: Context) {
    api.define_things(anything()).await;
    let body = api.thing("a", json!({"apiVersion": format!("{}/v9", api.group)}));
    let message = format!(
        "the API version in the data ({0}/v9) does not match the expected API version ({0}/v1)",
        api.group
    );
    api.post(&api.custom("things"), &body)
        .await
        .refused(400, "BadRequest", &message);
}
