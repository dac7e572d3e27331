//! Flags of `sluice standalone`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;

use super::controller::GoBool;
use crate::standalone::loopback;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder for all data; created if it does not exist
    #[arg(
        long,
        env = "SLUICE_DATA",
        default_value = "sluice-data",
        value_name = "FOLDER"
    )]
    pub(crate) data: PathBuf,
    /// Port of the embedded Kubernetes API on this machine
    #[arg(
        long,
        env = "SLUICE_API_PORT",
        default_value_t = 6443,
        value_name = "PORT"
    )]
    api_port: u16,
    /// Port of the webhooks on this machine
    #[arg(
        long,
        env = "SLUICE_HOOKS_PORT",
        default_value_t = 8082,
        value_name = "PORT"
    )]
    hooks_port: u16,
    /// Port of the REST API and the dashboard on this machine
    #[arg(long, env = "SLUICE_PORT", default_value_t = 8083, value_name = "PORT")]
    port: u16,
    /// Allow repositories, forges and webhooks on loopback, link-local and metadata addresses
    #[arg(long, env = "SLUICE_ALLOW_INTERNAL_URLS", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) allow_internal_urls: GoBool,
    /// Hosts that checks of pipelines may send requests to, such as
    /// `prometheus.monitoring:9090,*.example.com` [default: none]
    #[arg(
        long,
        env = "SLUICE_CHECK_HOSTS",
        value_name = "PATTERNS",
        value_delimiter = ','
    )]
    pub(crate) check_hosts: Vec<String>,
    /// Accept deployment reports without a signature
    #[arg(long, env = "SLUICE_ALLOW_UNSIGNED_REPORTS", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) allow_unsigned_reports: GoBool,
    #[command(flatten)]
    pub(crate) authoring: super::authoring::AuthoringFlags,
}

impl Arguments {
    pub(crate) fn api_address(&self) -> SocketAddr {
        loopback(self.api_port)
    }

    pub(crate) fn hooks_address(&self) -> SocketAddr {
        loopback(self.hooks_port)
    }

    pub(crate) fn rest_address(&self) -> SocketAddr {
        loopback(self.port)
    }
}
