//! The checks of an environment: which revisions need which checks, and how these stand.
//!
//! A check runs as a CheckRun. [`fold_checks`] copies the newest attempts into the status, and everything
//! else reads them there. A CheckRun counts only if the pipeline owns it, its name is that of its spec, and
//! its check is still defined so: whatever else there is counts as missing, and nothing passes without a
//! verdict.

mod retry;
mod rollback;
mod runs;
mod verdicts;

pub use runs::{fold_checks, measures_on, surplus_checks};
pub use verdicts::CheckProgress;

pub(crate) use retry::{checked_revision, retry, runs_somewhere};
pub(crate) use rollback::{DerivedRollback, derived_rollback, not_possible};
pub(crate) use runs::missing;
pub(crate) use verdicts::{CheckStates, progress, remember, summary};
