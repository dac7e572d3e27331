//! Writes objects and their statuses to a cluster, as Flux does.

use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use super::Error;

/// The field manager of Flux.
const MANAGER: &str = "kustomize-controller";

/// The objects of a cluster.
pub(super) struct ClusterObjects(pub(super) Client);

impl ClusterObjects {
    /// Applies an object.
    pub(super) async fn apply_object(&self, object: &Value) -> Result<(), Error> {
        let (api, name) = self.api(object)?;
        let parameters = PatchParams::apply(MANAGER).force();
        api.patch(name, &parameters, &Patch::Apply(object)).await?;
        Ok(())
    }

    pub(super) async fn set_status(&self, object: &Value, status: &Value) -> Result<(), Error> {
        let (api, name) = self.api(object)?;
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    pub(super) fn api<'a>(
        &self,
        object: &'a Value,
    ) -> Result<(Api<DynamicObject>, &'a str), Error> {
        let text = |value: &'a Value| value.as_str().ok_or(Error::NotAnObject);
        let api_version = text(&object["apiVersion"])?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = GroupVersionKind::gvk(group, version, text(&object["kind"])?);
        let resource = ApiResource::from_gvk(&kind);
        let api = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.0.clone(), namespace, &resource),
            None => Api::all_with(self.0.clone(), &resource),
        };
        Ok((api, text(&object["metadata"]["name"])?))
    }
}
