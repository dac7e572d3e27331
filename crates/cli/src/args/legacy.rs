//! Flags of the two older projects, accepted so that their manifests keep working.

use std::str::FromStr;

use clap::{Args, ValueEnum};

use super::controller::{GoBool, LogEncoding, LogLevel};

const LEGACY: &str = "Legacy (accepted for compatibility; no effect unless stated otherwise)";

/// Flags of the Weave pipeline-controller and of the pipeline-trigger-operator. Values without an
/// effect are accepted as they are.
#[derive(Debug, Args)]
pub(crate) struct LegacyFlags {
    /// Same as --detect=watch
    #[arg(long, env = "SLUICE_ENABLE_LEVEL_TRIGGERED", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = LEGACY)]
    pub(crate) enable_level_triggered: Option<GoBool>,

    /// No effect: failed promotions are retried with exponential backoff
    #[arg(long, env = "SLUICE_PROMOTION_RETRY_DELAY", value_name = "SECONDS", allow_negative_numbers = true, help_heading = LEGACY)]
    pub(crate) promotion_retry_delay: Option<i64>,

    /// No effect: see --promotion-retry-delay
    #[arg(long, env = "SLUICE_PROMOTION_RETRY_MAX_DELAY", value_name = "SECONDS", allow_negative_numbers = true, help_heading = LEGACY)]
    pub(crate) promotion_retry_max_delay: Option<i64>,

    /// No effect: see --promotion-retry-delay
    #[arg(long, env = "SLUICE_PROMOTION_RETRY_THRESHOLD", value_name = "NUMBER", allow_negative_numbers = true, help_heading = LEGACY)]
    pub(crate) promotion_retry_threshold: Option<i64>,

    /// Refused: use --cross-dc-leader-elect instead
    #[arg(long, env = "SLUICE_SECOND_CLUSTER", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = LEGACY)]
    pub(crate) second_cluster: Option<GoBool>,

    /// Refused: see --second-cluster
    #[arg(long, env = "SLUICE_SECOND_CLUSTER_ADDRESS", value_name = "ADDRESS", help_heading = LEGACY)]
    pub(crate) second_cluster_address: Option<IsGiven>,

    /// Refused: see --second-cluster
    #[arg(long, env = "SLUICE_SECOND_CLUSTER_BEARER_TOKEN", value_name = "TOKEN", hide_env_values = true, help_heading = LEGACY)]
    pub(crate) second_cluster_bearer_token: Option<IsGiven>,

    /// Same as --log-encoding=text --log-level=debug
    #[arg(long, env = "SLUICE_ZAP_DEVEL", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = LEGACY)]
    pub(crate) zap_devel: Option<GoBool>,

    /// Same as --log-encoding
    #[arg(long, env = "SLUICE_ZAP_ENCODER", value_enum, help_heading = LEGACY)]
    pub(crate) zap_encoder: Option<LogEncoding>,

    /// Same as --log-level; numbers above 0 mean `debug`
    #[arg(long, env = "SLUICE_ZAP_LOG_LEVEL", value_name = "LEVEL", value_parser = zap_level, help_heading = LEGACY)]
    pub(crate) zap_log_level: Option<LogLevel>,

    /// No effect
    #[arg(long, env = "SLUICE_ZAP_STACKTRACE_LEVEL", value_name = "LEVEL", help_heading = LEGACY)]
    pub(crate) zap_stacktrace_level: Option<String>,

    /// No effect: timestamps are RFC 3339 in UTC
    #[arg(long, env = "SLUICE_ZAP_TIME_ENCODING", value_name = "NAME", help_heading = LEGACY)]
    pub(crate) zap_time_encoding: Option<String>,
}

/// Whether a flag has a non-empty value. The value, which may be a secret, is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IsGiven(pub(crate) bool);

impl FromStr for IsGiven {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(!text.is_empty()))
    }
}

fn zap_level(text: &str) -> Result<LogLevel, String> {
    match text.parse::<u32>() {
        Ok(0) => Ok(LogLevel::Info),
        Ok(_) => Ok(LogLevel::Debug),
        Err(_) => LogLevel::from_str(text, true),
    }
}
