//! Why promotions are withdrawn: the words that their spec holds, and what people read.

use crate::attempt::STRATEGY_CHANGED;

/// Another revision is to be promoted into the site, or what runs there stays.
pub(super) const NO_LONGER_CANDIDATE: &str = "NoLongerCandidate";
/// The environment or the target was removed from the pipeline.
pub(super) const SITE_GONE: &str = "PlaceGone";
/// A person requested to go back or to stay.
pub(crate) const ROLLED_BACK: &str = "RolledBack";

/// How the reason of a withdrawal starts that a person asked for.
pub(super) const CANCELLED: &str = "Cancelled by ";

/// The reason of a withdrawal as people read it: `cancelled by ann: not yet`, `withdrawn: it is no longer …`.
pub(crate) fn withdrawal_clause(reason: &str, environment: &str) -> String {
    if let Some(by) = reason.strip_prefix(CANCELLED) {
        return format!("cancelled by {by}");
    }
    let because = match reason {
        NO_LONGER_CANDIDATE => format!("it is no longer the next revision of {environment}"),
        SITE_GONE => {
            format!("the pipeline has no environment {environment}, or no such target, any more")
        }
        STRATEGY_CHANGED => {
            "its strategy was edited, and a promotion with the new one replaces it".to_owned()
        }
        ROLLED_BACK => format!("somebody requested a rollback of {environment}"),
        reason => match reason.split_once(": ") {
            // The word of a hold before its sentence.
            Some((word, sentence)) if is_word(word) => sentence.to_owned(),
            _ => reason.to_owned(),
        },
    };
    format!("withdrawn: {because}")
}

fn is_word(text: &str) -> bool {
    let capitals = text.chars().filter(char::is_ascii_uppercase).count();
    capitals > 1 && text.chars().all(|c| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_a_clause() {
        for (reason, expected) in [
            (
                NO_LONGER_CANDIDATE,
                "withdrawn: it is no longer the next revision of prod",
            ),
            (
                SITE_GONE,
                "withdrawn: the pipeline has no environment prod, or no such target, any more",
            ),
            (
                ROLLED_BACK,
                "withdrawn: somebody requested a rollback of prod",
            ),
            (
                STRATEGY_CHANGED,
                "withdrawn: its strategy was edited, and a promotion with the new one replaces it",
            ),
            (
                "OlderThanRunning: prod runs 2.0.0, which is newer than 1.0.0",
                "withdrawn: prod runs 2.0.0, which is newer than 1.0.0",
            ),
            ("Cancelled by ada: not yet", "cancelled by ada: not yet"),
        ] {
            assert_eq!(withdrawal_clause(reason, "prod"), expected);
        }
    }
}
