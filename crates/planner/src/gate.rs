//! Gates.
pub(crate) mod suspended;
