//! Flags for the leader election across data centres.

use clap::Args;

use super::controller::{ELECTION, GoBool};

#[derive(Debug, Args)]
pub(crate) struct CrossDcFlags {
    /// Elect one leader across data centres with a lock in a shared MySQL or MariaDB. The environment
    /// variables `username`, `password`, `address`, `plaintext_connection_allowed`, `tls_ca_file`,
    /// `ha_enabled` and `database` configure the connection
    #[arg(long, alias = "cross-ds-leader-elect", env = "SLUICE_CROSS_DC_LEADER_ELECT", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = ELECTION)]
    pub(crate) cross_dc_leader_elect: GoBool,
}
