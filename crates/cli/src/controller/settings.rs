//! Settings of the controller from the flags.

use std::{
    collections::BTreeSet,
    env, fs,
    hash::{BuildHasher, Hasher, RandomState},
};

use anyhow::{Context, anyhow, bail, ensure};
use controller::{KubeconfigPolicy, Settings};
use net::{AddressPolicy, HostPatterns};
use runtime::{
    events::FluxEventFilter,
    leader::{LeaderElection, LeaseTiming, OuterLock},
};

use super::{logs::Logging, selector};
use crate::args::{
    controller::{Arguments, DetectFlag, GoBool, LogEncoding, LogLevel},
    legacy::IsGiven,
};

/// Refuses the flags of a removed feature that cannot be ignored safely.
pub(super) fn refuse_second_cluster(arguments: &Arguments) -> anyhow::Result<()> {
    let legacy = &arguments.legacy;
    let names_one = [
        legacy.second_cluster_address,
        legacy.second_cluster_bearer_token,
    ]
    .contains(&Some(IsGiven(true)));
    if legacy.second_cluster == Some(GoBool(true)) || names_one {
        bail!(
            "--second-cluster is not supported: it cannot prevent both clusters from starting the same \
             run. Remove the --second-cluster flags and use --cross-dc-leader-elect instead"
        );
    }
    Ok(())
}

/// A warning for each flag that is set and has no effect.
pub(super) fn without_effect(arguments: &Arguments) -> Vec<String> {
    let legacy = &arguments.legacy;
    let given = [
        (
            "promotion-retry-delay",
            legacy.promotion_retry_delay.is_some(),
        ),
        (
            "promotion-retry-max-delay",
            legacy.promotion_retry_max_delay.is_some(),
        ),
        (
            "promotion-retry-threshold",
            legacy.promotion_retry_threshold.is_some(),
        ),
        (
            "zap-stacktrace-level",
            legacy.zap_stacktrace_level.is_some(),
        ),
        ("zap-time-encoding", legacy.zap_time_encoding.is_some()),
    ];
    let given = given.into_iter().filter(|(_, is_given)| *is_given);
    given
        .map(|(flag, _)| format!("--{flag} is accepted but has no effect"))
        .collect()
}

/// How to log. The legacy flags take precedence, because the others have defaults.
pub(super) fn logging(arguments: &Arguments) -> Logging {
    let legacy = &arguments.legacy;
    let (mut encoding, mut level) = (arguments.logs.log_encoding, arguments.logs.log_level);
    if legacy.zap_devel == Some(GoBool(true)) {
        (encoding, level) = (LogEncoding::Text, LogLevel::Debug);
    }
    Logging {
        encoding: legacy.zap_encoder.unwrap_or(encoding),
        level: legacy.zap_log_level.unwrap_or(level),
    }
}

/// Validates the flags. `own_namespace` is the namespace of the pod.
pub(super) fn check(arguments: &Arguments, own_namespace: &str) -> anyhow::Result<Settings> {
    check_bounds(arguments)?;
    let namespace = arguments
        .watch_namespace
        .clone()
        .filter(|text| !text.is_empty());
    let selector = arguments
        .watch_label_selector
        .as_deref()
        .filter(|text| !text.trim().is_empty());
    let label_selector = selector.map(selector::canonical).transpose()?;
    let shard = Shard {
        namespace: namespace.as_deref(),
        selector: label_selector.as_deref(),
    };
    let identity = identity();
    Ok(Settings {
        outer_lock: cross_dc_lock(arguments, &identity)?,
        election: election(arguments, own_namespace, &shard, identity)?,
        concurrent: arguments.concurrent,
        detect: detect(arguments)?,
        probe_clusters: arguments.probe_clusters.0,
        no_cross_namespace_refs: arguments.no_cross_namespace_refs.0,
        allow_unsigned_reports: arguments.allow_unsigned_reports.0,
        history_limit: arguments.history_limit,
        git_folder: arguments.git_folder.clone(),
        git_mirrors_size: arguments.git_mirrors_size.saturating_mul(1 << 20),
        allow_internal_urls: arguments.allow_internal_urls.0,
        check_hosts: check_hosts(&arguments.check_hosts)?,
        allow_registry_identity: arguments.allow_registry_identity.0,
        kubeconfigs: KubeconfigPolicy(AddressPolicy {
            allow_internal: arguments.allow_internal_urls.0,
            allow_insecure: arguments.allow_insecure_clusters.0,
        }),
        proxy: proxy_of_environment()?,
        follow_every: arguments.follow_every.length(),
        authoring: arguments
            .authoring
            .check(own_namespace, arguments.allow_internal_urls.0)?,
        metrics_per_pipeline: arguments.metrics_per_pipeline.0,
        dashboard_url: web_address("--dashboard-url", arguments.dashboard_url.as_deref())?,
        events_address: web_address("--events-addr", arguments.events_addr.as_deref())?,
        flux_events: flux_events(&arguments.events_reasons),
        metrics_address: arguments.metrics_bind_address.0,
        probe_address: arguments.health_probe_bind_address.0,
        stall_after: arguments.stall_after.length(),
        grace: controller::settings::GRACE,
        replacements: controller::Replacements::default(),
        freeze_namespace: freeze_namespace(arguments, own_namespace, namespace.as_deref()),
        namespace,
        label_selector,
    })
}

/// The hosts that checks may ask.
pub(crate) fn check_hosts(patterns: &[String]) -> anyhow::Result<HostPatterns> {
    let patterns = patterns.iter().map(String::as_str);
    HostPatterns::parse(patterns.filter(|it| !it.trim().is_empty())).context("--check-hosts")
}

/// The namespace whose Freezes cover all namespaces. A controller of one namespace may not read those of
/// another unless it is told to.
fn freeze_namespace(
    arguments: &Arguments,
    own_namespace: &str,
    watched: Option<&str>,
) -> Option<String> {
    let typed = arguments.freeze_namespace.clone();
    let default = watched.is_none().then(|| own_namespace.to_owned());
    typed.or(default).filter(|text| !text.is_empty())
}

fn check_bounds(arguments: &Arguments) -> anyhow::Result<()> {
    ensure!(arguments.concurrent > 0, "--concurrent must be at least 1");
    ensure!(
        arguments.history_limit > 0,
        "--history-limit must be at least 1"
    );
    ensure!(
        arguments.follow_every.length() >= std::time::Duration::from_secs(1),
        "--follow-every must be at least 1s"
    );
    Ok(())
}

fn detect(arguments: &Arguments) -> anyhow::Result<controller::Detect> {
    match (arguments.detect, arguments.legacy.enable_level_triggered) {
        (DetectFlag::Webhook, Some(GoBool(true))) => {
            bail!(
                "--enable-level-triggered means --detect=watch and contradicts --detect=webhook; remove one of them"
            )
        }
        (DetectFlag::Webhook, _) => Ok(controller::Detect::Webhook),
        (DetectFlag::Watch, _) => Ok(controller::Detect::Watch),
    }
}

/// The events that are sent to Flux.
fn flux_events(typed: &[String]) -> FluxEventFilter {
    let reasons = typed.iter().map(|reason| reason.trim().to_owned());
    let reasons: BTreeSet<String> = reasons.filter(|reason| !reason.is_empty()).collect();
    match reasons.contains("all") {
        true => FluxEventFilter::All,
        false => FluxEventFilter::Only(reasons),
    }
}

/// The URL of a flag, if it is set.
fn web_address(flag: &str, typed: Option<&str>) -> anyhow::Result<Option<String>> {
    let Some(address) = typed.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let required = format!("{flag} must be a URL that begins with http:// or https://");
    let url = net::parse_url(address).map_err(|because| anyhow!("{required}: {because}"))?;
    ensure!(matches!(url.scheme(), "http" | "https"), required);
    Ok(Some(url.into()))
}

/// The proxy from the usual environment variables. Its URL may contain a password, so there is no flag.
pub(crate) fn proxy_of_environment() -> anyhow::Result<Option<net::Proxy>> {
    proxy(|name| env::var(name).ok())
}

fn proxy(look_up: impl Fn(&str) -> Option<String>) -> anyhow::Result<Option<net::Proxy>> {
    let given = |names: [&str; 2]| {
        let mut values = names.into_iter().filter_map(&look_up);
        values.find(|value| !value.is_empty())
    };
    let Some(url) = given(["HTTPS_PROXY", "https_proxy"]) else {
        return Ok(None);
    };
    let except = given(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    // The error may quote a password, so it is not repeated.
    match net::Proxy::new(&url, &except) {
        Ok(proxy) => Ok(Some(proxy)),
        Err(_) => bail!("HTTPS_PROXY must be a URL that begins with http:// or https://"),
    }
}

/// The lock between data centres, if it is enabled.
#[cfg(feature = "cross-dc")]
fn cross_dc_lock(arguments: &Arguments, identity: &str) -> anyhow::Result<Option<OuterLock>> {
    if !arguments.cross_dc.cross_dc_leader_elect.0 {
        return Ok(None);
    }
    let look_up = |name: &str| env::var(name).ok();
    let settings = trigger::cross_dc::from_environment(identity.to_owned(), look_up)?;
    Ok(Some(trigger::cross_dc::outer_lock(settings)))
}

#[cfg(not(feature = "cross-dc"))]
fn cross_dc_lock(arguments: &Arguments, _identity: &str) -> anyhow::Result<Option<OuterLock>> {
    if arguments.cross_dc.cross_dc_leader_elect.0 {
        bail!("this binary was built without --cross-dc-leader-elect (cargo feature `cross-dc`)");
    }
    Ok(None)
}

/// The subset of the objects that this process watches.
struct Shard<'a> {
    namespace: Option<&'a str>,
    selector: Option<&'a str>,
}

fn election(
    arguments: &Arguments,
    own_namespace: &str,
    shard: &Shard<'_>,
    identity: String,
) -> anyhow::Result<Option<LeaderElection>> {
    let typed = &arguments.election;
    if !typed.leader_elect.0 {
        return Ok(None);
    }
    let terms = LeaseTiming::new(
        typed.leader_election_lease_duration.length(),
        typed.leader_election_renew_deadline.length(),
        typed.leader_election_retry_period.length(),
    )
    .context("the --leader-election durations are inconsistent")?;
    let namespace = typed
        .leader_election_namespace
        .clone()
        .filter(|text| !text.is_empty());
    Ok(Some(LeaderElection {
        namespace: namespace.unwrap_or_else(|| own_namespace.to_owned()),
        name: lease_name(&typed.leader_election_id, shard),
        identity,
        timing: terms,
    }))
}

/// The Lease is shared by all replicas of a shard and differs between shards.
fn lease_name(base: &str, shard: &Shard<'_>) -> String {
    if shard.namespace.is_none() && shard.selector.is_none() {
        return base.to_owned();
    }
    let parts = [
        shard.namespace.unwrap_or_default(),
        shard.selector.unwrap_or_default(),
    ];
    format!("{base}-{}", api::names::short_hash(&parts))
}

/// The pod's name and a random suffix, unique to this process.
fn identity() -> String {
    let host = ["POD_NAME", "HOSTNAME"]
        .into_iter()
        .find_map(|name| env::var(name).ok());
    let host = host.or_else(|| fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let host = host.unwrap_or_default();
    // The hash seed of a process comes from the operating system's random numbers.
    let random = RandomState::new().build_hasher().finish();
    format!("{}_{random:016x}", host.trim())
}

#[cfg(test)]
mod tests;
