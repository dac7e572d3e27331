//! The switch of the mutations: which one is selected, and which places are reached.
//!
//! This file is not part of xtask: it becomes a crate in the copy of the workspace. Programs that a test
//! starts inherit the environment, so that they are mutated too.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

const MOST: usize = 1 << 17;
/// No mutation.
const NONE: usize = MOST;
/// No mutation, but a record of the places that are reached.
const RECORD: usize = MOST + 1;
const NOT_READ: usize = MOST + 2;

static SELECTED: AtomicUsize = AtomicUsize::new(NOT_READ);
static REACHED: [AtomicBool; MOST] = [const { AtomicBool::new(false) }; MOST];
static FILE: OnceLock<File> = OnceLock::new();

/// Whether a mutation is selected.
#[inline]
pub fn is(id: usize) -> bool {
    let selected = SELECTED.load(Relaxed);
    if selected <= NONE {
        selected == id
    } else {
        read_or_record(id)
    }
}

#[cold]
fn read_or_record(id: usize) -> bool {
    if SELECTED.load(Relaxed) == NOT_READ {
        SELECTED.store(read(), Relaxed);
        return is(id);
    }
    if !REACHED[id].load(Relaxed)
        && !REACHED[id].swap(true, Relaxed)
        && let Some(mut file) = FILE.get()
    {
        // One write per line, because several processes append to the file.
        let _ = file.write_all(format!("{id}\n").as_bytes());
    }
    false
}

fn read() -> usize {
    if let Some(path) = env::var_os("MUTATIONS_REACHED")
        && let Ok(file) = OpenOptions::new().create(true).append(true).open(path)
    {
        let _ = FILE.set(file);
        return RECORD;
    }
    let selected = env::var("MUTATION").ok();
    selected.and_then(|it| it.parse().ok()).unwrap_or(NONE)
}
