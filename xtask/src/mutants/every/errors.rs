//! Finds the mutations that compiler errors are about.

use serde::Deserialize;

use super::switch::{mutation_at, mutations_in};

/// The code of the error that a function which is not `const` is called in a constant.
pub(super) const NOT_CONST: &str = "E0015";

/// An error of the compiler.
pub(super) struct CompilerError {
    pub(super) code: Option<String>,
    pub(super) text: String,
    /// As a terminal shows it.
    pub(super) rendered: String,
    spans: Vec<Span>,
    /// Where the compiler would change something.
    suggestions: Vec<Span>,
}

#[derive(Deserialize)]
struct Line {
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    level: String,
    message: String,
    code: Option<Code>,
    #[serde(default)]
    spans: Vec<Span>,
    rendered: Option<String>,
    #[serde(default)]
    children: Vec<Message>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    is_primary: bool,
    expansion: Option<Box<Expansion>>,
}

/// The macro call that a span comes from.
#[derive(Deserialize)]
struct Expansion {
    span: Span,
}

impl Span {
    /// The place in the workspace: a macro of another package is where it is called.
    fn in_workspace(mut self) -> Self {
        while let Some(expansion) = self.expansion.take_if(|_| self.file_name.starts_with('/')) {
            self = Self {
                is_primary: self.is_primary,
                ..expansion.span
            };
        }
        self
    }
}

/// The errors in the messages of cargo.
pub(super) fn parse(messages: &str) -> Vec<CompilerError> {
    let lines = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Line>(line).ok());
    let messages = lines.filter_map(|line| line.message);
    // The last message of a crate counts its errors and has no place.
    let errors = messages.filter(|it| it.level == "error" && !it.spans.is_empty());
    let errors = errors.map(|it| CompilerError {
        code: it.code.map(|it| it.code),
        text: it.message,
        rendered: it.rendered.unwrap_or_default(),
        spans: it.spans.into_iter().map(Span::in_workspace).collect(),
        suggestions: suggestions(it.children),
    });
    errors.collect()
}

fn suggestions(children: Vec<Message>) -> Vec<Span> {
    let helps = children.into_iter().filter(|it| it.level == "help");
    helps.flat_map(|it| it.spans).collect()
}

/// The mutations that an error is about, and whether it is inside of their text. `read` returns the text of
/// a file.
pub(super) fn mutations(
    error: &CompilerError,
    read: impl Fn(&str) -> String,
) -> (Vec<usize>, bool) {
    let primary = error.spans.iter().filter(|it| it.is_primary);
    let others = error.spans.iter().filter(|it| !it.is_primary);
    for span in primary.clone().chain(others) {
        if let Some(id) = mutation_at(&read(&span.file_name), span.byte_start) {
            return (vec![id], true);
        }
    }
    for span in primary.clone() {
        let text = read(&span.file_name);
        let exact = text.get(span.byte_start..span.byte_end);
        let exact = mutations_in(exact.unwrap_or_default());
        let near = || mutations_in(lines(&text, span));
        let ids = if exact.is_empty() { near() } else { exact };
        if !ids.is_empty() {
            return (ids, false);
        }
    }
    // Arms with a guard do not make a `match` complete: without its last arm it does not compile either.
    let pairs = primary.flat_map(|span| error.suggestions.iter().map(move |it| (span, it)));
    let before = pairs.filter_map(|(span, suggestion)| {
        let text = read(&span.file_name);
        let between = text.get(span.byte_end..suggestion.byte_start);
        between.and_then(|it| mutations_in(it).pop())
    });
    (before.take(1).collect(), true)
}

/// The whole lines of a span; nothing if it is not in the text.
fn lines<'a>(text: &'a str, span: &Span) -> &'a str {
    let (Some(before), Some(after)) = (text.get(..span.byte_start), text.get(span.byte_end..))
    else {
        return "";
    };
    let start = before.rfind('\n').map_or(0, |it| it + 1);
    let end = after.find('\n').unwrap_or(after.len());
    &text[start..span.byte_end + end]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "fn f() {\n  /*<1*/if a { return b; }/*>*/ c\n}\n(d != /*<2*/x/*>*/)\n";

    #[test]
    fn an_error_in_a_macro_of_another_package_is_where_it_is_called() {
        let line = r#"{"message": {"level": "error", "message": "m", "code": null, "rendered": null, "spans": [
            {"file_name": "/rustc/std.rs", "byte_start": 900, "byte_end": 901, "is_primary": true, "expansion":
            {"span": {"file_name": "src/a.rs", "byte_start": 20, "byte_end": 21, "is_primary": false,
            "expansion": null}}}]}}"#;
        let [error] = &parse(&line.replace('\n', ""))[..] else {
            panic!("one error");
        };
        let read = |file: &str| match file {
            "src/a.rs" => SOURCE.to_owned(),
            _ => String::new(),
        };
        assert_eq!(mutations(error, read), (vec![1], true));
    }

    #[test]
    fn errors_are_mapped_to_mutations() {
        let table = [
            ("b", vec![1], true),
            ("x", vec![2], true),
            ("c\n", vec![1], false),
            ("d != /*<2*/x/*>*/", vec![2], false),
            ("fn", vec![], true),
        ];
        for (part, expected, is_inside) in table {
            let start = SOURCE.find(part).expect("part of the source");
            let span = Span {
                file_name: String::new(),
                byte_start: start,
                byte_end: start + part.trim_end().len(),
                is_primary: true,
                expansion: None,
            };
            let error = CompilerError {
                code: None,
                text: String::new(),
                rendered: String::new(),
                spans: vec![span],
                suggestions: Vec::new(),
            };
            let found = mutations(&error, |_| SOURCE.to_owned());
            assert_eq!(found, (expected, is_inside), "{part}");
        }
    }
}
