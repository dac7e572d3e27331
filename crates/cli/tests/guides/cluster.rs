//! A real control plane, and a shell whose kubectl, helm and sluice speak to it.

use kube::Client;
use testbed::{
    guide::Shell,
    real::{Assets, ControlPlane},
};

use crate::binary;

pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) shell: Shell,
    _plane: ControlPlane,
}

impl Cluster {
    /// An empty cluster. Needs what `cargo xtask kube` builds.
    pub(crate) async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let assets = Assets::from_env().unwrap();
        let plane = ControlPlane::start(&assets).await.unwrap();
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
            _plane: plane,
        }
    }
}
