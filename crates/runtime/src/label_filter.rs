//! Label selectors in kubectl's notation, matched in this process.
//!
//! For controllers that share one watch of a kind and each reconcile only the objects of their shard.

use std::collections::BTreeMap;

use kube::core::{Expression, Selector, SelectorExt};

/// A parsed label selector.
#[derive(Clone, Debug)]
pub struct LabelFilter(Selector);

/// A label selector that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{requirement}` is not a requirement of a label selector")]
pub struct InvalidLabelFilter {
    requirement: String,
}

impl LabelFilter {
    /// Parses `key=value`, `key!=value`, `key in (a,b)`, `key notin (a,b)`, `key` and `!key`, joined by
    /// commas.
    pub fn parse(text: &str) -> Result<Self, InvalidLabelFilter> {
        let requirements = split_outside_parentheses(text);
        let requirements = requirements.iter().map(|it| it.trim());
        let expressions = requirements.filter(|it| !it.is_empty()).map(expression);
        let expressions: Result<Vec<Expression>, _> = expressions.collect();
        Ok(Self(expressions?.into_iter().collect()))
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        match labels {
            Some(labels) => self.0.matches(labels),
            None => self.0.matches(&BTreeMap::new()),
        }
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut is_inside = false;
    text.split(|character| {
        match character {
            '(' => is_inside = true,
            ')' => is_inside = false,
            _ => {}
        }
        character == ',' && !is_inside
    })
    .collect()
}

fn expression(requirement: &str) -> Result<Expression, InvalidLabelFilter> {
    let invalid = || InvalidLabelFilter {
        requirement: requirement.to_owned(),
    };
    if let Some((left, values)) = requirement.split_once('(') {
        let values = values.trim_end().strip_suffix(')').ok_or_else(invalid)?;
        let values = values.split(',').map(|value| value.trim().to_owned());
        let words: Vec<&str> = left.split_whitespace().collect();
        return match words.as_slice() {
            [key, "in"] => Ok(Expression::In((*key).to_owned(), values.collect())),
            [key, "notin"] => Ok(Expression::NotIn((*key).to_owned(), values.collect())),
            _ => Err(invalid()),
        };
    }
    if let Some((key, value)) = requirement.split_once("!=") {
        return Ok(Expression::NotEqual(trimmed(key), trimmed(value)));
    }
    if let Some((key, value)) = requirement.split_once('=') {
        let value = value.strip_prefix('=').unwrap_or(value);
        return Ok(Expression::Equal(trimmed(key), trimmed(value)));
    }
    if requirement.contains(char::is_whitespace) {
        return Err(invalid());
    }
    Ok(match requirement.strip_prefix('!') {
        Some(key) => Expression::DoesNotExist(trimmed(key)),
        None => Expression::Exists(trimmed(requirement)),
    })
}

fn trimmed(text: &str) -> String {
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_as_kubectl_does() {
        let labels = BTreeMap::from([("team".to_owned(), "shop".to_owned())]);
        for (text, is_selected) in [
            ("", true),
            ("team=shop", true),
            ("team == shop", true),
            ("team=bank", false),
            ("team!=bank", true),
            ("team!=shop", false),
            ("tier!=gold", true),
            ("team in (bank, shop)", true),
            ("team notin (bank,shop)", false),
            ("tier notin (gold)", true),
            ("team", true),
            ("tier", false),
            ("!tier", true),
            ("team,!tier,team in (shop)", true),
            ("team in (bank,shop),!tier", true),
            ("team in (bank,shop),tier", false),
            ("team,tier", false),
        ] {
            let selector = LabelFilter::parse(text).unwrap();
            assert_eq!(selector.matches(Some(&labels)), is_selected, "{text}");
        }
        assert!(!LabelFilter::parse("team=shop").unwrap().matches(None));
        for text in ["team of (shop)", "team in (shop", "team shop"] {
            assert!(LabelFilter::parse(text).is_err(), "{text}");
        }
    }
}
