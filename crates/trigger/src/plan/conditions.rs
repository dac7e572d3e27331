//! The trigger operator's status conditions, with its spelling, and how they are updated.

use api::{Condition, Time, tekton::Progress};
use jiff::Timestamp;

pub(crate) const UNKNOWN: &str = "Unknown";
pub(crate) const IN_PROGRESS: &str = "InProgress";
pub(crate) const SUCCESS: &str = "Success";
pub(crate) const ERROR: &str = "Error";
/// Spelled this way since the first release.
pub(crate) const SUCCEEDED: &str = "Succeded";
pub(crate) const FAILED: &str = "Failed";

/// API servers reject longer messages.
const MAX_MESSAGE: usize = 32_000;

/// Sets conditions for one generation at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConditionWriter {
    pub(crate) generation: Option<i64>,
    pub(crate) now: Timestamp,
}

/// The fields of a condition that vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConditionContent<'a> {
    pub(crate) type_: &'a str,
    pub(crate) status: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

impl ConditionWriter {
    /// Adds a condition or replaces the one of the same type. The transition time is kept while the
    /// status is the same.
    pub(crate) fn set(self, conditions: &mut Vec<Condition>, content: ConditionContent<'_>) {
        let mut condition = Condition {
            type_: content.type_.to_owned(),
            status: content.status.to_owned(),
            reason: valid_reason(content.reason),
            message: truncate(content.message),
            observed_generation: self.generation,
            last_transition_time: Time(self.now_in_seconds()),
        };
        let existing = conditions
            .iter_mut()
            .find(|existing| existing.type_ == content.type_);
        let Some(existing) = existing else {
            conditions.push(condition);
            return;
        };
        if existing.status == condition.status {
            condition.last_transition_time = existing.last_transition_time.clone();
        }
        *existing = condition;
    }

    /// The API server stores whole seconds; fractions would differ at every reconcile.
    fn now_in_seconds(self) -> Timestamp {
        Timestamp::from_second(self.now.as_second()).unwrap_or(self.now)
    }

    /// Replaces all conditions by the one of a run that was just submitted.
    pub(crate) fn submitted(self, conditions: &mut Vec<Condition>) {
        conditions.clear();
        let content = ConditionContent {
            type_: UNKNOWN,
            status: "Unknown",
            reason: UNKNOWN,
            message: "Unknown",
        };
        self.set(conditions, content);
    }

    /// Sets the condition for the progress of the run.
    pub(crate) fn progress(self, conditions: &mut Vec<Condition>, progress: &Progress) {
        let (type_, status, reason, message) = match progress {
            Progress::Unknown => return,
            Progress::Running => (IN_PROGRESS, "Unknown", IN_PROGRESS, "Progressing"),
            Progress::Succeeded => (SUCCESS, "True", SUCCEEDED, "Reconciliation is successful."),
            Progress::Failed { reason, message } => {
                (SUCCESS, "False", reason.as_str(), message.as_str())
            }
        };
        let content = ConditionContent {
            type_,
            status,
            reason,
            message,
        };
        self.set(conditions, content);
    }

    /// Sets the error that prevents the run from being started.
    pub(crate) fn error(self, conditions: &mut Vec<Condition>, message: &str) {
        let content = ConditionContent {
            type_: ERROR,
            status: "False",
            reason: FAILED,
            message,
        };
        self.set(conditions, content);
    }
}

/// Removes the condition of a type.
pub(crate) fn remove_condition(conditions: &mut Vec<Condition>, type_: &str) {
    conditions.retain(|condition| condition.type_ != type_);
}

/// The newest of the operator's conditions.
pub(crate) fn newest(conditions: &[Condition]) -> Option<&Condition> {
    let legacy = conditions
        .iter()
        .filter(|condition| condition.type_ != api::conditions::READY);
    legacy.max_by_key(|condition| condition.last_transition_time.0)
}

/// A reason as API servers accept it.
fn valid_reason(reason: &str) -> String {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "_,:".contains(c);
    let word: String = reason.chars().filter(|c| is_inner(*c)).take(1024).collect();
    let word = word.trim_end_matches([',', ':']);
    if word.starts_with(|c: char| c.is_ascii_alphabetic()) {
        word.to_owned()
    } else {
        FAILED.to_owned()
    }
}

fn truncate(message: &str) -> String {
    let mut end = message.len().min(MAX_MESSAGE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> ConditionWriter {
        ConditionWriter {
            generation: Some(1),
            now: Timestamp::from_second(second).unwrap(),
        }
    }

    #[test]
    fn a_success_ends_with_three_conditions() {
        let mut list = Vec::new();
        at(1).submitted(&mut list);
        at(2).progress(&mut list, &Progress::Unknown);
        at(3).progress(&mut list, &Progress::Running);
        at(4).progress(&mut list, &Progress::Running);
        at(5).progress(&mut list, &Progress::Succeeded);
        let shown: Vec<_> = list
            .iter()
            .map(|c| {
                format!(
                    "{}/{}/{} {}",
                    c.type_,
                    c.status,
                    c.reason,
                    c.last_transition_time.0.as_second()
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                "Unknown/Unknown/Unknown 1",
                "InProgress/Unknown/InProgress 3",
                "Success/True/Succeded 5"
            ]
        );
        assert_eq!(newest(&list).unwrap().type_, "Success");
    }

    #[test]
    fn the_last_of_equally_old_conditions_counts() {
        let mut list = Vec::new();
        assert_eq!(newest(&list), None);
        at(1).submitted(&mut list);
        at(1).progress(&mut list, &Progress::Running);
        assert_eq!(newest(&list).unwrap().type_, "InProgress");
    }

    #[test]
    fn reasons_are_made_valid() {
        for (reason, expected) in [
            ("Cancelled", "Cancelled"),
            ("", "Failed"),
            ("not a word!", "notaword"),
            ("1st", "Failed"),
            ("a:", "a"),
        ] {
            assert_eq!(valid_reason(reason), expected);
        }
    }
}
