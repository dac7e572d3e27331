//! What the cases share: a context with its own namespace and group, exact HTTP calls, waiting.
//!
//! Calls go through `kube::Client` but are written as HTTP, because the exact answer is the point.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use http::{Method, Request};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

pub(crate) use self::answer::Answer;
pub(crate) use self::events::Events;

mod answer;
mod events;
pub(crate) mod validation;

/// Where CustomResourceDefinitions are.
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A uid that no object has.
pub(crate) const OTHER_UID: &str = "11111111-1111-1111-1111-111111111111";

/// What the server says about an object that belongs elsewhere.
pub(crate) const OTHER_NAMESPACE: &str =
    "the namespace of the provided object does not match the namespace sent on the request";

/// How long a condition may take to become true.
const CONDITION_TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// One case of the suite.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Context) -> Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Declares `cases()` of a module: all functions named here.
macro_rules! cases {
    ($module:literal: $($name:ident),* $(,)?) => {
        pub(crate) fn cases() -> Vec<$crate::support::Case> {
            vec![$($crate::support::Case {
                name: concat!($module, "::", stringify!($name)),
                run: |context| Box::pin($name(context)),
            }),*]
        }
    };
}
pub(crate) use cases;

/// What one case works with.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) client: Client,
    /// A namespace of the case's own, which exists.
    pub(crate) namespace: String,
    /// An API group of the case's own, for its CustomResourceDefinitions.
    pub(crate) group: String,
    /// Sent with every request.
    headers: Vec<(&'static str, String)>,
}

impl Context {
    pub(crate) async fn new(client: Client, case: &str) -> Self {
        let namespace = case.replace("::", "-").replace('_', "-");
        // Names of namespaces end at 63 characters; the group shares the prefix.
        let namespace: String = namespace.chars().take(60).collect();
        let namespace = namespace.trim_end_matches('-').to_owned();
        let context = Self {
            client,
            group: format!("{namespace}.example.com"),
            namespace,
            headers: Vec::new(),
        };
        context.create_namespace(&context.namespace).await;
        context
    }

    /// The same, speaking for a user in no group but that of everybody.
    pub(crate) fn impersonating(&self, user: &str) -> Self {
        self.with_header("impersonate-user", user)
    }

    pub(crate) fn with_header(&self, name: &'static str, value: &str) -> Self {
        let mut context = self.clone();
        context.headers.push((name, value.to_owned()));
        context
    }

    /// Creates a namespace; the embedded server and the real one both allow it at any time.
    pub(crate) async fn create_namespace(&self, name: &str) {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.post("/api/v1/namespaces", &body)
            .await
            .expect_code(201);
    }

    /// The path of a core resource in the case's namespace: `configmaps`, `secrets/name`, …
    pub(crate) fn core(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.namespace)
    }

    /// The path of a resource of the case's own group, version v1, in the case's namespace.
    pub(crate) fn custom(&self, rest: &str) -> String {
        format!(
            "/apis/{}/v1/namespaces/{}/{rest}",
            self.group, self.namespace
        )
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "application/json", Vec::new())
            .await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, "application/json", Vec::new())
            .await
    }

    pub(crate) async fn delete_with(&self, path: &str, options: &Value) -> Answer {
        self.send(
            Method::DELETE,
            path,
            "application/json",
            options.to_string(),
        )
        .await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, "application/json", body.to_string())
            .await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PUT, path, "application/json", body.to_string())
            .await
    }

    pub(crate) async fn merge(&self, path: &str, body: &Value) -> Answer {
        self.send(
            Method::PATCH,
            path,
            "application/merge-patch+json",
            body.to_string(),
        )
        .await
    }

    pub(crate) async fn json_patch(&self, path: &str, body: &Value) -> Answer {
        self.send(
            Method::PATCH,
            path,
            "application/json-patch+json",
            body.to_string(),
        )
        .await
    }

    pub(crate) async fn strategic(&self, path: &str, body: &Value) -> Answer {
        self.send(
            Method::PATCH,
            path,
            "application/strategic-merge-patch+json",
            body.to_string(),
        )
        .await
    }

    /// Applies a configuration; `query` begins with the field manager's name.
    pub(crate) async fn apply(&self, path: &str, query: &str, config: &Value) -> Answer {
        self.send(
            Method::PATCH,
            &format!("{path}?fieldManager={query}"),
            "application/apply-patch+yaml",
            config.to_string(),
        )
        .await
    }

    /// Sends one request and reads the whole answer. An empty content type sends none.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: impl Into<Vec<u8>>,
    ) -> Answer {
        let attempted = format!("{method} {path}");
        let mut request = Request::builder().method(method).uri(path);
        if !content_type.is_empty() {
            request = request.header("content-type", content_type);
        }
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Body::from(body.into())).unwrap();
        let response = self.client.send(request).await.expect(&attempted);
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.expect(&attempted).to_bytes();
        Answer::new(attempted, head, bytes.to_vec())
    }

    /// Opens a watch; `query` comes after `watch=true`.
    pub(crate) async fn watch(&self, path: &str, query: &str) -> Events {
        Events::open(&self.client, &format!("{path}?watch=true&{query}")).await
    }

    /// Asks again until the answer satisfies the condition.
    pub(crate) async fn wait_for(&self, path: &str, condition: impl Fn(&Answer) -> bool) -> Answer {
        let give_up = tokio::time::Instant::now() + CONDITION_TIMEOUT;
        loop {
            let answer = self.get(path).await;
            if condition(&answer) {
                return answer;
            }
            let waiting = tokio::time::Instant::now() < give_up;
            assert!(waiting, "still not as expected: {answer}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until the object is gone.
    pub(crate) async fn wait_gone(&self, path: &str) {
        self.wait_for(path, |answer| answer.code == 404).await;
    }

    /// Creates a ConfigMap and gives it as stored.
    pub(crate) async fn config_map(&self, name: &str, extra: Value) -> Value {
        let mut body = config_map(name);
        overlay(&mut body, &extra);
        self.post(&self.core("configmaps"), &body)
            .await
            .expect_code(201)
    }

    /// Defines `things` of the case's group with one version v1 whose objects look like `schema`,
    /// with the status subresource, and waits until they are served.
    pub(crate) async fn define_things(&self, schema: Value) {
        let definition = self.things(json!([version("v1", schema)]));
        self.define(&definition).await;
    }

    /// Creates a CustomResourceDefinition and waits until all its versions are served.
    pub(crate) async fn define(&self, definition: &Value) {
        let path = DEFINITIONS;
        self.post(path, definition).await.expect_code(201);
        let name = definition["metadata"]["name"].as_str().unwrap();
        self.wait_for(&format!("{path}/{name}"), |answer| {
            answer.condition("Established") == "True"
        })
        .await;
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let group = definition["spec"]["group"].as_str().unwrap();
            let plural = definition["spec"]["names"]["plural"].as_str().unwrap();
            let collection = format!(
                "/apis/{group}/{}/{plural}",
                version["name"].as_str().unwrap()
            );
            if version["served"] == true {
                self.wait_for(&collection, |answer| answer.code == 200)
                    .await;
            }
        }
    }

    /// The definition of `things` with the versions given; namespaced.
    pub(crate) fn things(&self, versions: Value) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("things.{}", self.group)},
            "spec": {
                "group": self.group,
                "scope": "Namespaced",
                "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
                "versions": versions,
            },
        })
    }

    /// Where the definition of `things` is.
    pub(crate) fn things_definition(&self) -> String {
        format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{}",
            self.group
        )
    }

    /// A Thing with the given fields beside `metadata`.
    pub(crate) fn thing(&self, name: &str, fields: Value) -> Value {
        let mut thing = json!({
            "apiVersion": format!("{}/v1", self.group),
            "kind": "Thing",
            "metadata": {"name": name},
        });
        overlay(&mut thing, &fields);
        thing
    }

    pub(crate) async fn create_thing(&self, name: &str, fields: Value) -> Value {
        let thing = self.thing(name, fields);
        self.post(&self.custom("things"), &thing)
            .await
            .expect_code(201)
    }
}

/// One served and stored version of a definition, with the status subresource.
pub(crate) fn version(name: &str, schema: Value) -> Value {
    json!({
        "name": name,
        "served": true,
        "storage": true,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    })
}

/// A schema that keeps whatever is put into `spec` and `status`.
pub(crate) fn anything() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"type": "object", "properties": {"spec": open, "status": open}})
}

/// A schema with the given properties of `spec`.
pub(crate) fn spec_schema(properties: Value) -> Value {
    json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": properties}},
    })
}

pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

/// The resourceVersion of an object or a list.
pub(crate) fn resource_version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"]
        .as_str()
        .expect("has a resourceVersion")
}

/// The resourceVersion as a number, to tell earlier from later.
pub(crate) fn version_number(object: &Value) -> u64 {
    resource_version(object)
        .parse()
        .expect("a resourceVersion is a number")
}

/// Lays one object over another, member by member; lists and plain values are replaced.
pub(crate) fn overlay(onto: &mut Value, patch: &Value) {
    match (onto, patch) {
        (Value::Object(onto), Value::Object(patch)) => {
            for (key, value) in patch {
                overlay(onto.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (onto, patch) => *onto = patch.clone(),
    }
}

/// What each manager owns of an object, by the manager's name.
pub(crate) fn owners(object: &Value) -> Value {
    let entries = object["metadata"]["managedFields"].as_array();
    entries
        .into_iter()
        .flatten()
        .map(|entry| {
            let name = entry["manager"].as_str().unwrap_or_default().to_owned();
            (name, entry["fieldsV1"].clone())
        })
        .collect()
}
