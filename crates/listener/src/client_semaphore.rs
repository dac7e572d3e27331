//! A semaphore whose permits are shared fairly between client addresses.
//!
//! One address may hold every permit while nobody else wants one. When none is left, a client from
//! an address with fewer permits gets one of the address with the most: that of a connection that
//! has not sent a whole request yet, otherwise the oldest. So no address keeps another out, however
//! many connections it opens and however slowly it sends.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Limits how many connections or requests are open at once.
pub struct ClientSemaphore {
    limit: usize,
    permits: Mutex<Permits>,
}

#[derive(Default)]
struct Permits {
    count: usize,
    /// The number of the next permit: higher ones are newer.
    next_number: u64,
    by_address: HashMap<IpAddr, BTreeMap<u64, Arc<PermitState>>>,
}

#[derive(Default)]
struct PermitState {
    revoked: Notify,
    has_sent_request: AtomicBool,
}

/// Counts against the limit until it is dropped or revoked.
pub struct ClientPermit {
    semaphore: Arc<ClientSemaphore>,
    address: IpAddr,
    number: u64,
    state: Arc<PermitState>,
}

impl ClientSemaphore {
    /// Gives out at most `limit` permits at once.
    pub fn new(limit: usize) -> Arc<Self> {
        let permits = Mutex::default();
        Arc::new(Self { limit, permits })
    }

    /// A permit for a client address, unless that already has its share.
    pub fn acquire(self: &Arc<Self>, address: IpAddr) -> Option<ClientPermit> {
        let address = client_network(address);
        let mut permits = self.permits.lock();
        if permits.count >= self.limit && !permits.revoke_for(address) {
            return None;
        }
        let number = permits.next_number;
        permits.next_number += 1;
        permits.count += 1;
        let state = Arc::<PermitState>::default();
        let of_address = permits.by_address.entry(address).or_default();
        of_address.insert(number, state.clone());
        Some(ClientPermit {
            semaphore: self.clone(),
            address,
            number,
            state,
        })
    }
}

impl Permits {
    /// Revokes a permit of the address with the most, if `address` has fewer even afterwards.
    fn revoke_for(&mut self, address: IpAddr) -> bool {
        let own = self.by_address.get(&address).map_or(0, BTreeMap::len);
        let most = self.by_address.iter().max_by_key(|(_, of)| of.len());
        let Some((&other, permits)) = most.filter(|(_, of)| own + 1 < of.len()) else {
            return false;
        };
        let has_sent_request = |state: &PermitState| state.has_sent_request.load(Ordering::Relaxed);
        let silent = permits.iter().find(|(_, state)| !has_sent_request(state));
        let Some((&number, state)) = silent.or_else(|| permits.first_key_value()) else {
            return false;
        };
        state.revoked.notify_one();
        self.release(other, number);
        true
    }

    fn release(&mut self, address: IpAddr, number: u64) {
        let Some(permits) = self.by_address.get_mut(&address) else {
            return;
        };
        if permits.remove(&number).is_some() {
            self.count -= 1;
        }
        if permits.is_empty() {
            self.by_address.remove(&address);
        }
    }
}

impl ClientPermit {
    /// The connection has sent a request: it is among the last to be revoked.
    pub fn mark_request_received(&self) {
        self.state.has_sent_request.store(true, Ordering::Relaxed);
    }

    /// Returns when the permit has gone to another client.
    pub async fn revoked(&self) {
        self.state.revoked.notified().await;
    }
}

impl Drop for ClientPermit {
    fn drop(&mut self) {
        let mut permits = self.semaphore.permits.lock();
        permits.release(self.address, self.number);
    }
}

/// What counts as one client: an IPv4 address, or the /64 network of an IPv6 address, since a host
/// has all of it.
pub fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            Ipv6Addr::from(network).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn is_revoked(permit: &ClientPermit) -> bool {
        permit.revoked().now_or_never().is_some()
    }

    #[test]
    fn permits_are_shared_fairly() {
        let semaphore = ClientSemaphore::new(4);
        let (many, few) = (address("127.0.0.1"), address("127.0.0.2"));
        let held: Vec<ClientPermit> = (0..4).map(|_| semaphore.acquire(many).unwrap()).collect();
        assert!(semaphore.acquire(many).is_none(), "it has them all");
        held[0].mark_request_received();
        let first = semaphore.acquire(few).unwrap();
        let second = semaphore.acquire(few).unwrap();
        assert!(semaphore.acquire(few).is_none(), "each has half");
        let revoked: Vec<bool> = held.iter().map(is_revoked).collect();
        assert_eq!(revoked, [false, true, true, false]);
        drop((first, second));
        assert!(semaphore.acquire(many).is_some(), "any client may have it");
        drop(held);
        assert_eq!(semaphore.permits.lock().count, 0);
        assert!(semaphore.permits.lock().by_address.is_empty());
    }

    #[test]
    fn the_oldest_permit_is_revoked_where_all_have_sent_requests() {
        let semaphore = ClientSemaphore::new(2);
        let held = [0, 1].map(|_| semaphore.acquire(address("127.0.0.1")).unwrap());
        held.iter().for_each(ClientPermit::mark_request_received);
        let _other = semaphore.acquire(address("127.0.0.2")).unwrap();
        assert_eq!(held.each_ref().map(is_revoked), [true, false]);
    }

    #[test]
    fn an_ipv6_network_counts_as_one_client() {
        let semaphore = ClientSemaphore::new(2);
        let acquire = |text: &str| semaphore.acquire(address(text));
        let _held = [1, 2].map(|it| acquire(&format!("2001:db8::{it}")).unwrap());
        assert!(acquire("2001:db8::3").is_none());
        assert!(acquire("2001:db8:0:1::3").is_some());
    }
}
