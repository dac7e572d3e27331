//! Room for the bodies of calls under way: so much for all, and of that so much for one address.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How much the bodies of all calls under way may take together.
const ALL: usize = 64 << 20;
/// How much of it one address may take.
const ONE: usize = ALL / 4;

type Taken = Arc<Mutex<HashMap<IpAddr, usize>>>;

pub(crate) struct Rooms {
    all: Arc<Semaphore>,
    taken: Taken,
}

impl Default for Rooms {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(ALL)),
            taken: Taken::default(),
        }
    }
}

impl Rooms {
    /// An empty one.
    pub(super) fn open(&self, caller: IpAddr) -> Room {
        Room {
            caller,
            size: 0,
            permit: None,
            all: self.all.clone(),
            taken: self.taken.clone(),
        }
    }
}

/// What one call has. It is given back with the value.
pub(super) struct Room {
    caller: IpAddr,
    size: usize,
    permit: Option<OwnedSemaphorePermit>,
    all: Arc<Semaphore>,
    taken: Taken,
}

impl Room {
    /// Makes it larger, as soon as there is room; says whether the caller may have that much.
    pub(super) async fn grow(&mut self, size: usize) -> bool {
        {
            let mut taken = self.taken.lock();
            let of_caller = taken.entry(self.caller).or_default();
            if *of_caller + size > ONE {
                return false;
            }
            *of_caller += size;
            self.size += size;
        }
        let count = u32::try_from(size).unwrap_or(u32::MAX);
        let more = self.all.clone().acquire_many_owned(count).await;
        let more = more.expect("nobody closes it");
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            None => self.permit = Some(more),
        }
        true
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        if let Some(of_caller) = taken.get_mut(&self.caller) {
            *of_caller -= self.size;
            if *of_caller == 0 {
                taken.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_address_leaves_room_for_others() {
        let rooms = Rooms::default();
        let [one, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let mut held: Vec<Room> = (0..16).map(|_| rooms.open(one)).collect();
        for room in &mut held {
            assert!(room.grow(1 << 20).await);
        }
        assert!(!rooms.open(one).grow(1).await);
        assert!(rooms.open(other).grow(1 << 20).await);
        held.pop();
        assert!(rooms.open(one).grow(1 << 20).await);
        drop(held);
        assert!(rooms.taken.lock().is_empty());
    }
}
