//! Parses label selectors in kubectl's notation into a canonical form, so that equivalent selectors
//! belong to the same shard.

use anyhow::{bail, ensure};

/// The selector with sorted requirements and without redundant spaces.
pub(super) fn canonical(text: &str) -> anyhow::Result<String> {
    let mut requirements = Vec::new();
    for requirement in split(text)? {
        requirements.push(canonical_requirement(requirement.trim())?);
    }
    requirements.sort();
    requirements.dedup();
    Ok(requirements.join(","))
}

/// Splits at commas that are not inside parentheses.
fn split(text: &str) -> anyhow::Result<Vec<&str>> {
    let (mut parts, mut start, mut is_inside) = (Vec::new(), 0, false);
    for (position, character) in text.char_indices() {
        match character {
            '(' if !is_inside => is_inside = true,
            ')' if is_inside => is_inside = false,
            '(' | ')' => bail!("the parentheses in the label selector `{text}` do not match"),
            ',' if !is_inside => {
                parts.push(&text[start..position]);
                start = position + 1;
            }
            _ => {}
        }
    }
    ensure!(
        !is_inside,
        "a parenthesis in the label selector `{text}` is not closed"
    );
    parts.push(&text[start..]);
    Ok(parts)
}

fn canonical_requirement(requirement: &str) -> anyhow::Result<String> {
    if let Some((left, values)) = requirement.split_once('(') {
        let words: Vec<_> = left.split_whitespace().collect();
        let &[key, operator @ ("in" | "notin")] = words.as_slice() else {
            bail!(
                "`{requirement}` in the label selector is neither `key in (…)` nor `key notin (…)`"
            );
        };
        let values = values.trim_end().trim_end_matches(')');
        let mut values = values
            .split(',')
            .map(value)
            .collect::<Result<Vec<_>, _>>()?;
        values.sort_unstable();
        return Ok(format!(
            "{} {operator} ({})",
            self::key(key)?,
            values.join(",")
        ));
    }
    for (written, operator) in [("!=", "!="), ("==", "="), ("=", "=")] {
        if let Some((left, right)) = requirement.split_once(written) {
            return Ok(format!("{}{operator}{}", key(left)?, value(right)?));
        }
    }
    match requirement.strip_prefix('!') {
        Some(absent) => Ok(format!("!{}", key(absent)?)),
        None => Ok(key(requirement)?.to_owned()),
    }
}

fn key(text: &str) -> anyhow::Result<&str> {
    let text = text.trim();
    let is_inner =
        |character: char| character.is_ascii_alphanumeric() || "-_./".contains(character);
    let is_key = !text.is_empty() && text.chars().all(is_inner);
    ensure!(is_key, "`{text}` in the label selector is not a label key");
    Ok(text)
}

fn value(text: &str) -> anyhow::Result<&str> {
    let text = text.trim();
    let is_inner = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    let is_value = text.chars().all(is_inner);
    ensure!(
        is_value,
        "`{text}` in the label selector is not a label value"
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equivalent_selectors_have_one_canonical_form() {
        let canonical = |text| canonical(text).unwrap();
        assert_eq!(canonical("a=b"), "a=b");
        assert_eq!(canonical(" tier != free , team==a "), "team=a,tier!=free");
        assert_eq!(
            canonical("x notin ( c, a),app.kubernetes.io/name,!gone"),
            "!gone,app.kubernetes.io/name,x notin (a,c)"
        );
        assert_eq!(canonical("a="), "a=");
    }

    #[test]
    fn invalid_selectors_are_refused() {
        for text in [
            "", ",", "a=b,", "a b", "a in b", "a in (b", "a)", "a of (b)", "=b", "a=b c", "!",
        ] {
            assert!(canonical(text).is_err(), "{text}");
        }
    }
}
