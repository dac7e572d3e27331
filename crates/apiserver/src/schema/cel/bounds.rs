//! Limits on the text of a rule.
//!
//! The parser takes exponential time on some short texts, so what is too long
//! or too deeply nested is refused before it is parsed.

const LONGEST: usize = 4096;
const DEEPEST: usize = 32;
const MOST_IN_A_ROW: usize = 8;

/// Why a text may not be parsed.
pub(super) fn problem(text: &str) -> Option<String> {
    if text.len() > LONGEST {
        return Some(format!("expression is longer than {LONGEST} bytes"));
    }
    let (mut depth, mut in_a_row) = (0_usize, 0_usize);
    for character in without_strings(text) {
        match character {
            '(' | '[' | '{' => {
                depth += 1;
                in_a_row += 1;
            }
            '!' | '-' => in_a_row += 1,
            ')' | ']' | '}' => {
                depth = depth.saturating_sub(1);
                in_a_row = 0;
            }
            other if other.is_whitespace() => {}
            _ => in_a_row = 0,
        }
        if depth > DEEPEST {
            return Some(format!(
                "expression is nested deeper than {DEEPEST} brackets"
            ));
        }
        if in_a_row > MOST_IN_A_ROW {
            return Some(format!(
                "expression has more than {MOST_IN_A_ROW} brackets and unary operators in a row"
            ));
        }
    }
    None
}

/// The characters of an expression, each string literal replaced by one quote.
fn without_strings(text: &str) -> Vec<char> {
    let characters: Vec<char> = text.chars().collect();
    let mut kept = Vec::with_capacity(characters.len());
    let mut index = 0;
    while let Some(&character) = characters.get(index) {
        kept.push(character);
        index += 1;
        if character == '"' || character == '\'' {
            let raw = kept.len() > 1 && matches!(kept[kept.len() - 2], 'r' | 'R');
            index = end_of_string(&characters, index, character, raw);
        }
    }
    kept
}

/// Where the literal ends whose first quote stands before `index`.
fn end_of_string(characters: &[char], mut index: usize, quote: char, raw: bool) -> usize {
    let is_quote = |index: usize| characters.get(index) == Some(&quote);
    let triple = is_quote(index) && is_quote(index + 1);
    if triple {
        index += 2;
    }
    while index < characters.len() {
        if characters[index] == '\\' && !raw {
            index += 2;
        } else if triple && is_quote(index) && is_quote(index + 1) && is_quote(index + 2) {
            return index + 3;
        } else if !triple && is_quote(index) {
            return index + 1;
        } else {
            index += 1;
        }
    }
    characters.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_rules_pass() {
        for text in [
            "self.replicas <= self.max",
            r"self.all(x, x.matches('^[[({\\w]+[^)]$'))",
            "!(!has(self.a) || (self.b - -1 > 0))",
            "self.name != '((((((((((('",
            r#"self.x == r"\" && self.y == """a"b(((((((((("""#,
        ] {
            assert_eq!(problem(text), None, "{text}");
        }
    }

    #[test]
    fn hostile_texts_are_refused() {
        assert!(problem(&"!![".repeat(27)).is_some());
        assert!(problem(&"a(".repeat(33)).is_some());
        assert!(problem(&"1+".repeat(2049)).is_some());
        assert!(problem(&"[']',".repeat(33)).is_some());
    }
}
