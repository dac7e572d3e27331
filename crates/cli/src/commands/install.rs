//! `sluice install`: prints the manifests to install Sluice in a cluster, as YAML.

use std::io::Write;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::crds;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Namespace to install into
    #[arg(long, short, value_name = "NAME", default_value = NAMESPACE)]
    namespace: String,
    /// Container image
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    image: String,
    /// Include a NetworkPolicy that restricts ingress
    #[arg(long)]
    network_policy: bool,
    /// Include a PodDisruptionBudget that keeps one replica while nodes are drained
    #[arg(long)]
    disruption_budget: bool,
    /// Include a ServiceMonitor and alerts for the Prometheus operator, and a Grafana dashboard
    #[arg(long)]
    monitoring: bool,
}

const IMAGE: &str = concat!("sluice:", env!("CARGO_PKG_VERSION"));
const DASHBOARD: &str = include_str!("../../../../deploy/chart/files/dashboard.json");

macro_rules! manifest {
    ($name:literal, $is_wanted:expr) => {
        InstallManifest {
            name: $name,
            text: include_str!(concat!("../../../../deploy/manifests/", $name)),
            is_wanted: $is_wanted,
        }
    };
}

struct InstallManifest {
    name: &'static str,
    text: &'static str,
    is_wanted: fn(&Arguments) -> bool,
}

/// In the order in which they must be applied.
const MANIFESTS: [InstallManifest; 9] = [
    manifest!("namespace.yaml", |_| true),
    manifest!("access.yaml", |_| true),
    manifest!("roles.yaml", |_| true),
    manifest!("policy.yaml", |_| true),
    manifest!("controller.yaml", |_| true),
    manifest!("network-policy.yaml", |arguments| arguments.network_policy),
    manifest!("disruption-budget.yaml", |arguments| arguments
        .disruption_budget),
    manifest!("monitoring.yaml", |arguments| arguments.monitoring),
    manifest!("alerts.yaml", |arguments| arguments.monitoring),
];

pub(super) const NAMESPACE: &str = "pipeline-system";

/// All objects that `sluice install` can print for a namespace except the CRDs, in the order in which they
/// are applied.
pub(super) fn objects(namespace: &str) -> anyhow::Result<Vec<Value>> {
    require_name(namespace)?;
    let mut objects = Vec::new();
    for manifest in &MANIFESTS {
        let text = manifest.text.replace(NAMESPACE, namespace);
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text)
            .with_context(|| format!("cannot parse the manifest {}", manifest.name))?;
        objects.extend(documents);
    }
    let dashboard = dashboard(namespace)?;
    objects.push(serde_saphyr::from_str(&dashboard).context("cannot parse the dashboard")?);
    Ok(objects)
}

fn require_name(namespace: &str) -> anyhow::Result<()> {
    if !is_name(namespace) {
        bail!(
            "{namespace:?} is not a valid namespace name: use lower-case letters, digits and dashes"
        );
    }
    Ok(())
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let Arguments {
        namespace, image, ..
    } = arguments;
    require_name(namespace)?;
    if image.is_empty() || image.contains(|c: char| c.is_whitespace() || c.is_control()) {
        bail!("{image:?} is not a valid image name");
    }
    crds::print(out)?;
    for manifest in MANIFESTS
        .iter()
        .filter(|manifest| (manifest.is_wanted)(arguments))
    {
        let text = manifest.text.replace(NAMESPACE, namespace);
        let text = text.replace(&format!("image: {IMAGE}"), &format!("image: {image:?}"));
        write!(out, "---\n{text}")?;
    }
    if arguments.monitoring {
        write!(out, "---\n{}", dashboard(namespace)?)?;
    }
    Ok(())
}

/// The ConfigMap that Grafana's sidecar loads.
fn dashboard(namespace: &str) -> anyhow::Result<String> {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "pipeline-controller-grafana", "namespace": namespace,
            "labels": {"grafana_dashboard": "1"},
        },
        "data": {"sluice.json": DASHBOARD},
    });
    serde_saphyr::to_string(&object).context("cannot write the dashboard as YAML")
}

fn is_name(text: &str) -> bool {
    let is_end = |byte: Option<u8>| {
        byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let bytes = || text.bytes();
    text.len() <= 63
        && is_end(bytes().next())
        && is_end(bytes().next_back())
        && bytes().all(is_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn arguments(namespace: &str, image: &str, with_all: bool) -> Arguments {
        Arguments {
            namespace: namespace.to_owned(),
            image: image.to_owned(),
            network_policy: with_all,
            disruption_budget: with_all,
            monitoring: with_all,
        }
    }

    fn print(arguments: &Arguments) -> String {
        let mut out = Vec::new();
        run(arguments, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn all_manifests_of_the_folder_are_included() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/manifests");
        let files = std::fs::read_dir(folder).unwrap();
        let files: BTreeSet<String> = files
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".yaml"))
            .collect();
        let ours: BTreeSet<String> = MANIFESTS.map(|each| each.name.to_owned()).into();
        assert_eq!(ours, files);
    }

    #[test]
    fn namespace_and_image_are_replaced_everywhere() {
        let text = print(&arguments(
            "flux-system",
            "registry.example.com/sluice:1",
            true,
        ));
        assert!(
            !text.contains(NAMESPACE),
            "the old namespace is still there"
        );
        assert!(text.contains("system:serviceaccount:flux-system:pipeline-controller"));
        assert!(text.contains("image: \"registry.example.com/sluice:1\""));
        assert!(!text.contains(IMAGE));
        assert!(print(&arguments(NAMESPACE, IMAGE, false)).contains("image: \"sluice:"));
    }

    #[test]
    fn optional_manifests_are_left_out_by_default() {
        let kinds = |with_all| {
            let text = print(&arguments(NAMESPACE, IMAGE, with_all));
            let objects: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text).unwrap();
            let kinds = objects.iter().map(|object| object["kind"].to_string());
            kinds.collect::<BTreeSet<String>>()
        };
        let (all, few) = (kinds(true), kinds(false));
        let more: Vec<&String> = all.difference(&few).collect();
        assert_eq!(
            more,
            [
                "\"ConfigMap\"",
                "\"NetworkPolicy\"",
                "\"PodDisruptionBudget\"",
                "\"PrometheusRule\"",
                "\"ServiceMonitor\""
            ]
        );
    }

    #[test]
    fn invalid_namespaces_are_refused() {
        let mut out = Vec::new();
        for namespace in ["", "A", "a_b", "-a", "a\nb", "a'b"] {
            assert!(run(&arguments(namespace, IMAGE, false), &mut out).is_err());
        }
    }
}
