//! Limits on the text of a rule.
//!
//! The parser takes exponential time on some short texts, so what is too long
//! or too deeply nested is refused before it is parsed.

const LONGEST: usize = 4096;
const DEEPEST: usize = 32;
const MOST_IN_A_ROW: usize = 8;
/// Twice `!` or `-` is what the parser's error recovery takes longest over.
const MOST_DOUBLED: usize = 3;
/// A bracket or two left open give the parser's own message.
const MOST_OPEN: usize = 2;

/// Why a text may not be parsed.
pub(crate) fn problem(text: &str) -> Option<String> {
    if text.len() > LONGEST {
        return Some(format!("expression is longer than {LONGEST} bytes"));
    }
    let mut open = Vec::new();
    let (mut in_a_row, mut doubled, mut last) = (0, 0, 'a');
    let visible = without_strings(text)
        .into_iter()
        .filter(|character| !character.is_whitespace());
    for character in visible {
        match character {
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' if open.pop() != Some(character) => {
                return Some(format!("Syntax error: '{character}' closes nothing"));
            }
            _ => {}
        }
        let is_unary = |character| matches!(character, '!' | '-');
        doubled += usize::from(is_unary(last) && is_unary(character));
        let opens = is_unary(character) || matches!(character, '(' | '[' | '{');
        in_a_row = if opens { in_a_row + 1 } else { 0 };
        last = character;
        let what = match () {
            () if doubled > MOST_DOUBLED => "too many doubled operators",
            () if open.len() > DEEPEST => "too many brackets inside each other",
            () if in_a_row > MOST_IN_A_ROW => "too many brackets and unary operators in a row",
            () => continue,
        };
        return Some(format!("expression has {what}"));
    }
    (open.len() > MOST_OPEN).then(|| "Syntax error: brackets are left open".to_owned())
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
        assert!(problem(&"a.b(}!!".repeat(22)).is_some());
        assert!(problem(&"!(".repeat(3)).is_some());
        assert!(problem(&"!!()".repeat(26)).is_some());
    }
}
