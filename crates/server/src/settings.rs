//! What the door was told, as checked values.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

pub use ipnet::IpNet;

use crate::leaf::Reach;

/// How many calls of one caller are let in per [`RATE_INTERVAL`] unless told otherwise.
pub const RATE_LIMIT: u32 = 20;
/// The time the limit is about unless told otherwise.
pub const RATE_INTERVAL: Duration = Duration::from_secs(30);
/// How long a hook waits for what becomes of it unless told otherwise. notification-controller
/// gives up after 15 seconds.
pub const WAIT: Duration = Duration::from_secs(5);

/// What the door was told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Only pipelines in this namespace; all namespaces without it.
    pub namespace: Option<String>,
    /// Where hooks are served.
    pub hooks_address: Option<SocketAddr>,
    /// Where REST is served.
    pub rest_address: Option<SocketAddr>,
    /// The certificate of both; without it they speak plain HTTP.
    pub tls: Option<TlsFiles>,
    /// How many calls of one caller are let in per interval; 0 for any number.
    pub rate_limit: u32,
    /// The interval.
    pub rate_interval: Duration,
    /// The proxies whose word for a client's address counts.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether approvals may carry the ancestor's signature, which never changes.
    pub legacy_approval_signatures: bool,
    /// Whether reports are refused with 422 where nothing is promoted from, as the ancestor did.
    pub legacy_hook_answers: bool,
    /// Whether the controller takes reports without a signature for true.
    pub allow_unsigned_reports: bool,
    /// How long a call waits for what becomes of it.
    pub wait: Duration,
    /// Whether a pipeline may only refer to clusters in its own namespace.
    pub no_cross_namespace_refs: bool,
    /// How clusters other than the hub are reached.
    pub reach: Reach,
    /// Where the controller proposes changes; nowhere without it.
    pub authoring: Option<Authoring>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: None,
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
            reach: Reach::default(),
            authoring: None,
        }
    }
}

/// The repository that the controller proposes changes in.
#[derive(Clone, Debug)]
pub struct Authoring {
    /// Where it is cloned from.
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
