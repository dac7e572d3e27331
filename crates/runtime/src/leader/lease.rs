//! Reads and builds Lease objects. Pure functions.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::core::ObjectMeta;

use super::{FencingToken, LeaderElection};

/// The Lease of an election without a holder so far.
pub(super) fn first(election: &LeaderElection, now: Timestamp) -> Lease {
    let blank = Lease {
        metadata: ObjectMeta {
            namespace: Some(election.namespace.clone()),
            name: Some(election.name.clone()),
            ..ObjectMeta::default()
        },
        spec: None,
    };
    let mut lease = taken(&blank, election, now);
    if let Some(spec) = &mut lease.spec {
        spec.lease_transitions = Some(0);
    }
    lease
}

/// The Lease as a new holder writes it: a new term of leadership, even if the name was ours before.
pub(super) fn taken(previous: &Lease, election: &LeaderElection, now: Timestamp) -> Lease {
    let mut lease = renewed(previous, election, now);
    let spec = lease.spec.get_or_insert_default();
    spec.acquire_time = spec.renew_time.clone();
    spec.lease_transitions = Some(transitions(previous).saturating_add(1));
    lease
}

/// The Lease as its holder renews it.
pub(super) fn renewed(previous: &Lease, election: &LeaderElection, now: Timestamp) -> Lease {
    let mut lease = previous.clone();
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(election.identity.clone());
    spec.lease_duration_seconds = i32::try_from(election.timing.duration.as_secs()).ok();
    spec.renew_time = Some(later(previous, now));
    lease
}

/// The Lease as its holder releases it.
pub(super) fn released(previous: &Lease, now: Timestamp) -> Lease {
    let mut lease = previous.clone();
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    spec.renew_time = Some(later(previous, now));
    lease
}

/// Who holds the Lease, if anyone.
pub(super) fn holder(lease: &Lease) -> Option<&str> {
    let holder = spec(lease)?.holder_identity.as_deref()?;
    (!holder.is_empty()).then_some(holder)
}

/// How long the holder asked others to wait.
pub(super) fn duration(lease: &Lease) -> Option<Duration> {
    let seconds = spec(lease)?.lease_duration_seconds?;
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

/// Identifies the current term of leadership.
pub(super) fn fencing_token(lease: &Lease) -> FencingToken {
    FencingToken {
        lease: lease.metadata.uid.clone().unwrap_or_default(),
        transitions: u64::try_from(transitions(lease)).unwrap_or_default(),
    }
}

/// Whether it is the same object in the same state.
pub(super) fn is_same(one: &Lease, other: &Lease) -> bool {
    one.metadata.uid == other.metadata.uid
        && one.metadata.resource_version == other.metadata.resource_version
}

fn transitions(lease: &Lease) -> i32 {
    spec(lease)
        .and_then(|spec| spec.lease_transitions)
        .unwrap_or_default()
}

fn spec(lease: &Lease) -> Option<&LeaseSpec> {
    lease.spec.as_ref()
}

/// Now, but always later than the stored time. An API server does not store an update that changes
/// nothing, so that a renewal under a clock that stands still or went back would go unnoticed.
fn later(previous: &Lease, now: Timestamp) -> MicroTime {
    let written = spec(previous).and_then(|spec| spec.renew_time.as_ref());
    let next = written.and_then(|time| time.0.checked_add(SignedDuration::from_micros(1)).ok());
    MicroTime(next.map_or(now, |next| next.max(now)))
}
