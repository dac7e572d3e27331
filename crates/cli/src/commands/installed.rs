//! Finds the objects of an installed Sluice on a cluster: its Deployments and Services.

use std::collections::BTreeMap;

use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use serde_json::Value;

/// The label of the objects in the chart and the plain manifests, and its value.
const NAME_LABEL: &str = "app.kubernetes.io/name";
const APP: &str = "pipeline-controller";
/// The label of the chart, which `nameOverride` does not change.
const CHART_LABEL: &str = "helm.sh/chart";
const CHART: &str = "pipeline-controller-";
/// The annotation with the name of the Helm release.
const HELM_RELEASE: &str = "meta.helm.sh/release-name";
/// What precedes the version of Sluice in the version of the embedded API.
const EMBEDDED: &str = "+sluice-";

/// A controller that runs on the cluster.
pub(super) struct InstalledController {
    /// `NAMESPACE/NAME` of its Deployment; `None` for `sluice standalone` and `sluice demo`.
    pub(super) deployment: Option<String>,
    pub(super) version: String,
    pub(super) is_available: bool,
    /// Its flags.
    pub(super) flags: Vec<String>,
}

impl InstalledController {
    /// The value of a flag, if it is set.
    pub(super) fn flag(&self, name: &str) -> Option<&str> {
        let values = self.flags.iter().filter_map(|flag| flag.split_once('='));
        let value = values.into_iter().find(|(flag, _)| *flag == name);
        value.map(|(_, value)| value).filter(|it| !it.is_empty())
    }
}

/// A Service of Sluice and the number of one of its ports.
pub(super) struct InstalledService {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) port: i32,
    /// The Helm release that it belongs to.
    pub(super) helm_release: Option<String>,
}

/// The version of the cluster, and the controllers on it that the caller may see.
pub(super) async fn controllers(
    client: &Client,
) -> kube::Result<(String, kube::Result<Vec<InstalledController>>)> {
    let version = client.apiserver_version().await?.git_version;
    if let Some((_, embedded)) = version.split_once(EMBEDDED) {
        let controller = InstalledController {
            deployment: None,
            version: embedded.to_owned(),
            is_available: true,
            flags: Vec::new(),
        };
        return Ok((version, Ok(vec![controller])));
    }
    let listed = all(client, "apps", "Deployment").await;
    let found = listed.map(|list| list.iter().filter_map(controller).collect());
    Ok((version, found))
}

/// The objects of a kind with the labels of Sluice, in all namespaces.
async fn all(client: &Client, group: &str, kind: &str) -> kube::Result<Vec<DynamicObject>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let listed = api.list(&ListParams::default()).await?.items;
    Ok(listed
        .into_iter()
        .filter(|it| is_ours(it.labels()))
        .collect())
}

fn controller(deployment: &DynamicObject) -> Option<InstalledController> {
    let containers = deployment.data.pointer("/spec/template/spec/containers")?;
    let runs_sluice = |command: &String| command.ends_with("/sluice");
    let mut containers = containers.as_array()?.iter();
    let container = containers.find(|it| texts(&it["command"]).iter().any(runs_sluice))?;
    let available = deployment.data["status"]["availableReplicas"].as_u64();
    let (namespace, name) = (deployment.namespace()?, deployment.name_any());
    Some(InstalledController {
        deployment: Some(format!("{namespace}/{name}")),
        version: tag(container["image"].as_str().unwrap_or_default()).to_owned(),
        is_available: available.unwrap_or(0) > 0,
        flags: texts(&container["args"]),
    })
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts
        .filter_map(|it| it.as_str().map(str::to_owned))
        .collect()
}

/// The tag or digest of an image.
fn tag(image: &str) -> &str {
    if let Some((_, digest)) = image.split_once('@') {
        return digest;
    }
    let name = image.rsplit('/').next().unwrap_or(image);
    name.split_once(':').map_or("latest", |(_, tag)| tag)
}

/// The Services of Sluice with a port of this name.
pub(super) async fn services(client: &Client, port: &str) -> kube::Result<Vec<InstalledService>> {
    let services = all(client, "", "Service").await?;
    Ok(services.iter().filter_map(|it| service(it, port)).collect())
}

fn service(service: &DynamicObject, port: &str) -> Option<InstalledService> {
    let mut ports = service.data["spec"]["ports"].as_array()?.iter();
    let number = ports.find(|it| it["name"] == port)?["port"].as_i64()?;
    Some(InstalledService {
        namespace: service.namespace()?,
        name: service.name_any(),
        port: i32::try_from(number).ok()?,
        helm_release: service.annotations().get(HELM_RELEASE).cloned(),
    })
}

fn is_ours(labels: &BTreeMap<String, String>) -> bool {
    let label = |key: &str| labels.get(key).map(String::as_str);
    let is_of_chart = label(CHART_LABEL).is_some_and(|chart| chart.starts_with(CHART));
    label(NAME_LABEL) == Some(APP) || is_of_chart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_tag_of_the_image() {
        for (image, expected) in [
            ("sluice:0.1.0", "0.1.0"),
            ("localhost:5000/team/sluice:1", "1"),
            ("localhost:5000/sluice", "latest"),
            ("sluice:1@sha256:ab", "sha256:ab"),
        ] {
            assert_eq!(tag(image), expected);
        }
    }
}
