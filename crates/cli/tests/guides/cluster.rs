//! A real control plane, and a shell whose kubectl, helm and sluice use it.

use kube::Client;
use serde_json::{Value, json};
use testbed::{
    guide::Shell,
    objects::apply,
    real::{Assets, ControlPlane},
    tls,
};

use crate::binary;

pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) shell: Shell,
    plane: ControlPlane,
}

impl Cluster {
    /// An empty cluster. Needs what `cargo xtask kube` builds.
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same with more of Kubernetes' controllers.
    pub(crate) async fn start_with(controllers: &[&str]) -> Self {
        tls::install_provider();
        let assets = Assets::from_env().unwrap();
        let plane = ControlPlane::start_with(&assets, controllers)
            .await
            .unwrap();
        let mut shell = Shell::new().unwrap();
        let kubeconfig = shell.folder().join(".kubeconfig");
        std::fs::write(&kubeconfig, plane.kubeconfig()).unwrap();
        shell.set("KUBECONFIG", kubeconfig.to_str().unwrap());
        for program in ["kubectl", "helm"] {
            shell.program(program, &assets.program(program)).unwrap();
        }
        for name in ["sluice", "kubectl-sluice"] {
            shell.program(name, binary()).unwrap();
        }
        let client = plane.client();
        Self {
            client,
            shell,
            plane,
        }
    }

    pub(crate) fn kubeconfig(&self) -> &str {
        self.plane.kubeconfig()
    }

    /// Kinds of others that take anything, as `plural.group Kind version`.
    pub(crate) async fn define(&self, kinds: &[&str]) {
        let definitions = kinds.iter().map(|kind| definition(kind)).collect();
        apply(&self.client, definitions).await;
    }
}

impl Drop for Cluster {
    /// Shows the logs of the control plane if the test failed.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.plane.log_tails());
        }
    }
}

fn definition(kind: &str) -> Value {
    let words: Vec<&str> = kind.split(' ').collect();
    let [name, kind, version] = words[..] else {
        unreachable!("{kind} is not `plural.group Kind version`");
    };
    let (plural, group) = name.split_once('.').unwrap();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            }],
        },
    })
}
