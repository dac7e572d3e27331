//! The markdown of pull requests as HTML: paragraphs, lists, bold text, code, and folded details. Everything
//! else is shown as it was written.

use super::pages::escaped;

/// What a line is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    None,
    Paragraph,
    List,
    NumberedList,
}

impl Block {
    fn tag(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Paragraph => Some("p"),
            Self::List => Some("ul"),
            Self::NumberedList => Some("ol"),
        }
    }
}

/// The HTML of a text. Only tags of this function are in it.
pub(super) fn html(text: &str) -> String {
    let (mut html, mut current) = (String::new(), Block::None);
    for line in text.lines().map(str::trim_end) {
        let (block, content) = parse(line);
        if block != current {
            html += &current
                .tag()
                .map(|tag| format!("</{tag}>"))
                .unwrap_or_default();
            html += &block
                .tag()
                .map(|tag| format!("<{tag}>"))
                .unwrap_or_default();
        } else if block == Block::Paragraph {
            html += "<br>";
        }
        current = block;
        html += &match block {
            Block::List | Block::NumberedList => format!("<li>{content}</li>"),
            Block::Paragraph | Block::None => content,
        };
    }
    html + &current
        .tag()
        .map(|tag| format!("</{tag}>"))
        .unwrap_or_default()
}

/// What a line is, and its content.
fn parse(line: &str) -> (Block, String) {
    let numbered = line
        .split_once(". ")
        .filter(|(number, _)| !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit()));
    match line {
        "" => (Block::None, String::new()),
        "<details>" | "</details>" => (Block::None, line.to_owned()),
        _ if line.starts_with("<summary>") && line.ends_with("</summary>") => {
            let text = &line["<summary>".len()..line.len() - "</summary>".len()];
            (Block::None, format!("<summary>{}</summary>", inline(text)))
        }
        _ if line.starts_with("- ") => (Block::List, inline(&line[2..])),
        _ => match numbered {
            Some((_, text)) => (Block::NumberedList, inline(text)),
            None => (Block::Paragraph, inline(line)),
        },
    }
}

/// Code between backticks, bold text between pairs of asterisks.
fn inline(text: &str) -> String {
    let code = wrapped(&escaped(text), "`", "code");
    wrapped(&code, "**", "strong")
}

/// Every pair of marks as a tag; a mark without a second one stays.
fn wrapped(text: &str, mark: &str, tag: &str) -> String {
    let parts: Vec<&str> = text.split(mark).collect();
    let is_paired = parts.len() % 2 == 1;
    let last = parts.len() - 1;
    let parts = parts.into_iter().enumerate();
    let parts = parts.map(|(index, part)| match index % 2 == 1 {
        true if is_paired || index < last => format!("<{tag}>{part}</{tag}>"),
        true => format!("{mark}{part}"),
        false => part.to_owned(),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::html;

    #[test]
    fn pull_requests_are_readable_and_nothing_else_becomes_a_tag() {
        for (text, expected) in [
            (
                "Promotes `a` to **b**.",
                "<p>Promotes <code>a</code> to <strong>b</strong>.</p>",
            ),
            ("one\ntwo\n\nthree", "<p>one<br>two</p><p>three</p>"),
            (
                "- a\n- b\n1. c",
                "<ul><li>a</li><li>b</li></ul><ol><li>c</li></ol>",
            ),
            (
                "<details>\n<summary>more</summary>\nx\n</details>",
                "<details><summary>more</summary><p>x</p></details>",
            ),
            (
                "<script>`</script>",
                "<p>&lt;script&gt;`&lt;/script&gt;</p>",
            ),
            ("<summary><b></summary>", "<summary>&lt;b&gt;</summary>"),
        ] {
            assert_eq!(html(text), expected);
        }
    }
}
