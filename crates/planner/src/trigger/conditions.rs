//! The operator's conditions, with its spellings, and how a list of them changes.

use api::{Condition, Time, tekton::Progress};
use jiff::Timestamp;

pub(crate) const UNKNOWN: &str = "Unknown";
pub(crate) const IN_PROGRESS: &str = "InProgress";
pub(crate) const SUCCESS: &str = "Success";
pub(crate) const ERROR: &str = "Error";
/// So spelt since the first release.
pub(crate) const SUCCEEDED: &str = "Succeded";
pub(crate) const FAILED: &str = "Failed";

/// The longest message an API server takes.
const MAX_MESSAGE: usize = 32_000;

/// Writes conditions about one generation at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pen {
    pub(crate) generation: Option<i64>,
    pub(crate) now: Timestamp,
}

/// What a condition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Saying<'a> {
    pub(crate) type_: &'a str,
    pub(crate) status: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

impl Pen {
    /// Says something, in the place of what was said under that type before. The time stays where
    /// the status does.
    pub(crate) fn say(self, conditions: &mut Vec<Condition>, saying: Saying<'_>) {
        let mut condition = Condition {
            type_: saying.type_.to_owned(),
            status: saying.status.to_owned(),
            reason: reason_word(saying.reason),
            message: cut(saying.message),
            observed_generation: self.generation,
            last_transition_time: Time(self.now_in_seconds()),
        };
        let known = conditions
            .iter_mut()
            .find(|known| known.type_ == saying.type_);
        let Some(known) = known else {
            conditions.push(condition);
            return;
        };
        if known.status == condition.status {
            condition.last_transition_time = known.last_transition_time.clone();
        }
        *known = condition;
    }

    /// The API keeps whole seconds; more would be a difference at every pass.
    fn now_in_seconds(self) -> Timestamp {
        Timestamp::from_second(self.now.as_second()).unwrap_or(self.now)
    }

    /// A run was submitted: the list starts anew.
    pub(crate) fn submitted(self, conditions: &mut Vec<Condition>) {
        conditions.clear();
        let saying = Saying {
            type_: UNKNOWN,
            status: "Unknown",
            reason: UNKNOWN,
            message: "Unknown",
        };
        self.say(conditions, saying);
    }

    /// How far the run is.
    pub(crate) fn progress(self, conditions: &mut Vec<Condition>, progress: &Progress) {
        let (type_, status, reason, message) = match progress {
            Progress::Unknown => return,
            Progress::Running => (IN_PROGRESS, "Unknown", IN_PROGRESS, "Progressing"),
            Progress::Succeeded => (SUCCESS, "True", SUCCEEDED, "Reconciliation is successful."),
            Progress::Failed { reason, message } => {
                (SUCCESS, "False", reason.as_str(), message.as_str())
            }
        };
        let saying = Saying {
            type_,
            status,
            reason,
            message,
        };
        self.say(conditions, saying);
    }

    /// Something keeps the run from being started.
    pub(crate) fn error(self, conditions: &mut Vec<Condition>, message: &str) {
        let saying = Saying {
            type_: ERROR,
            status: "False",
            reason: FAILED,
            message,
        };
        self.say(conditions, saying);
    }
}

/// Takes back what was said under a type.
pub(crate) fn withdraw(conditions: &mut Vec<Condition>, type_: &str) {
    conditions.retain(|condition| condition.type_ != type_);
}

/// What was said last.
pub(crate) fn last(conditions: &[Condition]) -> Option<&Condition> {
    let legacy = conditions
        .iter()
        .filter(|condition| condition.type_ != api::conditions::READY);
    legacy.max_by_key(|condition| condition.last_transition_time.0)
}

/// The API server takes only certain words as reasons.
fn reason_word(reason: &str) -> String {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "_,:".contains(c);
    let word: String = reason.chars().filter(|c| is_inner(*c)).take(1024).collect();
    let word = word.trim_end_matches([',', ':']);
    if word.starts_with(|c: char| c.is_ascii_alphabetic()) {
        word.to_owned()
    } else {
        FAILED.to_owned()
    }
}

fn cut(message: &str) -> String {
    let mut end = message.len().min(MAX_MESSAGE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Pen {
        Pen {
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
        assert_eq!(last(&list).unwrap().type_, "Success");
    }

    #[test]
    fn the_last_of_equally_old_conditions_counts() {
        let mut list = Vec::new();
        assert_eq!(last(&list), None);
        at(1).submitted(&mut list);
        at(1).progress(&mut list, &Progress::Running);
        assert_eq!(last(&list).unwrap().type_, "InProgress");
    }

    #[test]
    fn reasons_are_valid_words() {
        for (reason, expected) in [
            ("Cancelled", "Cancelled"),
            ("", "Failed"),
            ("not a word!", "notaword"),
            ("1st", "Failed"),
            ("a:", "a"),
        ] {
            assert_eq!(reason_word(reason), expected);
        }
    }
}
