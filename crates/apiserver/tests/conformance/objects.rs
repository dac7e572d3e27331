//! One object at a time: create, get, replace, delete, names, identity, generation, status.

use serde_json::{Value, json};

use crate::support::{Context, anything, cases, config_map, overlay, resource_version, version};

cases!("objects":
    create_gives_what_is_stored, create_sets_identity, create_ignores_identity_given,
    create_twice_is_refused, create_custom_twice_is_refused, create_with_resource_version_is_refused,
    create_without_name_is_refused, create_with_invalid_name_is_refused,
    create_with_too_long_name_is_refused, create_custom_with_invalid_name_is_refused,
    create_in_other_namespace_is_refused, create_in_missing_namespace_is_refused,
    generate_name_appends, generate_name_is_checked, labels_are_checked, annotations_are_checked,
    finalizers_are_checked, owners_are_checked, only_one_controller,
    kind_and_version_may_be_left_out_of_built_in, kind_must_be_given_for_custom,
    wrong_kind_is_refused, wrong_kind_of_custom_is_refused, wrong_version_of_custom_is_refused,
    get_missing, get_missing_custom, get_unknown_resource, get_unknown_group,
    replace_changes_everything, replace_without_change_keeps_version, replace_missing,
    replace_stale_is_refused, replace_custom_stale_is_refused,
    replace_custom_needs_resource_version, replace_with_malformed_resource_version,
    replace_with_other_name_is_refused, replace_without_name_is_refused,
    replace_with_other_namespace_is_refused, replace_with_other_uid_is_refused,
    creation_time_cannot_change, deletion_time_cannot_be_set, generation_cannot_be_set,
    delete_answers_with_status, delete_custom_answers_with_status, delete_missing,
    delete_with_other_uid_is_refused, delete_with_other_version_is_refused,
    delete_with_right_preconditions, delete_with_unknown_policy_is_refused,
    delete_collection_gives_what_it_deleted, delete_collection_selects,
    dry_run_create, dry_run_replace_and_patch, dry_run_delete, dry_run_delete_collection,
    dry_run_must_be_all, generation_follows_spec, generation_without_status_subresource,
    status_is_dropped_on_create, status_is_ignored_on_main, spec_is_ignored_on_status,
    status_replace_needs_current_version, status_of_missing, status_without_subresource,
    status_cannot_be_created_or_deleted, cluster_scope,
);

pub(crate) const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case \
    alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
    (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

pub(crate) const LABEL_KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
    '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

const OTHER_UID: &str = "11111111-1111-1111-1111-111111111111";

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

const OTHER_NAMESPACE: &str =
    "the namespace of the provided object does not match the namespace sent on the request";

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
    let expected = "Nope in version \"v1\" cannot be handled as a ConfigMap: no kind \"Nope\" is \
                    registered for version \"v1\"";
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

async fn get_missing(api: Context) {
    let answer = api.get(&api.core("configmaps/missing")).await;
    let status = answer.refused(404, "NotFound", "configmaps \"missing\" not found");
    assert_eq!(
        status["details"],
        json!({"name": "missing", "kind": "configmaps"})
    );
}

async fn get_missing_custom(api: Context) {
    api.define_things(anything()).await;
    let answer = api.get(&api.custom("things/missing")).await;
    let message = format!("things.{} \"missing\" not found", api.group);
    let status = answer.refused(404, "NotFound", &message);
    assert_eq!(
        status["details"],
        json!({"name": "missing", "group": api.group, "kind": "things"})
    );
}

async fn get_unknown_resource(api: Context) {
    for path in [api.core("nonsense"), "/apis/apps/v1/nonsense".to_owned()] {
        let message = "the server could not find the requested resource";
        let status = api.get(&path).await.refused(404, "NotFound", message);
        assert_eq!(status["details"], json!({}));
    }
}

async fn get_unknown_group(api: Context) {
    api.define_things(anything()).await;
    let unknown = [
        "/apis/nope.example.com/v1/things".to_owned(),
        format!("/apis/{}/v2/things", api.group),
        format!("/apis/{}/v1/nonsense", api.group),
    ];
    for path in unknown {
        let answer = api.get(&path).await;
        assert_eq!(answer.text, "404 page not found\n", "{answer}");
        answer.expect_code(404);
    }
}

async fn replace_changes_everything(api: Context) {
    let created = api
        .config_map(
            "a",
            json!({"data": {"k": "v"}, "metadata": {"labels": {"l": "1"}}}),
        )
        .await;
    let mut body = config_map("a");
    body["data"] = json!({"other": "w"});
    let replaced = api
        .put(&api.core("configmaps/a"), &body)
        .await
        .expect_code(200);
    assert_eq!(replaced["data"], json!({"other": "w"}));
    assert_eq!(replaced["metadata"]["labels"], Value::Null);
    assert_eq!(replaced["metadata"]["uid"], created["metadata"]["uid"]);
    assert_ne!(resource_version(&replaced), resource_version(&created));
    assert_eq!(
        api.get(&api.core("configmaps/a")).await.expect_code(200),
        replaced
    );
}

async fn replace_without_change_keeps_version(api: Context) {
    let created = api.config_map("a", json!({"data": {"k": "v"}})).await;
    let replaced = api
        .put(&api.core("configmaps/a"), &created)
        .await
        .expect_code(200);
    assert_eq!(resource_version(&replaced), resource_version(&created));
}

async fn replace_missing(api: Context) {
    let answer = api.put(&api.core("configmaps/a"), &config_map("a")).await;
    answer.refused(404, "NotFound", "configmaps \"a\" not found");
}

async fn replace_stale_is_refused(api: Context) {
    let stale = api.config_map("a", json!({})).await;
    let mut body = stale.clone();
    body["data"] = json!({"k": "v"});
    api.put(&api.core("configmaps/a"), &body)
        .await
        .expect_code(200);
    let answer = api.put(&api.core("configmaps/a"), &stale).await;
    let message = format!("Operation cannot be fulfilled on configmaps \"a\": {MODIFIED}");
    let status = answer.refused(409, "Conflict", &message);
    assert_eq!(
        status["details"],
        json!({"name": "a", "kind": "configmaps"})
    );
}

async fn replace_custom_stale_is_refused(api: Context) {
    api.define_things(anything()).await;
    let stale = api.create_thing("a", json!({})).await;
    let mut body = stale.clone();
    body["spec"] = json!({"x": 1});
    api.put(&api.custom("things/a"), &body)
        .await
        .expect_code(200);
    let answer = api.put(&api.custom("things/a"), &stale).await;
    let message = format!(
        "Operation cannot be fulfilled on things.{} \"a\": {MODIFIED}",
        api.group
    );
    let status = answer.refused(409, "Conflict", &message);
    assert_eq!(
        status["details"],
        json!({"name": "a", "group": api.group, "kind": "things"})
    );
}

async fn replace_custom_needs_resource_version(api: Context) {
    api.define_things(anything()).await;
    api.create_thing("a", json!({})).await;
    let answer = api
        .put(&api.custom("things/a"), &api.thing("a", json!({})))
        .await;
    let message = format!(
        "things.{} \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update",
        api.group
    );
    let status = answer.refused(422, "Invalid", &message);
    assert_eq!(status["details"]["kind"], "things");
    let cause = &status["details"]["causes"][0];
    assert_eq!(cause["field"], "metadata.resourceVersion");
    assert_eq!(
        cause["message"],
        "Invalid value: 0: must be specified for an update"
    );
}

async fn replace_with_malformed_resource_version(api: Context) {
    let mut body = api.config_map("a", json!({})).await;
    body["metadata"]["resourceVersion"] = json!("abc");
    let answer = api.put(&api.core("configmaps/a"), &body).await;
    answer.refused(
        500,
        "",
        "strconv.ParseUint: parsing \"abc\": invalid syntax",
    );
}

async fn replace_with_other_name_is_refused(api: Context) {
    api.config_map("a", json!({})).await;
    let answer = api.put(&api.core("configmaps/a"), &config_map("b")).await;
    let message = "the name of the object (b) does not match the name on the URL (a)";
    answer.refused(400, "BadRequest", message);
}

async fn replace_without_name_is_refused(api: Context) {
    api.config_map("a", json!({})).await;
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
    let answer = api.put(&api.core("configmaps/a"), &body).await;
    let message =
        "the name of the object (a based on URL) was undeterminable: name must be provided";
    answer.refused(400, "BadRequest", message);
}

async fn replace_with_other_namespace_is_refused(api: Context) {
    let mut body = api.config_map("a", json!({})).await;
    body["metadata"]["namespace"] = json!("other");
    let answer = api.put(&api.core("configmaps/a"), &body).await;
    answer.refused(400, "BadRequest", OTHER_NAMESPACE);
}

async fn replace_with_other_uid_is_refused(api: Context) {
    let created = api.config_map("a", json!({})).await;
    let mut body = config_map("a");
    body["metadata"]["uid"] = json!(OTHER_UID);
    let status = api
        .put(&api.core("configmaps/a"), &body)
        .await
        .refused_somehow(409, "Conflict");
    let expected = format!(
        "Precondition failed: UID in precondition: {OTHER_UID}, UID in object meta: {}",
        created["metadata"]["uid"].as_str().unwrap()
    );
    assert!(
        status["message"].as_str().unwrap().ends_with(&expected),
        "{status}"
    );
}

async fn creation_time_cannot_change(api: Context) {
    let created = api.config_map("a", json!({})).await;
    let mut body = config_map("a");
    body["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
    let replaced = api
        .put(&api.core("configmaps/a"), &body)
        .await
        .expect_code(200);
    assert_eq!(
        replaced["metadata"]["creationTimestamp"],
        created["metadata"]["creationTimestamp"]
    );
}

async fn deletion_time_cannot_be_set(api: Context) {
    api.config_map("a", json!({})).await;
    let mut body = config_map("a");
    body["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
    let answer = api.put(&api.core("configmaps/a"), &body).await;
    let message = "ConfigMap \"a\" is invalid: metadata.deletionTimestamp: Invalid value: \
                   \"2020-01-01T00:00:00Z\": field is immutable";
    let status = answer.refused(422, "Invalid", message);
    assert_eq!(
        status["details"]["causes"][0]["field"],
        "metadata.deletionTimestamp"
    );
}

async fn generation_cannot_be_set(api: Context) {
    api.define_things(anything()).await;
    api.create_thing("a", json!({"metadata": {"generation": 7}}))
        .await;
    let patch = json!({"metadata": {"generation": 99}});
    let patched = api
        .merge(&api.custom("things/a"), &patch)
        .await
        .expect_code(200);
    assert_eq!(patched["metadata"]["generation"], 1);
}

async fn delete_answers_with_status(api: Context) {
    let created = api.config_map("a", json!({})).await;
    let answer = api.delete(&api.core("configmaps/a")).await.expect_code(200);
    assert_eq!(
        answer,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]},
        })
    );
    api.get(&api.core("configmaps/a")).await.expect_code(404);
}

async fn delete_custom_answers_with_status(api: Context) {
    api.define_things(anything()).await;
    let created = api.create_thing("a", json!({})).await;
    let answer = api.delete(&api.custom("things/a")).await.expect_code(200);
    let uid = &created["metadata"]["uid"];
    assert_eq!(answer["status"], "Success");
    assert_eq!(
        answer["details"],
        json!({"name": "a", "group": api.group, "kind": "things", "uid": uid})
    );
}

async fn delete_missing(api: Context) {
    let answer = api.delete(&api.core("configmaps/a")).await;
    answer.refused(404, "NotFound", "configmaps \"a\" not found");
}

async fn delete_with_other_uid_is_refused(api: Context) {
    let created = api.config_map("a", json!({})).await;
    let options = json!({"preconditions": {"uid": OTHER_UID}});
    let answer = api.delete_with(&api.core("configmaps/a"), &options).await;
    let message = format!(
        "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition ({OTHER_UID}) \
         does not match the UID in record ({}). The object might have been deleted and then recreated",
        created["metadata"]["uid"].as_str().unwrap()
    );
    let status = answer.refused(409, "Conflict", &message);
    assert_eq!(status["details"], json!({"name": "a", "kind": "ConfigMap"}));
}

async fn delete_with_other_version_is_refused(api: Context) {
    let created = api.config_map("a", json!({})).await;
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": "1"}});
    let answer = api.delete_with(&api.core("configmaps/a"), &options).await;
    let message = format!(
        "Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in the precondition (1) \
         does not match the ResourceVersion in record ({}). The object might have been modified",
        resource_version(&created)
    );
    answer.refused(409, "Conflict", &message);
}

async fn delete_with_right_preconditions(api: Context) {
    let created = api.config_map("a", json!({})).await;
    let metadata = &created["metadata"];
    let preconditions =
        json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]});
    let options = json!({"preconditions": preconditions, "propagationPolicy": "Background"});
    api.delete_with(&api.core("configmaps/a"), &options)
        .await
        .expect_code(200);
}

async fn delete_with_unknown_policy_is_refused(api: Context) {
    api.config_map("a", json!({})).await;
    let options = json!({"propagationPolicy": "Nope"});
    let answer = api.delete_with(&api.core("configmaps/a"), &options).await;
    let message = "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \
                   \"Nope\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"";
    let status = answer.refused(422, "Invalid", message);
    assert_eq!(status["details"]["group"], "meta.k8s.io");
    assert_eq!(status["details"]["kind"], "DeleteOptions");
    api.get(&api.core("configmaps/a")).await.expect_code(200);
}

async fn delete_collection_gives_what_it_deleted(api: Context) {
    api.define_things(anything()).await;
    api.create_thing("b", json!({})).await;
    api.create_thing("a", json!({})).await;
    let answer = api.delete(&api.custom("things")).await;
    assert_eq!(answer.names(), ["a", "b"]);
    assert_eq!(answer.body["kind"], "ThingList");
    assert!(api.get(&api.custom("things")).await.names().is_empty());
}

async fn delete_collection_selects(api: Context) {
    api.config_map("a", json!({"metadata": {"labels": {"go": "yes"}}}))
        .await;
    api.config_map("b", json!({"metadata": {"labels": {"go": "yes"}}}))
        .await;
    api.config_map("c", json!({})).await;
    let path = api.core("configmaps?labelSelector=go%3Dyes&fieldSelector=metadata.name!%3Db");
    assert_eq!(api.delete(&path).await.names(), ["a"]);
    assert_eq!(api.get(&api.core("configmaps")).await.names(), ["b", "c"]);
}

async fn dry_run_create(api: Context) {
    let path = api.core("configmaps?dryRun=All");
    let created = api.post(&path, &config_map("a")).await.expect_code(201);
    assert_eq!(created["metadata"]["resourceVersion"], Value::Null);
    assert!(created["metadata"]["uid"].is_string());
    api.get(&api.core("configmaps/a")).await.expect_code(404);
    api.config_map("a", json!({})).await;
    api.post(&path, &config_map("a"))
        .await
        .refused_somehow(409, "AlreadyExists");
}

async fn dry_run_replace_and_patch(api: Context) {
    let created = api.config_map("a", json!({"data": {"k": "v"}})).await;
    let path = api.core("configmaps/a?dryRun=All");
    let mut body = config_map("a");
    body["data"] = json!({"k": "w"});
    let replaced = api.put(&path, &body).await.expect_code(200);
    assert_eq!(replaced["data"]["k"], "w");
    assert_eq!(resource_version(&replaced), resource_version(&created));
    let patched = api
        .merge(&path, &json!({"data": {"k": "x"}}))
        .await
        .expect_code(200);
    assert_eq!(patched["data"]["k"], "x");
    assert_eq!(
        api.get(&api.core("configmaps/a")).await.expect_code(200),
        created
    );
}

async fn dry_run_delete(api: Context) {
    api.config_map("a", json!({})).await;
    let answer = api
        .delete(&api.core("configmaps/a?dryRun=All"))
        .await
        .expect_code(200);
    assert_eq!(answer["status"], "Success");
    api.delete_with(&api.core("configmaps/a"), &json!({"dryRun": ["All"]}))
        .await
        .expect_code(200);
    api.get(&api.core("configmaps/a")).await.expect_code(200);
}

async fn dry_run_delete_collection(api: Context) {
    api.config_map("a", json!({})).await;
    assert_eq!(
        api.delete(&api.core("configmaps?dryRun=All")).await.names(),
        ["a"]
    );
    api.get(&api.core("configmaps/a")).await.expect_code(200);
}

async fn dry_run_must_be_all(api: Context) {
    let unsupported = "dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"";
    let answer = api
        .post(&api.core("configmaps?dryRun=Some"), &config_map("a"))
        .await;
    let message = format!("CreateOptions.meta.k8s.io \"\" is invalid: {unsupported}");
    answer.refused(422, "Invalid", &message);
    let answer = api.delete(&api.core("configmaps/a?dryRun=Some")).await;
    let message = format!("DeleteOptions.meta.k8s.io \"\" is invalid: {unsupported}");
    answer.refused(422, "Invalid", &message);
    api.get(&api.core("configmaps/a")).await.expect_code(404);
}

/// Merges a patch and gives the generation afterwards.
async fn generation_after(api: &Context, path: &str, patch: Value) -> i64 {
    let patched = api.merge(path, &patch).await.expect_code(200);
    patched["metadata"]["generation"].as_i64().unwrap()
}

async fn generation_follows_spec(api: Context) {
    api.define_things(anything()).await;
    let created = api.create_thing("a", json!({"spec": {"x": 1}})).await;
    assert_eq!(created["metadata"]["generation"], 1);
    let (main, status) = (api.custom("things/a"), api.custom("things/a/status"));
    assert_eq!(
        generation_after(&api, &main, json!({"metadata": {"labels": {"l": "1"}}})).await,
        1
    );
    assert_eq!(
        generation_after(&api, &main, json!({"spec": {"x": 1}})).await,
        1
    );
    assert_eq!(
        generation_after(&api, &main, json!({"spec": {"x": 2}})).await,
        2
    );
    assert_eq!(
        generation_after(&api, &status, json!({"status": {"y": 1}})).await,
        2
    );
}

async fn generation_without_status_subresource(api: Context) {
    let mut plain = version("v1", anything());
    plain["subresources"] = json!({});
    api.define(&api.things(json!([plain]))).await;
    let created = api
        .create_thing("a", json!({"spec": {"x": 1}, "status": {"y": 1}}))
        .await;
    assert_eq!(created["status"], json!({"y": 1}));
    let main = api.custom("things/a");
    assert_eq!(
        generation_after(&api, &main, json!({"status": {"y": 2}})).await,
        2
    );
    assert_eq!(
        generation_after(&api, &main, json!({"metadata": {"labels": {"l": "1"}}})).await,
        2
    );
}

async fn status_is_dropped_on_create(api: Context) {
    api.define_things(anything()).await;
    let created = api
        .create_thing("a", json!({"spec": {"x": 1}, "status": {"y": 1}}))
        .await;
    assert_eq!(created["status"], Value::Null);
}

async fn status_is_ignored_on_main(api: Context) {
    api.define_things(anything()).await;
    let mut thing = api.create_thing("a", json!({"spec": {"x": 1}})).await;
    thing["spec"] = json!({"x": 2});
    thing["status"] = json!({"y": 1});
    let replaced = api
        .put(&api.custom("things/a"), &thing)
        .await
        .expect_code(200);
    assert_eq!(replaced["spec"], json!({"x": 2}));
    assert_eq!(replaced["status"], Value::Null);
}

async fn spec_is_ignored_on_status(api: Context) {
    api.define_things(anything()).await;
    let created = api
        .create_thing(
            "a",
            json!({"spec": {"x": 1}, "metadata": {"labels": {"l": "1"}}}),
        )
        .await;
    let patch = json!({
        "spec": {"x": 77}, "status": {"ok": true},
        "metadata": {"labels": {"l": "2"}, "annotations": {"n": "1"}, "finalizers": ["example.com/f"]},
    });
    let patched = api
        .merge(&api.custom("things/a/status"), &patch)
        .await
        .expect_code(200);
    assert_eq!(patched["spec"], json!({"x": 1}));
    assert_eq!(patched["status"], json!({"ok": true}));
    assert_eq!(patched["metadata"]["labels"], json!({"l": "1"}));
    assert_eq!(patched["metadata"]["annotations"], Value::Null);
    assert_eq!(patched["metadata"]["finalizers"], Value::Null);
    assert_ne!(resource_version(&patched), resource_version(&created));
    assert_eq!(
        api.get(&api.custom("things/a/status"))
            .await
            .expect_code(200),
        patched
    );
}

async fn status_replace_needs_current_version(api: Context) {
    api.define_things(anything()).await;
    let mut thing = api.create_thing("a", json!({})).await;
    let path = api.custom("things/a/status");
    api.put(&path, &api.thing("a", json!({"status": {"x": 1}})))
        .await
        .refused_somehow(422, "Invalid");
    thing["status"] = json!({"x": 1});
    let replaced = api.put(&path, &thing).await.expect_code(200);
    assert_eq!(replaced["status"], json!({"x": 1}));
    thing["status"] = json!({"x": 2});
    api.put(&path, &thing)
        .await
        .refused_somehow(409, "Conflict");
}

async fn status_of_missing(api: Context) {
    api.define_things(anything()).await;
    let message = format!("things.{} \"a\" not found", api.group);
    api.get(&api.custom("things/a/status"))
        .await
        .refused(404, "NotFound", &message);
    let patch = json!({"status": {}});
    let answer = api.merge(&api.custom("things/a/status"), &patch).await;
    answer.refused(404, "NotFound", &message);
}

async fn status_without_subresource(api: Context) {
    let mut plain = version("v1", anything());
    plain["subresources"] = json!({});
    api.define(&api.things(json!([plain]))).await;
    api.create_thing("a", json!({})).await;
    let message = format!("things.{} \"a\" not found", api.group);
    api.get(&api.custom("things/a/status"))
        .await
        .refused(404, "NotFound", &message);
    api.config_map("a", json!({})).await;
    let message = "the server could not find the requested resource";
    api.get(&api.core("configmaps/a/status"))
        .await
        .refused(404, "NotFound", message);
}

async fn status_cannot_be_created_or_deleted(api: Context) {
    api.define_things(anything()).await;
    let thing = api.create_thing("a", json!({})).await;
    let path = api.custom("things/a/status");
    let message = |verb| {
        format!(
            "{verb} is not supported on resources of kind \"things.{}\"",
            api.group
        )
    };
    let status = api
        .post(&path, &thing)
        .await
        .refused(405, "MethodNotAllowed", &message("create"));
    assert_eq!(
        status["details"],
        json!({"group": api.group, "kind": "things"})
    );
    api.delete(&path)
        .await
        .refused(405, "MethodNotAllowed", &message("delete"));
}

async fn cluster_scope(api: Context) {
    let mut definition = api.things(json!([version("v1", anything())]));
    definition["spec"]["scope"] = json!("Cluster");
    api.define(&definition).await;
    let things = format!("/apis/{}/v1/things", api.group);
    let thing = api.thing("a", json!({"metadata": {"namespace": "ignored"}}));
    let created = api.post(&things, &thing).await.expect_code(201);
    assert_eq!(created["metadata"]["namespace"], Value::Null);
    assert_eq!(api.get(&things).await.names(), ["a"]);
    let answer = api.get(&api.custom("things")).await;
    assert_eq!(answer.text, "404 page not found\n");
    answer.expect_code(404);
}
