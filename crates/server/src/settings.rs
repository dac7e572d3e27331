//! The settings of the server, as checked values.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

pub use ipnet::IpNet;

use crate::leaf::LeafConnector;
pub use crate::{
    oidc::{CALLBACK as OIDC_CALLBACK, OidcSettings, SigningAlgorithm},
    session::LIFETIME as SESSION_LIFETIME,
};

/// How many requests a client may send per [`RATE_INTERVAL`], by default.
pub const RATE_LIMIT: u32 = 20;
/// The interval of the rate limit, by default.
pub const RATE_INTERVAL: Duration = Duration::from_secs(30);
/// How long a hook waits for the controller, by default. notification-controller gives up after 15
/// seconds.
pub const WAIT: Duration = Duration::from_secs(5);

/// The settings of the server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Only pipelines in this namespace; all namespaces without it.
    pub namespace: Option<String>,
    /// The namespace whose Freezes cover the pipelines of all namespaces, if any.
    pub freeze_namespace: Option<String>,
    /// The address that serves hooks.
    pub hooks_address: Option<SocketAddr>,
    /// The address that serves REST and the dashboard.
    pub rest_address: Option<SocketAddr>,
    /// The certificate of both addresses; without it they serve plain HTTP.
    pub tls: Option<TlsFiles>,
    /// How many requests a client may send per interval; 0 for no limit.
    pub rate_limit: u32,
    /// The interval of the rate limit.
    pub rate_interval: Duration,
    /// The proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether to accept the approval signatures of the Weave pipeline-controller, which cover nothing.
    pub legacy_approval_signatures: bool,
    /// Whether to answer 422 to reports from the last environment, as the Weave pipeline-controller
    /// did.
    pub legacy_hook_answers: bool,
    /// Whether the controller acts on unsigned reports.
    pub allow_unsigned_reports: bool,
    /// How long a request waits for the controller to act on it.
    pub wait: Duration,
    /// Whether a pipeline may only refer to clusters in its own namespace.
    pub no_cross_namespace_refs: bool,
    /// Connects to leaf clusters.
    pub leaf_connector: LeafConnector,
    /// The repository that the controller proposes files in, if any.
    pub authoring: Option<Authoring>,
    /// The OpenID provider that people can sign in with, if any.
    pub oidc: Option<OidcSettings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: None,
            freeze_namespace: None,
            hooks_address: None,
            rest_address: None,
            tls: None,
            rate_limit: RATE_LIMIT,
            rate_interval: RATE_INTERVAL,
            trusted_proxies: Vec::new(),
            legacy_approval_signatures: false,
            legacy_hook_answers: false,
            allow_unsigned_reports: false,
            wait: WAIT,
            no_cross_namespace_refs: false,
            leaf_connector: LeafConnector::default(),
            authoring: None,
            oidc: None,
        }
    }
}

/// The repository that the controller proposes files in.
#[derive(Clone, Debug)]
pub struct Authoring {
    /// The URL it is cloned from.
    pub url: String,
    /// The branch that pull requests are for.
    pub branch: String,
    /// The folders that files may be in.
    pub folders: Vec<String>,
}

/// A certificate and its key, as PEM files. They are read again when they change.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate and those that signed it.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}
