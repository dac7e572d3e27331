//! Any other kind that has conditions and a `lastAppliedRevision`.

use super::{Health, Reading, why_unknown};
use crate::{
    Revision,
    foreign::{Object, StatusCondition, slim},
};

pub(super) type App = Object<AppSpec, AppStatus>;

slim! {
    /// What the app asks for.
    pub(super) struct AppSpec {
        /// Its controller leaves it alone.
        suspend: bool,
    }

    /// What became of the app.
    pub(super) struct AppStatus {
        /// The generation last dealt with.
        observed_generation: Option<i64>,
        /// Conditions.
        conditions: Option<Vec<StatusCondition>>,
        /// The revision that runs.
        last_applied_revision: Option<String>,
        /// The revision last tried.
        last_attempted_revision: Option<String>,
    }
}

pub(super) fn reading(app: &App, generation: i64) -> Reading {
    let status = &app.status;
    let Some(conditions) = &status.conditions else {
        return Reading {
            suspended: app.spec.suspend,
            ..Reading::default()
        };
    };
    let health = Health::of(conditions, status.observed_generation, generation);
    let revision = status
        .last_applied_revision
        .as_deref()
        .and_then(Revision::new);
    Reading {
        ready: health.is_ready && !health.lagging && revision.is_some(),
        error: (health.is_ready && revision.is_none())
            .then(|| why_unknown(status.last_applied_revision.as_deref())),
        version: revision
            .as_ref()
            .map(|revision| revision.as_str().to_owned()),
        revision,
        digest: None,
        attempted: status
            .last_attempted_revision
            .as_deref()
            .and_then(Revision::new),
        lagging: health.lagging,
        failed: health.failed,
        suspended: app.spec.suspend,
        message: health.message,
    }
}
