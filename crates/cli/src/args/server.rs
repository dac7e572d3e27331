//! What can be typed about the door: hooks from clusters and CI, and REST for people.

use std::{net::IpAddr, path::PathBuf, str::FromStr};

use clap::Args;
use server::settings::IpNet;

use super::controller::Switch;
use crate::address::Address;

const DOOR: &str = "Hooks and REST, served by every replica";

#[derive(Debug, Args)]
pub(crate) struct Door {
    /// Where Flux and CI call: `/promotion`, `/approval` and `/release`; `0` for nowhere
    #[arg(long, env = "SLUICE_PROMOTION_HOOK_BIND_ADDRESS", value_name = "ADDRESS", default_value = ":8082", help_heading = DOOR)]
    pub(crate) promotion_hook_bind_address: Address,

    /// How many calls are let in per interval: of one address without a valid signature or token, and
    /// for each target of a pipeline with one; `0` for any number
    #[arg(long, env = "SLUICE_PROMOTION_HOOK_RATE_LIMIT", value_name = "NUMBER", default_value_t = server::settings::RATE_LIMIT, help_heading = DOOR)]
    pub(crate) promotion_hook_rate_limit: u32,

    /// The interval of --promotion-hook-rate-limit
    #[arg(long, env = "SLUICE_PROMOTION_HOOK_RATE_LIMIT_INTERVAL", value_name = "SECONDS", default_value_t = server::settings::RATE_INTERVAL.as_secs(), help_heading = DOOR)]
    pub(crate) promotion_hook_rate_limit_interval: u64,

    /// How long a call waits for what becomes of it, once it is stored
    #[arg(long, env = "SLUICE_PROMOTION_HOOK_WAIT", value_name = "DURATION", default_value = "5s", help_heading = DOOR)]
    pub(crate) promotion_hook_wait: api::Duration,

    /// Also take approvals with the older projects' signature, which is the same for ever and so can
    /// be repeated by whoever has seen one
    #[arg(long, env = "SLUICE_LEGACY_APPROVAL_SIGNATURES", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = DOOR)]
    pub(crate) legacy_approval_signatures: Switch,

    /// Answer 422 to reports from the last environment, or where the next one has no targets, as the
    /// Weave pipeline controller did. They are stored and count either way; without this the answer is
    /// 202, so that Flux does not log an error for each
    #[arg(long, env = "SLUICE_LEGACY_HOOK_ANSWERS", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = DOOR)]
    pub(crate) legacy_hook_answers: Switch,

    /// Where `/api/v1` is served; `0` for nowhere
    #[arg(long, env = "SLUICE_REST_BIND_ADDRESS", value_name = "ADDRESS", default_value = ":8083", help_heading = DOOR)]
    pub(crate) rest_bind_address: Address,

    /// A PEM certificate: hooks and REST speak TLS with it, and it is read again when it changes
    /// [default: plain HTTP, for use behind an ingress]
    #[arg(long, env = "SLUICE_TLS_CERT_FILE", value_name = "FILE", requires = "tls_key_file", help_heading = DOOR)]
    pub(crate) tls_cert_file: Option<PathBuf>,

    /// The key of --tls-cert-file
    #[arg(long, env = "SLUICE_TLS_KEY_FILE", value_name = "FILE", requires = "tls_cert_file", help_heading = DOOR)]
    pub(crate) tls_key_file: Option<PathBuf>,

    /// Addresses or networks of proxies that are believed when they say in X-Forwarded-For who calls,
    /// as in `10.0.0.0/8,192.0.2.7`
    #[arg(long, env = "SLUICE_TRUSTED_PROXIES", value_name = "NETWORKS", value_delimiter = ',', help_heading = DOOR)]
    pub(crate) trusted_proxies: Vec<Network>,
}

/// A network, or a single address; nothing where nothing was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network(pub(crate) Option<IpNet>);

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self(None));
        }
        let network = text.parse::<IpNet>().ok();
        let network = network.or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
        let bad = || format!("`{text}` is no network: write 10.0.0.0/8 or 192.0.2.7");
        network.map(|network| Self(Some(network))).ok_or_else(bad)
    }
}
