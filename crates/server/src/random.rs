//! Randomness that nobody can guess: for ids, keys and nonces.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};

/// Fills with random bytes.
pub(crate) fn fill(bytes: &mut [u8]) {
    let filled = SystemRandom::new().fill(bytes);
    filled.expect("the operating system has random numbers");
}

/// An id of 32 random hex digits.
pub(crate) fn id() -> String {
    let mut bytes = [0; 16];
    fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// 32 random bytes, as text for URLs.
pub(crate) fn token() -> String {
    let mut bytes = [0; 32];
    fill(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}
