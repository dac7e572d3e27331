//! Decides what a webhook call means for a pipeline, and finds what became of it.
//!
//! [`evaluate_event`] reads an event of Flux, [`evaluate_release`] a revision that CI proposes; both say
//! what to store and how to answer. [`promotion_result`] reads from stored objects what became of it.
//! Events about other apps are not stored.

mod answer;
mod approval;
mod attribution;
mod check;
mod event;
mod result;
mod secret;
mod unsigned;

pub use answer::{HookAnswer, HookDecision, HookRefusal};
pub(crate) use approval::guards_signature;
pub use approval::{
    ApprovalSignature, SIGNATURE_AGE, SignatureRefusal, approved_by, awaiting_approval,
};
pub use check::{
    CheckReportRefusal, ReportedCheck, check_secret, external_checks, refuse_result, reported_run,
};
pub use event::{FluxEvent, InvolvedObject, evaluate_event, evaluate_release};
pub use result::{AwaitedPromotion, PromotionResult, promotion_result};
pub use secret::{ReportSecret, approval_secret, release_secret, report_secret};
pub use unsigned::SignatureTrust;
pub(crate) use unsigned::{how_to_sign, unsigned_report};
