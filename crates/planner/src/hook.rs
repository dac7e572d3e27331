//! What a webhook call means for a pipeline, and what came of it.
//!
//! [`hear`] judges an event of Flux, [`release`] a revision that CI proposes; both say what to store
//! and how to answer. [`outcome`] reads from stored objects what became of it. Promises to store
//! nothing that is about another app, and to find no outcome before there is one.

mod approval;
mod attribution;
mod event;
mod outcome;
mod secret;
mod unsigned;

pub use approval::{
    ApprovalSignature, SIGNATURE_AGE, SignatureRefusal, approved_by, awaiting_approval,
};
pub(crate) use approval::{guards_signature, is_waiting};
pub use event::{Answer, Event, Heard, InvolvedObject, Refusal, hear, release};
pub use outcome::{Awaited, Outcome, outcome};
pub use secret::{ReportSecret, approval_secret, release_secret, report_secret};
pub use unsigned::Trust;
pub(crate) use unsigned::{how_to_sign, unsigned_report};
