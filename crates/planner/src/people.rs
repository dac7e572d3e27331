//! Who decided about a promotion, in words that CLI and dashboard share.

use api::{Promotion, pipeline::RequestKind};

/// Who requested, approved and rejected a promotion, with their notes; or that a failed check led to it.
pub fn people(promotion: &Promotion) -> Vec<String> {
    let spec = &promotion.spec;
    let requested = spec.request.as_ref().map(|request| {
        let what = match request.kind {
            RequestKind::Rollback => "rollback requested",
            _ => "requested",
        };
        format!("{what} by {}", request.by.as_deref().unwrap_or("somebody"))
    });
    let cause = spec.cause.as_ref();
    let cause = cause.map(|_| "rollback after a failed check".to_owned());
    let approved = spec.given_approvals();
    let approved = approved.map(|it| with_note("approved", &it.by, it.note.as_deref()));
    let rejected = spec.rejection.as_ref();
    let rejected = rejected.map(|it| with_note("rejected", &it.by, it.note.as_deref()));
    requested
        .into_iter()
        .chain(cause)
        .chain(approved)
        .chain(rejected)
        .collect()
}

fn with_note(what: &str, by: &str, note: Option<&str>) -> String {
    match note.filter(|note| !note.is_empty()) {
        Some(note) => format!("{what} by {by}: {note}"),
        None => format!("{what} by {by}"),
    }
}
