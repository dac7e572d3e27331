//! What the process was told, checked.

/// How deployments are noticed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Detect {
    /// By watching the apps on every cluster.
    #[default]
    Watch,
    /// By what webhooks report.
    Webhook,
}

/// What the loops need to know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Only pipelines of this namespace.
    pub namespace: Option<String>,
    /// Only pipelines with these labels.
    pub label_selector: Option<String>,
    /// How many pipelines are worked on at once.
    pub concurrent: usize,
    /// How deployments are noticed.
    pub detect: Detect,
    /// Whether to tell on GitopsClusters if they can be reached.
    pub probe_clusters: bool,
    /// Whether a pipeline may only use clusters of its own namespace, or that allow it.
    pub no_cross_namespace_refs: bool,
    /// Whether reports without a valid signature count.
    pub allow_unsigned_reports: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: None,
            label_selector: None,
            concurrent: 16,
            detect: Detect::Watch,
            probe_clusters: true,
            no_cross_namespace_refs: false,
            allow_unsigned_reports: false,
        }
    }
}
