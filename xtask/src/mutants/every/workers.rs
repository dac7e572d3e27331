//! Does something for each value of a list, with several threads.

use std::sync::Mutex;
use std::thread;

use anyhow::Result;

/// Calls the function for each value in order; the first error of a thread ends it.
pub(super) fn for_each<T: Sync>(
    workers: usize,
    values: &[T],
    work: impl Fn(&T) -> Result<()> + Sync,
) -> Result<()> {
    let waiting = Mutex::new(values.iter());
    let worker = || -> Result<()> {
        loop {
            let next = waiting.lock().expect("no worker panics").next();
            match next {
                Some(value) => work(value)?,
                None => return Ok(()),
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers.max(1)).map(|_| scope.spawn(worker)).collect();
        let ends = workers
            .into_iter()
            .map(|it| it.join().expect("no worker panics"));
        ends.collect()
    })
}
