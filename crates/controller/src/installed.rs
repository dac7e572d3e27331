//! Compares the installed CustomResourceDefinitions with ours.
//!
//! A server drops fields that its definition lacks silently. A controller that led on old
//! definitions would lose what it writes, so it does not lead; it says what is missing and how that
//! is corrected. It never applies definitions itself.

use std::collections::BTreeMap;

use api::crds::is_optional;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps,
    JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::{Api, Client, ResourceExt};

/// What corrects it.
const REMEDY: &str = "sluice crds | kubectl apply -f -";

/// The definitions could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This process may not read definitions, so it cannot tell.
    #[error("reading the CustomResourceDefinition {name} is forbidden")]
    Forbidden {
        /// The definition.
        name: String,
    },
    /// The API did not answer as it should.
    #[error("cannot read the CustomResourceDefinition {name}")]
    Api {
        /// The definition.
        name: String,
        /// Why.
        source: kube::Error,
    },
}

/// What the installed definitions lack, by definition; each with a sentence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutdatedDefinitions(BTreeMap<String, String>);

impl OutdatedDefinitions {
    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Display for OutdatedDefinitions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for sentence in self.0.values() {
            write!(formatter, "{sentence}; ")?;
        }
        write!(formatter, "to correct that: {REMEDY}")
    }
}

/// Compares what is installed with what this version of Sluice needs.
pub async fn compare(client: &Client) -> Result<OutdatedDefinitions, Error> {
    compare_with(client, &api::crds()).await
}

/// Compares what is installed with these definitions.
pub(crate) async fn compare_with(
    client: &Client,
    needed: &[CustomResourceDefinition],
) -> Result<OutdatedDefinitions, Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut lacking = OutdatedDefinitions::default();
    for ours in needed {
        let name = ours.name_any();
        let installed = match definitions.get_opt(&name).await {
            Err(kube::Error::Api(status)) if status.is_forbidden() => {
                if is_optional(ours) {
                    continue;
                }
                return Err(Error::Forbidden { name });
            }
            outcome => outcome.map_err(|source| Error::Api {
                name: name.clone(),
                source,
            })?,
        };
        if installed.is_none() && is_optional(ours) {
            continue;
        }
        if let Some(sentence) = sentence(&name, ours, installed.as_ref()) {
            lacking.0.insert(name, sentence);
        }
    }
    Ok(lacking)
}

fn sentence(
    name: &str,
    ours: &CustomResourceDefinition,
    installed: Option<&CustomResourceDefinition>,
) -> Option<String> {
    let Some(installed) = installed else {
        return Some(format!("{name} is not installed"));
    };
    for version in &ours.spec.versions {
        let mut versions = installed.spec.versions.iter();
        let same = versions.find(|same| same.name == version.name && same.served);
        let Some(same) = same else {
            return Some(format!("{name} does not serve {}", version.name));
        };
        let missing = missing(version, same);
        if !missing.is_empty() {
            return Some(format!("{name} lacks {}", missing.join(", ")));
        }
    }
    None
}

fn missing(
    ours: &CustomResourceDefinitionVersion,
    installed: &CustomResourceDefinitionVersion,
) -> Vec<String> {
    let mut missing = Vec::new();
    let has_status = |version: &CustomResourceDefinitionVersion| {
        let subresources = version.subresources.as_ref();
        subresources.is_some_and(|subresources| subresources.status.is_some())
    };
    if has_status(ours) && !has_status(installed) {
        missing.push("the status subresource".to_owned());
    }
    if let (Some(ours), Some(installed)) = (schema(ours), schema(installed)) {
        compare_schemas("", ours, installed, &mut missing);
    }
    missing
}

fn schema(version: &CustomResourceDefinitionVersion) -> Option<&JSONSchemaProps> {
    version.schema.as_ref()?.open_api_v3_schema.as_ref()
}

/// Names every field of ours that the installed schema would drop, but nothing below it.
fn compare_schemas(
    path: &str,
    ours: &JSONSchemaProps,
    installed: &JSONSchemaProps,
    missing: &mut Vec<String>,
) {
    if installed.x_kubernetes_preserve_unknown_fields == Some(true) {
        return;
    }
    if ours.x_kubernetes_preserve_unknown_fields == Some(true) {
        return missing.push(format!("{path}.*").trim_start_matches('.').to_owned());
    }
    let values = values_of(installed);
    for (name, field) in ours.properties.iter().flatten() {
        let path = format!("{path}.{name}").trim_start_matches('.').to_owned();
        let properties = installed.properties.as_ref();
        match properties.and_then(|fields| fields.get(name)).or(values) {
            Some(same) => compare_schemas(&path, field, same, missing),
            None => missing.push(path),
        }
    }
    if let Some(ours) = values_of(ours) {
        let path = format!("{path}.*");
        match values {
            Some(values) => compare_schemas(&path, ours, values, missing),
            None => missing.push(path),
        }
    }
    if let (Some(ours), Some(items)) = (items_of(ours), items_of(installed)) {
        compare_schemas(&format!("{path}[]"), ours, items, missing);
    }
}

fn values_of(schema: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    match schema.additional_properties.as_ref()? {
        JSONSchemaPropsOrBool::Schema(values) => Some(values),
        JSONSchemaPropsOrBool::Bool(_) => None,
    }
}

fn items_of(schema: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    match schema.items.as_ref()? {
        JSONSchemaPropsOrArray::Schema(items) => Some(items),
        JSONSchemaPropsOrArray::Schemas(items) => items.first(),
    }
}

#[cfg(test)]
mod tests {
    use apiserver::Server;
    use kube::api::{DeleteParams, PostParams};
    use serde_json::{Value, json};

    use super::*;

    async fn install(change: impl Fn(&mut Value)) -> Client {
        let client = Server::in_memory().client();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for crd in api::crds() {
            let mut crd = serde_json::to_value(crd).unwrap();
            change(&mut crd);
            let crd = serde_json::from_value(crd).unwrap();
            definitions
                .create(&PostParams::default(), &crd)
                .await
                .unwrap();
        }
        client
    }

    fn schema_of_pipeline(crd: &mut Value) -> Option<&mut Value> {
        let is_pipeline = crd["spec"]["names"]["kind"] == "Pipeline";
        is_pipeline.then(|| &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    }

    #[tokio::test]
    async fn ours_lack_nothing() {
        let client = install(|_| {}).await;
        assert_eq!(
            compare(&client).await.unwrap(),
            OutdatedDefinitions::default()
        );
    }

    #[tokio::test]
    async fn a_missing_definition_is_named_with_the_command() {
        let client = install(|_| {}).await;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let name = "changes.pipelines.weave.works";
        definitions
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
        let lacking = compare(&client).await.unwrap().to_string();
        assert_eq!(
            lacking,
            "changes.pipelines.weave.works is not installed; \
             to correct that: sluice crds | kubectl apply -f -"
        );
    }

    #[tokio::test]
    async fn a_missing_field_is_named_where_it_is_missing() {
        let client = install(|crd| {
            if let Some(schema) = schema_of_pipeline(crd) {
                let environment = schema
                    .pointer_mut("/properties/spec/properties/environments/items/properties")
                    .unwrap();
                environment
                    .as_object_mut()
                    .unwrap()
                    .remove("promotion")
                    .unwrap();
            }
        })
        .await;
        let lacking = compare(&client).await.unwrap().to_string();
        let expected = "pipelines.pipelines.weave.works lacks spec.environments[].promotion;";
        assert!(lacking.starts_with(expected), "{lacking}");
    }

    #[tokio::test]
    async fn a_definition_that_keeps_everything_lacks_nothing() {
        let client = install(|crd| {
            if let Some(schema) = schema_of_pipeline(crd) {
                *schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            }
        })
        .await;
        assert!(compare(&client).await.unwrap().is_empty());
    }
}
