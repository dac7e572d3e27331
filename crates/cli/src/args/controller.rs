//! What can be typed after `sluice controller`: our flags, and those of the two older projects.

use std::{path::PathBuf, str::FromStr};

use clap::{Args, ValueEnum};

use super::cross_dc::CrossDc;
use crate::address::Address;

/// Other spellings of flags, which help does not show.
pub(crate) const HIDDEN_SPELLINGS: &[&str] = &["cross-ds-leader-elect"];

const WHICH: &str = "Which objects";
const HOW: &str = "How";
pub(super) const ELECTION: &str = "Leader election";
const DOORS: &str = "Where it listens and reports";
const LOGS: &str = "Logs";
const OLD: &str = "From the older projects: accepted, so that their manifests go on working";

/// What stands below the flags.
pub(crate) const AFTER_HELP: &str = "\
Every flag can also be given as the environment variable beside it; the flag wins. Durations are
written 90s, 5m or 1h30m. Single dashes work too, as in -leader-elect. What describes a pipeline is
on the Pipeline, not here.";

/// The flags of `sluice controller`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Look only at objects in this namespace [default: all namespaces]
    #[arg(long, env = "SLUICE_WATCH_NAMESPACE", value_name = "NAMESPACE", help_heading = WHICH)]
    pub(crate) watch_namespace: Option<String>,

    /// Look only at pipelines and triggers with these labels, as in `team=a,tier!=free`. Processes
    /// with different selectors share the work; each selector has a Lease of its own
    #[arg(long, env = "SLUICE_WATCH_LABEL_SELECTOR", value_name = "SELECTOR", help_heading = WHICH)]
    pub(crate) watch_label_selector: Option<String>,

    /// The kubeconfig of the cluster to work in [default: $KUBECONFIG, ~/.kube/config, or the
    /// cluster it runs in]
    #[arg(long, env = "SLUICE_KUBECONFIG", value_name = "FILE", help_heading = WHICH)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// How it learns what clusters run: `watch` looks itself, `webhook` relies on what Flux's Alerts
    /// report
    #[arg(long, env = "SLUICE_DETECT", value_enum, default_value = "watch", help_heading = HOW)]
    pub(crate) detect: Detect,

    /// How many objects of one kind are worked on at the same time
    #[arg(long, env = "SLUICE_CONCURRENT", value_name = "NUMBER", default_value_t = controller::settings::CONCURRENT, help_heading = HOW)]
    pub(crate) concurrent: usize,

    /// How many finished promotions each environment keeps
    #[arg(long, env = "SLUICE_HISTORY_LIMIT", value_name = "NUMBER", default_value_t = controller::settings::HISTORY_LIMIT, help_heading = HOW)]
    pub(crate) history_limit: usize,

    /// Check that clusters answer, and say so on GitopsClusters that nobody else reports on
    #[arg(long, env = "SLUICE_PROBE_CLUSTERS", value_name = "BOOL", default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = HOW)]
    pub(crate) probe_clusters: Switch,

    /// Pipelines may use only clusters of their own namespace, and on the hub only that namespace
    #[arg(long, env = "SLUICE_NO_CROSS_NAMESPACE_REFS", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = HOW)]
    pub(crate) no_cross_namespace_refs: Switch,

    /// Take reports without a signature for true
    #[arg(long, env = "SLUICE_ALLOW_UNSIGNED_REPORTS", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = HOW)]
    pub(crate) allow_unsigned_reports: Switch,

    /// Where copies of git repositories are kept; no other process may use it [default: a temporary
    /// folder that goes with the process]
    #[arg(long, env = "SLUICE_GIT_FOLDER", value_name = "FOLDER", help_heading = HOW)]
    pub(crate) git_folder: Option<PathBuf>,

    /// How much room copies of git repositories may take, in MiB
    #[arg(long, env = "SLUICE_GIT_MIRRORS_SIZE", value_name = "MIB", default_value_t = controller::settings::GIT_MIRRORS_SIZE >> 20, help_heading = HOW)]
    pub(crate) git_mirrors_size: u64,

    /// Repositories, forges, webhooks and clusters may be on loopback, link-local and metadata addresses
    #[arg(long, env = "SLUICE_ALLOW_INTERNAL_URLS", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = HOW)]
    pub(crate) allow_internal_urls: Switch,

    /// Kubeconfigs of clusters may use http and insecure-skip-tls-verify
    #[arg(long, env = "SLUICE_ALLOW_INSECURE_CLUSTERS", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = HOW)]
    pub(crate) allow_insecure_clusters: Switch,

    /// How often open pull requests are looked at: one list per repository and credential
    #[arg(long, env = "SLUICE_FOLLOW_EVERY", value_name = "DURATION", default_value = "1m", help_heading = HOW)]
    pub(crate) follow_every: api::Duration,

    /// Where people reach the dashboard; pull requests then link to their pipeline there
    #[arg(long, env = "SLUICE_DASHBOARD_URL", value_name = "URL", help_heading = HOW)]
    pub(crate) dashboard_url: Option<String>,

    /// How long a loop may make no progress while work waits before the liveness probe fails
    #[arg(long, env = "SLUICE_STALL_AFTER", value_name = "DURATION", default_value = "5m", help_heading = HOW)]
    pub(crate) stall_after: api::Duration,

    #[command(flatten)]
    pub(crate) authoring: super::authoring::Authoring,

    #[command(flatten)]
    pub(crate) election: Election,

    #[command(flatten)]
    pub(crate) cross_dc: CrossDc,

    /// Where `/metrics` is served; `0` for nowhere
    #[arg(long, env = "SLUICE_METRICS_BIND_ADDRESS", value_name = "ADDRESS", default_value = ":8080", help_heading = DOORS)]
    pub(crate) metrics_bind_address: Address,

    /// Metrics by pipeline, beside those over all pipelines
    #[arg(long, env = "SLUICE_METRICS_PER_PIPELINE", value_name = "BOOL", default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = DOORS)]
    pub(crate) metrics_per_pipeline: Switch,

    /// Where `/healthz` and `/readyz` are served; `0` for nowhere
    #[arg(long, env = "SLUICE_HEALTH_PROBE_BIND_ADDRESS", value_name = "ADDRESS", default_value = ":8081", help_heading = DOORS)]
    pub(crate) health_probe_bind_address: Address,

    /// Also send events to Flux's notification-controller at this URL
    #[arg(long, env = "SLUICE_EVENTS_ADDR", value_name = "URL", help_heading = DOORS)]
    pub(crate) events_addr: Option<String>,

    /// Which events to send there, by their reasons, as in `Promote,DeployFailed,Closed`; `all` for
    /// all. What the notification strategy tells, `Promote`, is always sent
    #[arg(long, env = "SLUICE_EVENTS_REASONS", value_name = "REASONS", default_value = "Promote", value_delimiter = ',', help_heading = DOORS)]
    pub(crate) events_reasons: Vec<String>,

    #[command(flatten)]
    pub(crate) server: super::server::Door,

    #[command(flatten)]
    pub(crate) logs: Logs,

    #[command(flatten)]
    pub(crate) old: Old,
}

/// Where the knowledge about deployments comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Detect {
    Watch,
    Webhook,
}

#[derive(Debug, Args)]
pub(crate) struct Election {
    /// Of several replicas only one works at a time. Turn it off only where there is just one
    #[arg(long, env = "SLUICE_LEADER_ELECT", value_name = "BOOL", default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = ELECTION)]
    pub(crate) leader_elect: Switch,

    /// The name of the Lease; with --watch-namespace or --watch-label-selector it gets a suffix
    #[arg(long, env = "SLUICE_LEADER_ELECTION_ID", value_name = "NAME", default_value = "pipeline-controller-leader-election", help_heading = ELECTION)]
    pub(crate) leader_election_id: String,

    /// The namespace of the Lease [default: the one it runs in]
    #[arg(long, env = "SLUICE_LEADER_ELECTION_NAMESPACE", value_name = "NAMESPACE", help_heading = ELECTION)]
    pub(crate) leader_election_namespace: Option<String>,

    /// How long after its last sign of life a leader that crashed is replaced. No push and no call
    /// to a forge may take longer than this less twice the retry period
    #[arg(long, env = "SLUICE_LEADER_ELECTION_LEASE_DURATION", value_name = "DURATION", default_value = "15s", help_heading = ELECTION)]
    pub(crate) leader_election_lease_duration: api::Duration,

    /// How long a leader that cannot renew its Lease goes on
    #[arg(long, env = "SLUICE_LEADER_ELECTION_RENEW_DEADLINE", value_name = "DURATION", default_value = "10s", help_heading = ELECTION)]
    pub(crate) leader_election_renew_deadline: api::Duration,

    /// How often the Lease is renewed or asked for
    #[arg(long, env = "SLUICE_LEADER_ELECTION_RETRY_PERIOD", value_name = "DURATION", default_value = "2s", help_heading = ELECTION)]
    pub(crate) leader_election_retry_period: api::Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// How log lines are written
    #[arg(long, env = "SLUICE_LOG_ENCODING", value_enum, default_value = "json", help_heading = LOGS)]
    pub(crate) log_encoding: Encoding,

    /// What is logged: this and what is graver
    #[arg(long, env = "SLUICE_LOG_LEVEL", value_enum, default_value = "info", help_heading = LOGS)]
    pub(crate) log_level: Level,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Encoding {
    Json,
    #[value(alias = "console")]
    Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    Trace,
    Debug,
    Info,
    #[value(alias = "warning")]
    Warn,
    #[value(aliases = ["dpanic", "panic", "fatal"])]
    Error,
}

/// Flags that the older projects had. Numbers and words are taken as they come, since nothing reads
/// them.
#[derive(Debug, Args)]
pub(crate) struct Old {
    /// The same as --detect=watch
    #[arg(long, env = "SLUICE_ENABLE_LEVEL_TRIGGERED", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = OLD)]
    pub(crate) enable_level_triggered: Option<Switch>,

    /// No effect: what fails is tried again until it works
    #[arg(long, env = "SLUICE_PROMOTION_RETRY_DELAY", value_name = "SECONDS", allow_negative_numbers = true, help_heading = OLD)]
    pub(crate) promotion_retry_delay: Option<i64>,

    /// No effect: see --promotion-retry-delay
    #[arg(long, env = "SLUICE_PROMOTION_RETRY_MAX_DELAY", value_name = "SECONDS", allow_negative_numbers = true, help_heading = OLD)]
    pub(crate) promotion_retry_max_delay: Option<i64>,

    /// No effect: see --promotion-retry-delay
    #[arg(long, env = "SLUICE_PROMOTION_RETRY_THRESHOLD", value_name = "NUMBER", allow_negative_numbers = true, help_heading = OLD)]
    pub(crate) promotion_retry_threshold: Option<i64>,

    /// Refused: use the lock across data centres instead
    #[arg(long, env = "SLUICE_SECOND_CLUSTER", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = OLD)]
    pub(crate) second_cluster: Option<Switch>,

    /// Refused: see --second-cluster
    #[arg(long, env = "SLUICE_SECOND_CLUSTER_ADDRESS", value_name = "ADDRESS", help_heading = OLD)]
    pub(crate) second_cluster_address: Option<Said>,

    /// Refused: see --second-cluster
    #[arg(long, env = "SLUICE_SECOND_CLUSTER_BEARER_TOKEN", value_name = "TOKEN", hide_env_values = true, help_heading = OLD)]
    pub(crate) second_cluster_bearer_token: Option<Said>,

    /// `true` is --log-encoding=text --log-level=debug
    #[arg(long, env = "SLUICE_ZAP_DEVEL", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = OLD)]
    pub(crate) zap_devel: Option<Switch>,

    /// The same as --log-encoding
    #[arg(long, env = "SLUICE_ZAP_ENCODER", value_enum, help_heading = OLD)]
    pub(crate) zap_encoder: Option<Encoding>,

    /// The same as --log-level; numbers above 0 are `debug`
    #[arg(long, env = "SLUICE_ZAP_LOG_LEVEL", value_name = "LEVEL", value_parser = zap_level, help_heading = OLD)]
    pub(crate) zap_log_level: Option<Level>,

    /// No effect
    #[arg(long, env = "SLUICE_ZAP_STACKTRACE_LEVEL", value_name = "LEVEL", help_heading = OLD)]
    pub(crate) zap_stacktrace_level: Option<String>,

    /// No effect: times are RFC 3339 in UTC
    #[arg(long, env = "SLUICE_ZAP_TIME_ENCODING", value_name = "NAME", help_heading = OLD)]
    pub(crate) zap_time_encoding: Option<String>,
}

/// On or off, as Go reads a boolean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switch(pub(crate) bool);

impl FromStr for Switch {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Self(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Self(false)),
            _ => Err("say true or false"),
        }
    }
}

/// Whether something was said. What it was, a secret perhaps, is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said(pub(crate) bool);

impl FromStr for Said {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(!text.is_empty()))
    }
}

fn zap_level(text: &str) -> Result<Level, String> {
    match text.parse::<u32>() {
        Ok(0) => Ok(Level::Info),
        Ok(_) => Ok(Level::Debug),
        Err(_) => Level::from_str(text, true),
    }
}
