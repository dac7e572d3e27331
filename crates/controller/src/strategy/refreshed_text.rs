//! Brings the text of an open pull request up to date, and keeps what people wrote into it.
//!
//! What follows the line with the owner's uid, and the sentence that says who approved, are ours; the rest is
//! left as it is.

/// How the sentence about the approvals begins and ends.
const APPROVED: (&str, &str) = (" Approved by `", "`.");

/// The text with our parts as they should be; nothing where they are so already.
pub(super) fn refreshed(is: &str, should: &str, trailer: &str) -> Option<String> {
    let (head, tail) = split(is, trailer)?;
    let (new_head, new_tail) = split(should, trailer)?;
    let head = match (approved(head), approved(new_head)) {
        (Some(old), Some(new)) => head.replacen(old, new, 1),
        _ => head.to_owned(),
    };
    // Lists of some forges cut long texts.
    let is_same = !tail.trim().is_empty() && new_tail.trim().starts_with(tail.trim());
    let tail = if is_same { tail } else { new_tail };
    let text = format!("{head}{tail}");
    (text.trim() != is.trim()).then_some(text)
}

/// The text up to the end of the last line with the uid, and what follows it.
fn split<'a>(text: &'a str, trailer: &str) -> Option<(&'a str, &'a str)> {
    let mut end = 0;
    let ends = text.split_inclusive('\n').map(|line| {
        end += line.len();
        (line.trim().starts_with(trailer), end)
    });
    let last = ends.filter(|(is_trailer, _)| *is_trailer).last();
    last.map(|(_, end)| text.split_at(end))
}

/// The sentence that says who approved.
fn approved(text: &str) -> Option<&str> {
    let begin = text.find(APPROVED.0)?;
    let length = text[begin + APPROVED.0.len()..].find(APPROVED.1)?;
    Some(&text[begin..begin + APPROVED.0.len() + length + APPROVED.1.len()])
}

#[cfg(test)]
mod tests {
    use super::refreshed;

    const TRAILER: &str = "Sluice-Promotion: ";

    fn body(text: &str, changes: &str) -> String {
        format!("{text}\n\nSluice-Promotion: a\n{changes}")
    }

    #[test]
    fn our_parts_are_replaced_and_those_of_people_stay() {
        let should = body("Promotes. Approved by `ann, bob`.", "\nChanges:\n\n- `b`\n");
        let edited = body(
            "Look! Promotes. Approved by `ann`. Thanks.",
            "\nChanges:\n\n- `a`\n",
        );
        let expected = body(
            "Look! Promotes. Approved by `ann, bob`. Thanks.",
            "\nChanges:\n\n- `b`\n",
        );
        assert_eq!(refreshed(&edited, &should, TRAILER), Some(expected));
        assert_eq!(refreshed(&should, &should, TRAILER), None);
        assert_eq!(refreshed(should.trim(), &should, TRAILER), None);
    }

    #[test]
    fn a_text_that_was_cut_or_has_no_uid_is_left_alone() {
        let should = body("Promotes.", "\nChanges:\n\n- `b`\n- `c`\n");
        let cut = should.strip_suffix("`c`\n").unwrap();
        assert_eq!(refreshed(cut, &should, TRAILER), None);
        assert_eq!(refreshed("Promotes.", &should, TRAILER), None);
    }
}
