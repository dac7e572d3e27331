//! Revisions.

/// A revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision(String);
