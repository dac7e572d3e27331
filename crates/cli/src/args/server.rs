//! Flags of the HTTP server: webhooks from clusters and CI, REST API and dashboard.

use std::{net::IpAddr, path::PathBuf, str::FromStr};

use clap::Args;
use server::settings::IpNet;

use super::controller::GoBool;
use crate::bind_address::BindAddress;

const SERVER: &str = "Webhooks and REST API, served by every replica";

#[derive(Debug, Args)]
pub(crate) struct ServerFlags {
    /// Listen address for the webhooks `/promotion`, `/approval`, `/release` and `/check`, and for `/inputs`; `0`
    /// disables them
    #[arg(long, env = "SLUICE_PROMOTION_HOOK_BIND_ADDRESS", value_name = "ADDRESS", default_value = ":8082", help_heading = SERVER)]
    pub(crate) promotion_hook_bind_address: BindAddress,

    /// Number of calls allowed per interval: per client address for calls without a valid signature or
    /// token, per target of a pipeline for the others; `0` disables the limit
    #[arg(long, env = "SLUICE_PROMOTION_HOOK_RATE_LIMIT", value_name = "NUMBER", default_value_t = server::settings::RATE_LIMIT, help_heading = SERVER)]
    pub(crate) promotion_hook_rate_limit: u32,

    /// Interval of --promotion-hook-rate-limit
    #[arg(long, env = "SLUICE_PROMOTION_HOOK_RATE_LIMIT_INTERVAL", value_name = "SECONDS", default_value_t = server::settings::RATE_INTERVAL.as_secs(), help_heading = SERVER)]
    pub(crate) promotion_hook_rate_limit_interval: u64,

    /// How long the response to a webhook call waits for the controller to process the call
    #[arg(long, env = "SLUICE_PROMOTION_HOOK_WAIT", value_name = "DURATION", default_value = "5s", help_heading = SERVER)]
    pub(crate) promotion_hook_wait: api::Duration,

    /// Also accept approvals with the signature of the Weave pipeline-controller. It has no timestamp, so anyone
    /// who has seen such a call can replay it
    #[arg(long, env = "SLUICE_LEGACY_APPROVAL_SIGNATURES", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = SERVER)]
    pub(crate) legacy_approval_signatures: GoBool,

    /// Answer 422 to reports from the last environment, or when the next environment has no targets, as
    /// the Weave pipeline-controller did. Without this flag the answer is 202, so that Flux does not log
    /// an error for each report. The report is stored in both cases
    #[arg(long, env = "SLUICE_LEGACY_HOOK_ANSWERS", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = SERVER)]
    pub(crate) legacy_hook_answers: GoBool,

    /// Listen address for `/api/v1` and the dashboard; `0` disables them
    #[arg(long, env = "SLUICE_REST_BIND_ADDRESS", value_name = "ADDRESS", default_value = ":8083", help_heading = SERVER)]
    pub(crate) rest_bind_address: BindAddress,

    /// PEM certificate for webhooks and REST, reloaded when it changes [default: plain HTTP, for use
    /// behind an ingress]
    #[arg(long, env = "SLUICE_TLS_CERT_FILE", value_name = "FILE", requires = "tls_key_file", help_heading = SERVER)]
    pub(crate) tls_cert_file: Option<PathBuf>,

    /// Private key of --tls-cert-file
    #[arg(long, env = "SLUICE_TLS_KEY_FILE", value_name = "FILE", requires = "tls_cert_file", help_heading = SERVER)]
    pub(crate) tls_key_file: Option<PathBuf>,

    /// Addresses or networks of proxies whose X-Forwarded-For header is trusted, such as
    /// `10.0.0.0/8,192.0.2.7`
    #[arg(long, env = "SLUICE_TRUSTED_PROXIES", value_name = "NETWORKS", value_delimiter = ',', help_heading = SERVER)]
    pub(crate) trusted_proxies: Vec<TrustedNetwork>,
}

/// A network or a single address; `None` for an empty value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrustedNetwork(pub(crate) Option<IpNet>);

impl FromStr for TrustedNetwork {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self(None));
        }
        let network = text.parse::<IpNet>().ok();
        let network = network.or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
        let bad = || format!("`{text}` is not a network: write 10.0.0.0/8 or 192.0.2.7");
        network.map(|network| Self(Some(network))).ok_or_else(bad)
    }
}
