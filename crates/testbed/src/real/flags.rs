//! The command lines of the three programs of a control plane.
//!
//! Durability is traded for speed and nothing leaves the loopback interface; otherwise the programs
//! run with their defaults, because those are what the tests compare with.

use std::ffi::OsString;
use std::path::Path;

/// etcd without fsync: the data lives as long as the test.
pub(super) fn etcd(folder: &Path, client_port: u16, peer_port: u16) -> Vec<OsString> {
    let client = format!("http://127.0.0.1:{client_port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    vec![
        "--name=only".into(),
        path_flag("--data-dir=", &folder.join("data")),
        "--unsafe-no-fsync".into(),
        format!("--listen-client-urls={client}").into(),
        format!("--advertise-client-urls={client}").into(),
        format!("--listen-peer-urls={peer}").into(),
        format!("--initial-advertise-peer-urls={peer}").into(),
        format!("--initial-cluster=only={peer}").into(),
        "--log-level=warn".into(),
    ]
}

/// The API server. Pods may name service accounts that do not exist, since nobody creates them.
pub(super) fn api_server(folder: &Path, port: u16, etcd_port: u16) -> Vec<OsString> {
    let file = |flag: &str, name: &str| path_flag(flag, &folder.join(name));
    vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}").into(),
        "--bind-address=127.0.0.1".into(),
        "--advertise-address=127.0.0.1".into(),
        format!("--secure-port={port}").into(),
        "--endpoint-reconciler-type=none".into(),
        file("--cert-dir=", "run"),
        file("--tls-cert-file=", "server.crt"),
        file("--tls-private-key-file=", "server.key"),
        file("--client-ca-file=", "authority.crt"),
        "--authorization-mode=RBAC".into(),
        format!("--service-account-issuer=https://127.0.0.1:{port}").into(),
        file("--service-account-key-file=", "service-account.pub"),
        file("--service-account-signing-key-file=", "service-account.key"),
        "--service-cluster-ip-range=10.0.0.0/24".into(),
        "--disable-admission-plugins=ServiceAccount".into(),
    ]
}

/// The controller manager, with what makes owner references and namespace deletion work, and `more`.
pub(super) fn controller_manager(folder: &Path, more: &[&str]) -> Vec<OsString> {
    let always = ["garbage-collector-controller", "namespace-controller"];
    let controllers = [&always, more].concat().join(",");
    vec![
        path_flag("--kubeconfig=", &folder.join("kubeconfig")),
        "--secure-port=0".into(),
        "--leader-elect=false".into(),
        format!("--controllers={controllers}").into(),
    ]
}

fn path_flag(flag: &str, path: &Path) -> OsString {
    let mut whole = OsString::from(flag);
    whole.push(path);
    whole
}
