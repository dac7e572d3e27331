//! What a reconcile of one object led to.

use planner::Timestamp;

/// What a reconcile of one object led to.
pub(crate) enum Reconciled {
    /// Its status was written; the new state is to be reconciled.
    Changed,
    /// Nothing differs.
    Unchanged {
        /// When to reconcile it again even if nothing happens.
        again: Option<Timestamp>,
    },
}
