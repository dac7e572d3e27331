//! Random ids.

use ring::rand::{SecureRandom, SystemRandom};

/// An id of 32 random hex digits.
pub(crate) fn id() -> String {
    let mut bytes = [0; 16];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.expect("the operating system has random numbers");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
