//! Who decided about a promotion, and why it ended without an outcome, in words that CLI and dashboard share.

use api::{Promotion, pipeline::RequestKind, promotion::Phase};

use crate::{
    plan::{successor, withdrawal_clause},
    promotion_phase::phase_of,
};

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

/// Why a promotion ended without an outcome, and by whom where that is known: `cancelled by ann`, `withdrawn: it is
/// no longer the next revision of prod`, `replaced by 2.1.0, requested by ann`. Nothing for others.
pub fn ended_because(promotion: &Promotion, promotions: &[Promotion]) -> Option<String> {
    // It may have got there, failed or been closed before it was replaced.
    if matches!(
        phase_of(promotion),
        Some(Phase::Succeeded | Phase::Failed | Phase::Abandoned)
    ) {
        return None;
    }
    let reason = promotion.spec.withdrawn.as_ref()?.reason.as_str();
    let Some(name) = successor(reason) else {
        return Some(withdrawal_clause(reason, &promotion.spec.environment));
    };
    // Pipelines of one name in several namespaces have promotions of the same name.
    let home = &promotion.metadata.namespace;
    let mut others = promotions
        .iter()
        .filter(|it| it.metadata.namespace == *home);
    let Some(other) = others.find(|it| it.metadata.name.as_deref() == Some(name)) else {
        return Some(format!("replaced by {name}"));
    };
    let request = other.spec.request.as_ref();
    let by = request.and_then(|it| it.by.as_deref());
    let by = by.map(|by| format!(", requested by {by}"));
    let (revision, by) = (other.spec.shown_revision(), by.unwrap_or_default());
    Some(format!("replaced by {revision}{by}"))
}

fn with_note(what: &str, by: &str, note: Option<&str>) -> String {
    match note.filter(|note| !note.is_empty()) {
        Some(note) => format!("{what} by {by}: {note}"),
        None => format!("{what} by {by}"),
    }
}
