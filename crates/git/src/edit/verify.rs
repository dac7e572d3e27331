//! Parses an edited file again and compares it with the original.

use std::collections::BTreeMap;

use granit_parser::{Event, Parser};

use super::{Error, ScalarEdit};

/// Fails unless exactly the edited scalars differ, and they have their new values.
pub(super) fn only_these_changed(
    before: &str,
    after: &str,
    targets: &[ScalarEdit<'_>],
) -> Result<(), Error> {
    let mut old = Parser::new_from_str(before);
    let mut new = Parser::new_from_str(after);
    let wanted = targets.iter().map(|(scalar, value)| (scalar.event, *value));
    let mut wanted: BTreeMap<usize, &str> = wanted.collect();
    for index in 0.. {
        let (old, new) = match (old.next(), new.next()) {
            (None, None) => break,
            (Some(Ok(old)), Some(Ok(new))) => (old, new),
            (Some(Ok((_, span))), _) => {
                return Err(Error::Ambiguous {
                    line: span.start.line(),
                });
            }
            (None | Some(Err(_)), _) => return Err(Error::Ambiguous { line: 0 }),
        };
        let is_right = match wanted.remove(&index) {
            Some(value) => has_value(&old.0, &new.0, value),
            None => old.0 == new.0,
        };
        if !is_right {
            return Err(Error::Ambiguous {
                line: old.1.start.line(),
            });
        }
    }
    Ok(())
}

/// Whether a scalar has the new value and the same anchor and tag.
fn has_value(old: &Event<'_>, new: &Event<'_>, value: &str) -> bool {
    match (old, new) {
        (Event::Scalar(_, _, old_anchor, old_tag), Event::Scalar(text, _, anchor, tag)) => {
            text == value && old_anchor == anchor && old_tag == tag
        }
        _ => false,
    }
}
