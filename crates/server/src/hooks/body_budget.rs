//! Bounds the memory that the bodies of requests in progress take, in total and per client address.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bytes of all bodies together.
const TOTAL_BYTES: usize = 64 << 20;
/// The bytes of all bodies of one client address.
const BYTES_PER_ADDRESS: usize = TOTAL_BYTES / 4;

type ReservedByAddress = Arc<Mutex<HashMap<IpAddr, usize>>>;

pub(crate) struct BodyBudget {
    total: Arc<Semaphore>,
    reserved: ReservedByAddress,
}

impl Default for BodyBudget {
    fn default() -> Self {
        Self {
            total: Arc::new(Semaphore::new(TOTAL_BYTES)),
            reserved: ReservedByAddress::default(),
        }
    }
}

impl BodyBudget {
    /// An empty reservation for a client.
    pub(super) fn reserve(&self, address: IpAddr) -> BodyReservation {
        BodyReservation {
            address,
            size: 0,
            permit: None,
            total: self.total.clone(),
            reserved: self.reserved.clone(),
        }
    }
}

/// The bytes of one body. They are returned to the budget when it is dropped.
pub(super) struct BodyReservation {
    address: IpAddr,
    size: usize,
    permit: Option<OwnedSemaphorePermit>,
    total: Arc<Semaphore>,
    reserved: ReservedByAddress,
}

impl BodyReservation {
    /// Reserves more bytes, waiting until the total allows it. Returns false if the address may not
    /// have that many.
    pub(super) async fn grow(&mut self, size: usize) -> bool {
        {
            let mut reserved = self.reserved.lock();
            let of_address = reserved.entry(self.address).or_default();
            if *of_address + size > BYTES_PER_ADDRESS {
                return false;
            }
            *of_address += size;
            self.size += size;
        }
        let count = u32::try_from(size).unwrap_or(u32::MAX);
        let more = self.total.clone().acquire_many_owned(count).await;
        let more = more.expect("the semaphore is never closed");
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            None => self.permit = Some(more),
        }
        true
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        let mut reserved = self.reserved.lock();
        if let Some(of_address) = reserved.get_mut(&self.address) {
            *of_address -= self.size;
            if *of_address == 0 {
                reserved.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_address_cannot_take_the_whole_budget() {
        let budget = BodyBudget::default();
        let [one, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let mut held: Vec<BodyReservation> = (0..16).map(|_| budget.reserve(one)).collect();
        for reservation in &mut held {
            assert!(reservation.grow(1 << 20).await);
        }
        assert!(!budget.reserve(one).grow(1).await);
        assert!(budget.reserve(other).grow(1 << 20).await);
        held.pop();
        assert!(budget.reserve(one).grow(1 << 20).await);
        drop(held);
        assert!(budget.reserved.lock().is_empty());
    }
}
