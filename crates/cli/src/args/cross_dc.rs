//! What can be typed about the lock between data centres.

use clap::Args;

use super::controller::{ELECTION, Switch};

#[derive(Debug, Args)]
pub(crate) struct CrossDc {
    /// Of all processes that share a MySQL or MariaDB, in whichever data centre, only one works at a
    /// time. The environment variables `username`, `password`, `address`,
    /// `plaintext_connection_allowed`, `tls_ca_file`, `ha_enabled` and `database` say how to reach it
    #[arg(long, alias = "cross-ds-leader-elect", env = "SLUICE_CROSS_DC_LEADER_ELECT", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = ELECTION)]
    pub(crate) cross_dc_leader_elect: Switch,
}
