//! The rights that an install enforces by an admission policy, enforced here by the server itself.

use apiserver::Options;

/// How the embedded API is set up.
pub(super) fn options() -> Options {
    Options::default()
}
