//! What was typed, checked once.

use std::{
    collections::BTreeSet,
    env, fs,
    hash::{BuildHasher, Hasher, RandomState},
};

use anyhow::{Context, anyhow, bail, ensure};
use controller::{
    KubeconfigPolicy, Settings,
    events::FluxEvents,
    lease::{Election, Terms},
};

use super::{logs::Logging, selector};
use crate::args::controller::{Arguments, Detect, Encoding, Level, Said, Switch};

/// Says no to what would run, but not do what its user expects.
pub(super) fn refuse_what_cannot_work(arguments: &Arguments) -> anyhow::Result<()> {
    let old = &arguments.old;
    let names_one =
        [old.second_cluster_address, old.second_cluster_bearer_token].contains(&Some(Said(true)));
    if old.second_cluster == Some(Switch(true)) || names_one {
        bail!(
            "--second-cluster is gone: asking another cluster what it runs does not keep both from \
             starting the same run. The lock across data centres, --cross-dc-leader-elect, does; \
             remove the --second-cluster flags"
        );
    }
    Ok(())
}

/// A sentence for each flag that was given and does nothing.
pub(super) fn without_effect(arguments: &Arguments) -> Vec<String> {
    let old = &arguments.old;
    let given = [
        ("promotion-retry-delay", old.promotion_retry_delay.is_some()),
        (
            "promotion-retry-max-delay",
            old.promotion_retry_max_delay.is_some(),
        ),
        (
            "promotion-retry-threshold",
            old.promotion_retry_threshold.is_some(),
        ),
        ("zap-stacktrace-level", old.zap_stacktrace_level.is_some()),
        ("zap-time-encoding", old.zap_time_encoding.is_some()),
    ];
    let given = given.into_iter().filter(|(_, is_given)| *is_given);
    given
        .map(|(flag, _)| format!("--{flag} is accepted but has no effect"))
        .collect()
}

/// How to log. The older spellings win, since ours have defaults.
pub(super) fn logging(arguments: &Arguments) -> Logging {
    let old = &arguments.old;
    let (mut encoding, mut level) = (arguments.logs.log_encoding, arguments.logs.log_level);
    if old.zap_devel == Some(Switch(true)) {
        (encoding, level) = (Encoding::Text, Level::Debug);
    }
    Logging {
        encoding: old.zap_encoder.unwrap_or(encoding),
        level: old.zap_log_level.unwrap_or(level),
    }
}

/// The settings of the controller. `own_namespace` is the one it runs in.
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
        cross_dc: cross_dc(arguments, &identity)?,
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
        kubeconfigs: KubeconfigPolicy {
            allow_internal: arguments.allow_internal_urls.0,
            allow_insecure: arguments.allow_insecure_clusters.0,
        },
        proxy: proxy(|name| env::var(name).ok())?,
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
        namespace,
        label_selector,
    })
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
    match (arguments.detect, arguments.old.enable_level_triggered) {
        (Detect::Webhook, Some(Switch(true))) => {
            bail!("--enable-level-triggered is --detect=watch: leave one of them away")
        }
        (Detect::Webhook, _) => Ok(controller::Detect::Webhook),
        (Detect::Watch, _) => Ok(controller::Detect::Watch),
    }
}

/// Which events Flux is sent.
fn flux_events(typed: &[String]) -> FluxEvents {
    let reasons = typed.iter().map(|reason| reason.trim().to_owned());
    let reasons: BTreeSet<String> = reasons.filter(|reason| !reason.is_empty()).collect();
    match reasons.contains("all") {
        true => FluxEvents::All,
        false => FluxEvents::Only(reasons),
    }
}

/// The address that was typed, if any.
fn web_address(flag: &str, typed: Option<&str>) -> anyhow::Result<Option<String>> {
    let Some(address) = typed.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let begins = format!("{flag} must be a URL that begins with http:// or https://");
    let url = net::parse_url(address).map_err(|because| anyhow!("{begins}: {because}"))?;
    ensure!(matches!(url.scheme(), "http" | "https"), begins);
    Ok(Some(url.into()))
}

/// The proxy that the environment names, as most programs read it. It may hold a password, so there
/// is no flag for it.
fn proxy(look_up: impl Fn(&str) -> Option<String>) -> anyhow::Result<Option<net::Proxy>> {
    let given = |names: [&str; 2]| {
        let mut values = names.into_iter().filter_map(&look_up);
        values.find(|value| !value.is_empty())
    };
    let Some(url) = given(["HTTPS_PROXY", "https_proxy"]) else {
        return Ok(None);
    };
    let except = given(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    // What is wrong with it is not repeated: it may hold a password.
    match net::Proxy::new(&url, &except) {
        Ok(proxy) => Ok(Some(proxy)),
        Err(_) => bail!("HTTPS_PROXY must be a URL that begins with http:// or https://"),
    }
}

/// How the database of the lock between data centres is reached, if there is to be one.
fn cross_dc(
    arguments: &Arguments,
    identity: &str,
) -> anyhow::Result<Option<controller::cross_dc::Settings>> {
    if !arguments.cross_dc.cross_dc_leader_elect.0 {
        return Ok(None);
    }
    let look_up = |name: &str| env::var(name).ok();
    let settings = controller::cross_dc::from_environment(identity.to_owned(), look_up)?;
    Ok(Some(settings))
}

/// The part of the objects this process looks at.
struct Shard<'a> {
    namespace: Option<&'a str>,
    selector: Option<&'a str>,
}

fn election(
    arguments: &Arguments,
    own_namespace: &str,
    shard: &Shard<'_>,
    identity: String,
) -> anyhow::Result<Option<Election>> {
    let typed = &arguments.election;
    if !typed.leader_elect.0 {
        return Ok(None);
    }
    let terms = Terms::new(
        typed.leader_election_lease_duration.length(),
        typed.leader_election_renew_deadline.length(),
        typed.leader_election_retry_period.length(),
    )
    .context("the --leader-election durations do not fit together")?;
    let namespace = typed
        .leader_election_namespace
        .clone()
        .filter(|text| !text.is_empty());
    Ok(Some(Election {
        namespace: namespace.unwrap_or_else(|| own_namespace.to_owned()),
        name: lease_name(&typed.leader_election_id, shard),
        identity,
        terms,
    }))
}

/// The same for all replicas of a shard, another for each shard.
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

/// The pod's name and something no other process has.
fn identity() -> String {
    let host = ["POD_NAME", "HOSTNAME"]
        .into_iter()
        .find_map(|name| env::var(name).ok());
    let host = host.or_else(|| fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let host = host.unwrap_or_default();
    // The process's own hash seed comes from the operating system's random numbers.
    let random = RandomState::new().build_hasher().finish();
    format!("{}_{random:016x}", host.trim())
}

#[cfg(test)]
mod tests;
