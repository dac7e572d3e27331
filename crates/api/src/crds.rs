//! The CustomResourceDefinitions, generated from the types.
//!
//! Adds what the derive macro cannot express: which kinds need no `spec`, the default status, and that
//! nothing else has a default or is nullable.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSON, JSONSchemaProps,
    JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};
use kube::{CustomResourceExt, Resource};
use serde_json::json;

use crate::{
    Change, CheckRun, Freeze, GitopsCluster, Pipeline, PipelineTrigger, Promotion, WegoPipeline,
};

/// All definitions, always in this order: Pipeline, Promotion, Change, Freeze,
/// CheckRun, GitopsCluster, PipelineTrigger, and the Pipeline of `pipelines.wego.weave.works`.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        pipeline(),
        promotion(),
        change(),
        freeze(),
        check_run(),
        gitops_cluster(),
        pipeline_trigger(),
        wego_pipeline(),
    ]
}

/// Whether Sluice works without a definition: one that older installs do not have.
pub fn is_optional(definition: &CustomResourceDefinition) -> bool {
    definition.spec.group == WegoPipeline::group(&())
}

fn pipeline() -> CustomResourceDefinition {
    adjusted_pipeline(Pipeline::crd())
}

fn wego_pipeline() -> CustomResourceDefinition {
    adjusted_pipeline(WegoPipeline::crd())
}

fn adjusted_pipeline(definition: CustomResourceDefinition) -> CustomResourceDefinition {
    adjusted(definition, |root| {
        root.required = None;
        let status = root
            .properties
            .as_mut()
            .and_then(|fields| fields.get_mut("status"));
        if let Some(status) = status {
            status.default = Some(JSON(json!({ "observedGeneration": -1 })));
        }
    })
}

fn promotion() -> CustomResourceDefinition {
    adjusted(Promotion::crd(), |_| {})
}

fn change() -> CustomResourceDefinition {
    adjusted(Change::crd(), |_| {})
}

fn freeze() -> CustomResourceDefinition {
    adjusted(Freeze::crd(), |_| {})
}

fn check_run() -> CustomResourceDefinition {
    adjusted(CheckRun::crd(), |_| {})
}

fn gitops_cluster() -> CustomResourceDefinition {
    adjusted(GitopsCluster::crd(), |root| {
        root.required = None;
        root.x_kubernetes_validations = Some(vec![ValidationRule {
            rule: "has(self.spec)".to_owned(),
            message: Some("must configure spec".to_owned()),
            ..ValidationRule::default()
        }]);
    })
}

fn pipeline_trigger() -> CustomResourceDefinition {
    adjusted(PipelineTrigger::crd(), |root| root.required = None)
}

fn adjusted(
    mut definition: CustomResourceDefinition,
    adjust: impl Fn(&mut JSONSchemaProps),
) -> CustomResourceDefinition {
    let names = &mut definition.spec.names;
    names.list_kind = Some(format!("{}List", names.kind));
    names.categories = none_if_empty(names.categories.take());
    names.short_names = none_if_empty(names.short_names.take());
    for version in &mut definition.spec.versions {
        version.selectable_fields = none_if_empty(version.selectable_fields.take());
        if let Some(root) = schema_of(version) {
            forget_defaults(root);
            root.title = None;
            adjust(root);
        }
    }
    definition
}

fn none_if_empty<T>(list: Option<Vec<T>>) -> Option<Vec<T>> {
    list.filter(|list| !list.is_empty())
}

fn schema_of(version: &mut CustomResourceDefinitionVersion) -> Option<&mut JSONSchemaProps> {
    version.schema.as_mut()?.open_api_v3_schema.as_mut()
}

/// Serde's defaults make reading tolerant; in a CRD they would be written into people's objects.
/// The same goes for `null`, which the CRDs of the older projects did not accept either.
fn forget_defaults(schema: &mut JSONSchemaProps) {
    schema.default = None;
    schema.nullable = None;
    for field in schema
        .properties
        .iter_mut()
        .flat_map(|fields| fields.values_mut())
    {
        forget_defaults(field);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => forget_defaults(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(forget_defaults),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        forget_defaults(values);
    }
}
