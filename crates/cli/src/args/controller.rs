//! Flags of `sluice controller`.

use std::{path::PathBuf, str::FromStr};

use clap::{Args, ValueEnum};

use super::{cross_dc::CrossDcFlags, legacy::LegacyFlags};
use crate::bind_address::BindAddress;

/// Aliases of flags that `--help` does not show.
pub(crate) const HIDDEN_ALIASES: &[&str] = &["cross-ds-leader-elect"];

const SCOPE: &str = "Watched objects";
const RECONCILIATION: &str = "Reconciliation";
pub(super) const ELECTION: &str = "Leader election";
const OBSERVABILITY: &str = "Metrics, probes and events";
const LOGGING: &str = "Logging";

/// Text below the list of flags.
pub(crate) const AFTER_HELP: &str = "\
Each flag can also be set by the environment variable shown next to it; the flag takes precedence.
Durations are written as 90s, 5m or 1h30m. Single dashes are accepted, as in -leader-elect. These flags
configure the process; pipelines are configured by Pipeline objects.";

/// The flags of `sluice controller`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Watch only objects in this namespace [default: all namespaces]
    #[arg(long, env = "SLUICE_WATCH_NAMESPACE", value_name = "NAMESPACE", help_heading = SCOPE)]
    pub(crate) watch_namespace: Option<String>,

    /// Watch only Pipelines and PipelineTriggers that match this label selector, such as
    /// `team=a,tier!=free`. Use it to shard: each selector has its own Lease
    #[arg(long, env = "SLUICE_WATCH_LABEL_SELECTOR", value_name = "SELECTOR", help_heading = SCOPE)]
    pub(crate) watch_label_selector: Option<String>,

    /// Namespace whose Freezes cover all namespaces [default: the namespace of the pod; none with
    /// --watch-namespace]
    #[arg(long, env = "SLUICE_FREEZE_NAMESPACE", value_name = "NAMESPACE", help_heading = SCOPE)]
    pub(crate) freeze_namespace: Option<String>,

    /// Kubeconfig of the hub cluster [default: $KUBECONFIG, ~/.kube/config, or the in-cluster
    /// service account]
    #[arg(long, env = "SLUICE_KUBECONFIG", value_name = "FILE", help_heading = SCOPE)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// How deployments are detected: `watch` watches the apps on each cluster, `webhook` relies on
    /// reports sent by Flux Alerts
    #[arg(long, env = "SLUICE_DETECT", value_enum, default_value = "watch", help_heading = RECONCILIATION)]
    pub(crate) detect: DetectFlag,

    /// Number of objects of each kind that are reconciled concurrently
    #[arg(long, env = "SLUICE_CONCURRENT", value_name = "NUMBER", default_value_t = controller::settings::CONCURRENT, help_heading = RECONCILIATION)]
    pub(crate) concurrent: usize,

    /// Number of finished Promotions to keep for each environment, and of finished Changes for each namespace
    #[arg(long, env = "SLUICE_HISTORY_LIMIT", value_name = "NUMBER", default_value_t = controller::settings::HISTORY_LIMIT, help_heading = RECONCILIATION)]
    pub(crate) history_limit: usize,

    /// Probe the connectivity of each cluster and write it to the status of its GitopsCluster, unless another
    /// controller writes that
    #[arg(long, env = "SLUICE_PROBE_CLUSTERS", value_name = "BOOL", default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = RECONCILIATION)]
    pub(crate) probe_clusters: GoBool,

    /// Pipelines may use only GitopsClusters of their own namespace and, on the hub, targets in that namespace,
    /// unless the annotation pipelines.weave.works/allowed-namespaces of the GitopsCluster or Namespace lists it
    #[arg(long, env = "SLUICE_NO_CROSS_NAMESPACE_REFS", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = RECONCILIATION)]
    pub(crate) no_cross_namespace_refs: GoBool,

    /// Accept deployment reports without a signature
    #[arg(long, env = "SLUICE_ALLOW_UNSIGNED_REPORTS", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = RECONCILIATION)]
    pub(crate) allow_unsigned_reports: GoBool,

    /// Folder for git mirrors, not shared with any other process [default: a temporary folder, removed
    /// when the process ends]
    #[arg(long, env = "SLUICE_GIT_FOLDER", value_name = "FOLDER", help_heading = RECONCILIATION)]
    pub(crate) git_folder: Option<PathBuf>,

    /// Maximum disk space for git mirrors, in MiB
    #[arg(long, env = "SLUICE_GIT_MIRRORS_SIZE", value_name = "MIB", default_value_t = controller::settings::GIT_MIRRORS_SIZE >> 20, help_heading = RECONCILIATION)]
    pub(crate) git_mirrors_size: u64,

    /// Allow repositories, forges, registries, webhooks, clusters and the OpenID provider on loopback, link-local
    /// and metadata addresses
    #[arg(long, env = "SLUICE_ALLOW_INTERNAL_URLS", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = RECONCILIATION)]
    pub(crate) allow_internal_urls: GoBool,

    /// Hosts that checks of pipelines may send requests to, such as
    /// `prometheus.monitoring:9090,*.example.com` [default: none]
    #[arg(long, env = "SLUICE_CHECK_HOSTS", value_name = "PATTERNS", value_delimiter = ',', help_heading = RECONCILIATION)]
    pub(crate) check_hosts: Vec<String>,

    /// Allow every Pipeline to tag with the controller's workload identity (`strategy.oci.provider`)
    #[arg(long, env = "SLUICE_ALLOW_REGISTRY_IDENTITY", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = RECONCILIATION)]
    pub(crate) allow_registry_identity: GoBool,

    /// Allow kubeconfigs of clusters with http or insecure-skip-tls-verify
    #[arg(long, env = "SLUICE_ALLOW_INSECURE_CLUSTERS", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = RECONCILIATION)]
    pub(crate) allow_insecure_clusters: GoBool,

    /// Poll interval for open pull requests; one list request per repository and credential
    #[arg(long, env = "SLUICE_FOLLOW_EVERY", value_name = "DURATION", default_value = "1m", help_heading = RECONCILIATION)]
    pub(crate) follow_every: api::Duration,

    /// URL of the dashboard, for links in pull requests and events, and for sign-in
    #[arg(long, env = "SLUICE_DASHBOARD_URL", value_name = "URL", help_heading = RECONCILIATION)]
    pub(crate) dashboard_url: Option<String>,

    /// The liveness probe fails when a reconciler has queued work and makes no progress for this long
    #[arg(long, env = "SLUICE_STALL_AFTER", value_name = "DURATION", default_value = "5m", help_heading = RECONCILIATION)]
    pub(crate) stall_after: api::Duration,

    #[command(flatten)]
    pub(crate) authoring: super::authoring::AuthoringFlags,

    #[command(flatten)]
    pub(crate) election: LeaderElectionFlags,

    #[command(flatten)]
    pub(crate) cross_dc: CrossDcFlags,

    /// Listen address for `/metrics`; `0` disables it
    #[arg(long, env = "SLUICE_METRICS_BIND_ADDRESS", value_name = "ADDRESS", default_value = ":8080", help_heading = OBSERVABILITY)]
    pub(crate) metrics_bind_address: BindAddress,

    /// Export metrics for each pipeline in addition to those over all pipelines
    #[arg(long, env = "SLUICE_METRICS_PER_PIPELINE", value_name = "BOOL", default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = OBSERVABILITY)]
    pub(crate) metrics_per_pipeline: GoBool,

    /// Listen address for `/healthz` and `/readyz`; `0` disables it
    #[arg(long, env = "SLUICE_HEALTH_PROBE_BIND_ADDRESS", value_name = "ADDRESS", default_value = ":8081", help_heading = OBSERVABILITY)]
    pub(crate) health_probe_bind_address: BindAddress,

    /// URL of Flux's notification-controller, to which events are sent [default: none]
    #[arg(long, env = "SLUICE_EVENTS_ADDR", value_name = "URL", help_heading = OBSERVABILITY)]
    pub(crate) events_addr: Option<String>,

    /// Reasons of the events to send to --events-addr, such as `Promote,DeployFailed,Closed`, or
    /// `all`. `Promote`, the event of the notification strategy, is always sent
    #[arg(long, env = "SLUICE_EVENTS_REASONS", value_name = "REASONS", default_value = "Promote", value_delimiter = ',', help_heading = OBSERVABILITY)]
    pub(crate) events_reasons: Vec<String>,

    #[command(flatten)]
    pub(crate) server: super::server::ServerFlags,

    #[command(flatten)]
    pub(crate) oidc: super::oidc::OidcFlags,

    #[command(flatten)]
    pub(crate) logs: LogFlags,

    #[command(flatten)]
    pub(crate) legacy: LegacyFlags,
}

/// How deployments are detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DetectFlag {
    Watch,
    Webhook,
}

#[derive(Debug, Args)]
pub(crate) struct LeaderElectionFlags {
    /// Elect a leader, so that only one of several replicas reconciles. Disable it only with a single
    /// replica
    #[arg(long, env = "SLUICE_LEADER_ELECT", value_name = "BOOL", default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = ELECTION)]
    pub(crate) leader_elect: GoBool,

    /// Name of the Lease; --watch-namespace and --watch-label-selector add a suffix
    #[arg(long, env = "SLUICE_LEADER_ELECTION_ID", value_name = "NAME", default_value = "pipeline-controller-leader-election", help_heading = ELECTION)]
    pub(crate) leader_election_id: String,

    /// Namespace of the Lease [default: the namespace of the pod]
    #[arg(long, env = "SLUICE_LEADER_ELECTION_NAMESPACE", value_name = "NAMESPACE", help_heading = ELECTION)]
    pub(crate) leader_election_namespace: Option<String>,

    /// A leader that crashed is replaced this long after its last renewal. A push or a call to a forge
    /// may take at most this duration minus twice the retry period
    #[arg(long, env = "SLUICE_LEADER_ELECTION_LEASE_DURATION", value_name = "DURATION", default_value = "15s", help_heading = ELECTION)]
    pub(crate) leader_election_lease_duration: api::Duration,

    /// How long a leader that cannot renew its Lease keeps trying before it stops
    #[arg(long, env = "SLUICE_LEADER_ELECTION_RENEW_DEADLINE", value_name = "DURATION", default_value = "10s", help_heading = ELECTION)]
    pub(crate) leader_election_renew_deadline: api::Duration,

    /// Interval between attempts to renew or acquire the Lease
    #[arg(long, env = "SLUICE_LEADER_ELECTION_RETRY_PERIOD", value_name = "DURATION", default_value = "2s", help_heading = ELECTION)]
    pub(crate) leader_election_retry_period: api::Duration,
}

#[derive(Debug, Args)]
pub(crate) struct LogFlags {
    /// Format of log lines
    #[arg(long, env = "SLUICE_LOG_ENCODING", value_enum, default_value = "json", help_heading = LOGGING)]
    pub(crate) log_encoding: LogEncoding,

    /// Minimum level of log lines
    #[arg(long, env = "SLUICE_LOG_LEVEL", value_enum, default_value = "info", help_heading = LOGGING)]
    pub(crate) log_level: LogLevel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogEncoding {
    Json,
    #[value(alias = "console")]
    Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Trace,
    Debug,
    Info,
    #[value(alias = "warning")]
    Warn,
    #[value(aliases = ["dpanic", "panic", "fatal"])]
    Error,
}

/// A boolean, parsed as Go parses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GoBool(pub(crate) bool);

impl FromStr for GoBool {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Self(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Self(false)),
            _ => Err("must be true or false"),
        }
    }
}
