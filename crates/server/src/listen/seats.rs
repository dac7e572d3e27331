//! Room for a bounded number of connections, shared between the addresses they come from.
//!
//! One address may have all seats while nobody else wants one. When all are taken, whoever connects
//! from an address with fewer seats gets one of the address with the most: that of a connection that
//! has not sent a whole request yet, otherwise its oldest. So no address keeps another out, however
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

/// The seats.
pub(super) struct Seats {
    limit: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    count: usize,
    /// The number of the next seat: higher ones are younger.
    next: u64,
    by_address: HashMap<IpAddr, BTreeMap<u64, Arc<Occupant>>>,
}

#[derive(Default)]
struct Occupant {
    /// Told when the seat goes to somebody else.
    lost: Notify,
    has_asked: AtomicBool,
}

/// A seat, given back when this is dropped.
pub(super) struct Seat {
    seats: Arc<Seats>,
    address: IpAddr,
    number: u64,
    occupant: Arc<Occupant>,
}

impl Seats {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        let taken = Mutex::default();
        Arc::new(Self { limit, taken })
    }

    /// A seat for a connection from an address, unless that has its share already.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Seat> {
        let address = network(address);
        let mut taken = self.taken.lock();
        if taken.count >= self.limit && !taken.make_room_for(address) {
            return None;
        }
        let number = taken.next;
        taken.next += 1;
        taken.count += 1;
        let occupant = Arc::<Occupant>::default();
        let seats = taken.by_address.entry(address).or_default();
        seats.insert(number, occupant.clone());
        Some(Seat {
            seats: self.clone(),
            address,
            number,
            occupant,
        })
    }
}

impl Taken {
    /// Takes a seat away from the address with the most, if `address` has fewer even afterwards.
    fn make_room_for(&mut self, address: IpAddr) -> bool {
        let own = self.by_address.get(&address).map_or(0, BTreeMap::len);
        let most = self.by_address.iter().max_by_key(|(_, seats)| seats.len());
        let Some((&other, seats)) = most.filter(|(_, seats)| own + 1 < seats.len()) else {
            return false;
        };
        let has_asked = |occupant: &Occupant| occupant.has_asked.load(Ordering::Relaxed);
        let silent = seats.iter().find(|(_, occupant)| !has_asked(occupant));
        let Some((&number, occupant)) = silent.or_else(|| seats.first_key_value()) else {
            return false;
        };
        occupant.lost.notify_one();
        self.free(other, number);
        true
    }

    fn free(&mut self, address: IpAddr, number: u64) {
        let Some(seats) = self.by_address.get_mut(&address) else {
            return;
        };
        if seats.remove(&number).is_some() {
            self.count -= 1;
        }
        if seats.is_empty() {
            self.by_address.remove(&address);
        }
    }
}

impl Seat {
    /// The connection has sent a request.
    pub(super) fn has_asked(&self) {
        self.occupant.has_asked.store(true, Ordering::Relaxed);
    }

    /// Returns when the seat has gone to somebody else.
    pub(super) async fn lost(&self) {
        self.occupant.lost.notified().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.taken.lock().free(self.address, self.number);
    }
}

/// What counts as one address: of IPv6 the network, since a host has all of it.
fn network(address: IpAddr) -> IpAddr {
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

    fn is_lost(seat: &Seat) -> bool {
        seat.lost().now_or_never().is_some()
    }

    #[test]
    fn seats_are_shared_fairly() {
        let seats = Seats::new(4);
        let (many, few) = (address("127.0.0.1"), address("127.0.0.2"));
        let held: Vec<Seat> = (0..4).map(|_| seats.take(many).unwrap()).collect();
        assert!(seats.take(many).is_none(), "it has them all");
        held[0].has_asked();
        let first = seats.take(few).unwrap();
        let second = seats.take(few).unwrap();
        assert!(seats.take(few).is_none(), "each has half");
        let lost: Vec<bool> = held.iter().map(is_lost).collect();
        assert_eq!(lost, [false, true, true, false]);
        drop((first, second));
        assert!(seats.take(many).is_some(), "what is free is for anybody");
        drop(held);
        assert_eq!(seats.taken.lock().count, 0);
        assert!(seats.taken.lock().by_address.is_empty());
    }

    #[test]
    fn the_oldest_goes_where_all_have_asked() {
        let seats = Seats::new(2);
        let held = [0, 1].map(|_| seats.take(address("127.0.0.1")).unwrap());
        held.iter().for_each(Seat::has_asked);
        let _other = seats.take(address("127.0.0.2")).unwrap();
        assert_eq!(held.each_ref().map(is_lost), [true, false]);
    }

    #[test]
    fn a_network_counts_as_one() {
        let seats = Seats::new(2);
        let _held = [1, 2].map(|it| seats.take(address(&format!("2001:db8::{it}"))).unwrap());
        assert!(seats.take(address("2001:db8::3")).is_none());
        assert!(seats.take(address("2001:db8:0:1::3")).is_some());
    }
}
