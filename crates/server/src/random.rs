//! Names that nobody can guess.

use ring::rand::{SecureRandom, SystemRandom};

/// Thirty-two random hex digits.
pub(crate) fn id() -> String {
    let mut bytes = [0; 16];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.expect("the operating system has random numbers");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
