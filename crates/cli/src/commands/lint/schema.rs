//! Validates objects with an embedded API that has our CRDs, without storing them.

use std::collections::BTreeMap;

use anyhow::Context;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
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

    /// The API versions and kinds.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (&str, &str)> {
        let keys = self.definitions.keys();
        keys.map(|(version, kind)| (version.as_str(), kind.as_str()))
    }

    /// The validation errors of an object: field and message.
    pub(super) async fn violations(&self, value: &Value) -> anyhow::Result<Vec<(String, String)>> {
        let Some(crd) = self.definition(value) else {
            return Ok(Vec::new());
        };
        let mut value = value.clone();
        if let Some(root) = self.root(&value) {
            quote_durations(&mut value, root);
        }
        // The embedded API has only this namespace. What a cluster added to an object is not part of a manifest.
        value["metadata"]["namespace"] = "default".into();
        if let Some(metadata) = value["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
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
            let text = duration_error(&cause.message).unwrap_or_else(|| cause.message.clone());
            (cause.field.clone(), format!("{}: {text}", cause.field))
        })
        .collect()
}

/// Makes a text of every number that should be a duration: it is as wrong, and is told as a wrong text is.
fn quote_durations(value: &mut Value, schema: &JSONSchemaProps) {
    match value {
        Value::Number(number) if schema.pattern.as_deref() == Some(api::duration::PATTERN) => {
            *value = Value::String(number.to_string());
        }
        Value::Object(object) => {
            let properties = schema.properties.as_ref();
            for (name, value) in object {
                if let Some(schema) = properties.and_then(|it| it.get(name)) {
                    quote_durations(value, schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(JSONSchemaPropsOrArray::Schema(schema)) = &schema.items {
                items.iter_mut().for_each(|it| quote_durations(it, schema));
            }
        }
        _ => {}
    }
}

/// The sentence for a text that is no duration, instead of the pattern that it does not match.
fn duration_error(message: &str) -> Option<String> {
    if !message.contains(api::duration::PATTERN) {
        return None;
    }
    let (_, rest) = message.split_once('"')?;
    let (typed, _) = rest.split_once("\": ")?;
    let meant = meant_duration(typed).map(|it| format!("write {it}"));
    let meant = meant.unwrap_or_else(|| "write one such as 2h or 90s".to_owned());
    Some(format!("{typed:?} is no duration; {meant}"))
}

/// `2 hours` as `2h`, `1 day` as `24h`.
fn meant_duration(typed: &str) -> Option<String> {
    let unit = typed.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u32 = typed[..typed.len() - unit.len()].parse().ok()?;
    let unit = unit.trim().to_lowercase();
    let unit = unit
        .strip_suffix('s')
        .filter(|it| !it.is_empty())
        .unwrap_or(&unit);
    let (factor, unit) = match unit {
        "w" | "week" => (24 * 7, "h"),
        "d" | "day" => (24, "h"),
        "h" | "hr" | "hour" => (1, "h"),
        "m" | "min" | "minute" => (1, "m"),
        "s" | "sec" | "second" => (1, "s"),
        _ => return None,
    };
    Some(format!("{}{unit}", number.checked_mul(factor)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_no_duration_is_told_with_what_was_meant() {
        for (typed, expected) in [
            ("2 hours", "\"2 hours\" is no duration; write 2h"),
            ("30Min", "\"30Min\" is no duration; write 30m"),
            ("1 day", "\"1 day\" is no duration; write 24h"),
            ("2w", "\"2w\" is no duration; write 336h"),
            ("90", "\"90\" is no duration; write one such as 2h or 90s"),
            (
                "soon",
                "\"soon\" is no duration; write one such as 2h or 90s",
            ),
        ] {
            let pattern = api::duration::PATTERN;
            let message =
                format!("Invalid value: \"{typed}\": spec.soak in body should match '{pattern}'");
            assert_eq!(duration_error(&message).as_deref(), Some(expected));
        }
        let other = "Invalid value: \"A\": spec in body should match '^[a-z]+$'";
        assert_eq!(duration_error(other), None);
    }
}
