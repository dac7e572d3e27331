//! Validates objects with an embedded API that has our CRDs, without storing them.

use std::collections::BTreeMap;

use anyhow::Context;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::{Api, Client, api::PostParams};
use serde_json::Value;

/// An embedded API with our CRDs.
pub(super) struct EmbeddedSchema {
    client: Client,
    /// By API version and kind.
    definitions: BTreeMap<(String, String), CustomResourceDefinition>,
}

impl EmbeddedSchema {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let client = apiserver::Server::in_memory().client();
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let mut definitions = BTreeMap::new();
        for crd in api::crds() {
            let created = api.create(&PostParams::default(), &crd).await;
            created.context("cannot create the CRDs in the embedded API")?;
            for version in &crd.spec.versions {
                let api_version = format!("{}/{}", crd.spec.group, version.name);
                let key = (api_version, crd.spec.names.kind.clone());
                definitions.insert(key, crd.clone());
            }
        }
        Ok(Self {
            client,
            definitions,
        })
    }

    fn definition(&self, value: &Value) -> Option<&CustomResourceDefinition> {
        let text = |field: &str| value[field].as_str().map(str::to_owned);
        let key = (text("apiVersion")?, text("kind")?);
        self.definitions.get(&key)
    }

    /// The schema of an object; `None` for kinds of others.
    pub(super) fn root(&self, value: &Value) -> Option<&JSONSchemaProps> {
        let versions = &self.definition(value)?.spec.versions;
        let version = value["apiVersion"].as_str()?.rsplit('/').next()?;
        let version = versions.iter().find(|it| it.name == version)?;
        version.schema.as_ref()?.open_api_v3_schema.as_ref()
    }

    /// The validation errors of an object: field and message.
    pub(super) async fn violations(&self, value: &Value) -> anyhow::Result<Vec<(String, String)>> {
        let Some(crd) = self.definition(value) else {
            return Ok(Vec::new());
        };
        let mut value = value.clone();
        // The embedded API has only this namespace, and the status is not part of a manifest.
        value["metadata"]["namespace"] = "default".into();
        if let Some(object) = value.as_object_mut() {
            object.remove("status");
        }
        let api_version = value["apiVersion"].as_str().unwrap_or_default();
        let path = format!(
            "/apis/{api_version}/namespaces/default/{}?dryRun=All&fieldValidation=Ignore",
            crd.spec.names.plural
        );
        let request = http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(value.to_string().into_bytes())
            .context("cannot call the embedded API")?;
        match self.client.request::<Value>(request).await {
            Ok(_) => Ok(Vec::new()),
            Err(kube::Error::Api(status)) => Ok(causes(&status)),
            Err(error) => Err(error).context("cannot call the embedded API"),
        }
    }
}

fn causes(status: &kube::core::Status) -> Vec<(String, String)> {
    let details = status.details.as_ref();
    let causes = details
        .map(|details| details.causes.as_slice())
        .unwrap_or_default();
    if causes.is_empty() {
        return vec![(String::new(), status.message.clone())];
    }
    // `<nil>` marks rules that were not evaluated because of other errors.
    causes
        .iter()
        .filter(|cause| cause.field != "<nil>")
        .map(|cause| {
            (
                cause.field.clone(),
                format!("{}: {}", cause.field, cause.message),
            )
        })
        .collect()
}
