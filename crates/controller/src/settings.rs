//! What a controller process was told, as checked values.
//!
//! Whoever starts the process fills this in once; nothing here is read from flags or the
//! environment, and nothing changes while it runs. What describes a pipeline is on its object.

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use crate::{Connector, KubeconfigPolicy};
use git::runner::GitExecutor;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use net::{HttpTransport, OutboundHttp};
use runtime::{
    ObjectKey,
    events::{FluxEventFilter, FluxReceiver},
    leader::{LeaderElection, OuterLock},
};

/// How many pipelines are worked on at the same time unless told otherwise.
pub const CONCURRENT: usize = 20;
/// How many finished promotions an environment keeps unless told otherwise.
pub const HISTORY_LIMIT: usize = 20;
/// How much room copies of repositories may take unless told otherwise.
pub const GIT_MIRRORS_SIZE: u64 = 3 << 30;
/// How often open pull requests are looked at unless told otherwise.
pub const FOLLOW_EVERY: Duration = Duration::from_secs(60);
/// How long anything done outside the hub may take at most.
const LONGEST_ACT: Duration = Duration::from_secs(20);
/// How long a loop may make no progress while work waits, unless told otherwise.
pub const STALL_AFTER: Duration = Duration::from_secs(5 * 60);
/// How long a loop may take to end once it is told to stop.
pub const GRACE: Duration = Duration::from_secs(5);

/// What one controller process was told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Only objects in this namespace; all namespaces without it.
    pub namespace: Option<String>,
    /// The namespace whose Freezes cover all namespaces; none does without it.
    pub freeze_namespace: Option<String>,
    /// Only pipelines and triggers with these labels; all without it.
    pub label_selector: Option<String>,
    /// How many objects of one kind are worked on at the same time.
    pub concurrent: usize,
    /// Where the knowledge about deployments comes from.
    pub detect: Detect,
    /// Whether Sluice checks that clusters answer and says so on GitopsClusters nobody else reports on.
    pub probe_clusters: bool,
    /// Whether a pipeline may only refer to clusters, and look into namespaces of the hub, that are its
    /// own namespace's.
    pub no_cross_namespace_refs: bool,
    /// Whether reports without a signature count as evidence.
    pub allow_unsigned_reports: bool,
    /// How many finished promotions each environment keeps.
    pub history_limit: usize,
    /// Where copies of repositories are kept; without it, in a temporary folder.
    pub git_folder: Option<PathBuf>,
    /// How many bytes copies of repositories may take.
    pub git_mirrors_size: u64,
    /// Whether repositories, forges and webhooks may be on loopback, link-local and metadata addresses.
    pub allow_internal_urls: bool,
    /// The hosts that checks may ask; none without any.
    pub check_hosts: net::HostPatterns,
    /// Whether Pipelines may tag with this process's workload identity.
    pub allow_registry_identity: bool,
    /// What kubeconfigs of clusters may ask for.
    pub kubeconfigs: KubeconfigPolicy,
    /// The proxy between this process and repositories, forges and webhooks.
    pub proxy: Option<net::Proxy>,
    /// How often open pull requests are looked at.
    pub follow_every: Duration,
    /// Where people reach the dashboard, for links in pull requests.
    pub dashboard_url: Option<String>,
    /// Where changes are proposed; nowhere without it.
    pub authoring: Option<Authoring>,
    /// Whether there are metrics by pipeline.
    pub metrics_per_pipeline: bool,
    /// Where Flux's notification-controller takes events.
    pub events_address: Option<String>,
    /// Which events it is sent.
    pub flux_events: FluxEventFilter,
    /// Where metrics are served.
    pub metrics_address: Option<SocketAddr>,
    /// Where probes are served.
    pub probe_address: Option<SocketAddr>,
    /// How replicas agree on one leader; without it this process leads from the start.
    pub election: Option<LeaderElection>,
    /// A lock above the election, such as the one between data centres.
    pub outer_lock: Option<OuterLock>,
    /// How long a loop may make no progress while work waits before the liveness probe fails.
    pub stall_after: Duration,
    /// How long loops may take to end at shutdown.
    pub grace: Duration,
    /// What a simulation puts in the place of the network and of chance.
    pub replacements: Replacements,
}

/// What a simulation puts in the place of the network and of chance. A process in production has none.
#[derive(Clone, Default)]
pub struct Replacements {
    /// Carries out git commands instead of the program `git`.
    pub git_executor: Option<Arc<dyn GitExecutor>>,
    /// Answers the requests to forges, receivers of webhooks and checks.
    pub http_transport: Option<Arc<dyn HttpTransport>>,
    /// Connects to leaf clusters.
    pub leaf_connector: Option<Connector>,
    /// Makes jitter the same in every run.
    pub seed: Option<u64>,
    /// Our definitions, which take longer to compute than all else that a process does in an hour.
    pub definitions: Option<Arc<Vec<CustomResourceDefinition>>>,
    /// How often clusters are probed, which is most of what an idle process does.
    pub probe_interval: Option<Duration>,
}

impl fmt::Debug for Replacements {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut replacements = formatter.debug_struct("Replacements");
        replacements.field("seed", &self.seed);
        replacements.finish_non_exhaustive()
    }
}

impl Replacements {
    /// Settings for outbound HTTP that use the transport, if there is one.
    pub(crate) fn in_http(&self, http: OutboundHttp) -> OutboundHttp {
        match &self.http_transport {
            Some(transport) => http.with_transport(transport.clone()),
            None => http,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: None,
            freeze_namespace: None,
            label_selector: None,
            concurrent: CONCURRENT,
            detect: Detect::Watch,
            probe_clusters: true,
            no_cross_namespace_refs: false,
            allow_unsigned_reports: false,
            history_limit: HISTORY_LIMIT,
            git_folder: None,
            git_mirrors_size: GIT_MIRRORS_SIZE,
            allow_internal_urls: false,
            check_hosts: net::HostPatterns::default(),
            allow_registry_identity: false,
            kubeconfigs: KubeconfigPolicy::default(),
            proxy: None,
            follow_every: FOLLOW_EVERY,
            dashboard_url: None,
            authoring: None,
            metrics_per_pipeline: true,
            events_address: None,
            flux_events: FluxEventFilter::default(),
            metrics_address: None,
            probe_address: None,
            election: None,
            outer_lock: None,
            stall_after: STALL_AFTER,
            grace: GRACE,
            replacements: Replacements::default(),
        }
    }
}

impl Settings {
    /// The namespace in which Freezes are watched; all without it.
    pub(crate) fn freeze_watch_namespace(&self) -> Option<String> {
        let is_own = self.freeze_namespace.is_none() || self.freeze_namespace == self.namespace;
        self.namespace.clone().filter(|_| is_own)
    }

    /// Where Flux's notification-controller takes events, and which of them.
    pub(crate) fn flux(&self) -> Option<FluxReceiver<'_>> {
        Some(FluxReceiver {
            address: self.events_address.as_deref()?,
            filter: &self.flux_events,
        })
    }

    /// How long anything done outside the hub may take: no longer than a leader can vouch for.
    pub(crate) fn act_time(&self) -> Duration {
        let vouched = self
            .election
            .as_ref()
            .map(|it| it.timing.longest_side_effect());
        vouched.map_or(LONGEST_ACT, |vouched| vouched.min(LONGEST_ACT))
    }
}

/// The repository that changes are proposed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authoring {
    /// Where it is cloned from.
    pub url: String,
    /// The branch that pull requests are for.
    pub branch: String,
    /// Where its pull requests live.
    pub forge: api::pipeline::ForgeKind,
    /// The Secret with the credentials.
    pub secret: ObjectKey,
    /// The folders files may be in; `.` for all, and `${namespace}` stands for the change's.
    pub folders: Vec<String>,
}

/// Where the knowledge about deployments comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detect {
    /// Clusters are watched.
    Watch,
    /// Clusters report by webhook.
    Webhook,
}
