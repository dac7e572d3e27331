//! What can be typed after `sluice standalone`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;

use crate::standalone::loopback;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder that holds everything; made if it is not there
    #[arg(
        long,
        env = "SLUICE_DATA",
        default_value = "sluice-data",
        value_name = "FOLDER"
    )]
    pub(crate) data: PathBuf,
    /// The port of the Kubernetes API on this machine
    #[arg(
        long,
        env = "SLUICE_API_PORT",
        default_value_t = 6443,
        value_name = "PORT"
    )]
    api_port: u16,
    /// The port of webhooks on this machine
    #[arg(
        long,
        env = "SLUICE_HOOKS_PORT",
        default_value_t = 8082,
        value_name = "PORT"
    )]
    hooks_port: u16,
    /// The port of REST and the dashboard on this machine
    #[arg(long, env = "SLUICE_PORT", default_value_t = 8083, value_name = "PORT")]
    port: u16,
    #[command(flatten)]
    pub(crate) authoring: super::authoring::Authoring,
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
