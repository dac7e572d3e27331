//! Finds the line of a field in a YAML document that is written in block style.

use super::super::yaml::YamlDocument;

/// A line of the file, with `- ` replaced by spaces inside a list item.
#[derive(Clone)]
struct SourceLine {
    number: usize,
    text: String,
}

impl SourceLine {
    fn indent(&self) -> usize {
        self.text.len() - self.text.trim_start().len()
    }

    fn is_item(&self) -> bool {
        let text = self.text.trim_start();
        text == "-" || text.starts_with("- ")
    }

    fn has_key(&self, name: &str) -> bool {
        let text = self.text.trim_start();
        let quoted = [name.to_owned(), format!("\"{name}\""), format!("'{name}'")];
        quoted.iter().any(|name| {
            let rest = text.strip_prefix(name.as_str());
            rest.is_some_and(|rest| rest.starts_with(':'))
        })
    }
}

/// The line of a field such as `spec.environments[1].targets`; of its closest parent where it cannot be
/// found, as in flow style.
pub(super) fn line_of(document: &YamlDocument, path: &str) -> usize {
    let mut block = source_lines(document);
    let mut line = block.first().map_or(document.line, |first| first.number);
    for step in steps(path) {
        let Some((found, below)) = step.find(&block) else {
            return line;
        };
        (line, block) = (found, below);
    }
    line
}

/// The lines of a document with content.
fn source_lines(document: &YamlDocument) -> Vec<SourceLine> {
    let is_content = |text: &&str| !text.trim().is_empty() && !text.trim_start().starts_with('#');
    let numbered = document.text.lines().enumerate();
    numbered
        .filter(|(_, text)| is_content(text))
        .map(|(index, text)| SourceLine {
            number: document.line + index,
            text: text.to_owned(),
        })
        .collect()
}

/// The objects of a `List`, as `kubectl get -o yaml` prints it, each with its own lines; otherwise the document.
pub(super) fn objects(document: YamlDocument) -> Vec<YamlDocument> {
    let value = document.value.as_ref().ok();
    let kind = value.and_then(|it| it["kind"].as_str()).unwrap_or_default();
    let items = value.and_then(|it| it["items"].as_array());
    let Some(items) = items.filter(|_| kind.ends_with("List")) else {
        return vec![document];
    };
    let block = PathStep::Key("items").find(&source_lines(&document));
    let (list_line, block) = block.unwrap_or((document.line, Vec::new()));
    let objects = items.iter().enumerate().map(|(index, item)| {
        let found = PathStep::Index(index).find(&block);
        let (line, block) = found.unwrap_or((list_line, Vec::new()));
        let mut lines = Vec::new();
        for source in block {
            lines.resize(source.number - line, String::new());
            lines.push(source.text);
        }
        YamlDocument {
            line,
            text: lines.join("\n"),
            value: Ok(item.clone()),
        }
    });
    objects.collect()
}

/// One step of a path.
enum PathStep<'a> {
    Key(&'a str),
    Index(usize),
}

/// `a.b[1]` as `a`, `b`, `1`.
fn steps(path: &str) -> Vec<PathStep<'_>> {
    let mut steps = Vec::new();
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let mut pieces = part.split('[');
        steps.extend(pieces.next().filter(|it| !it.is_empty()).map(PathStep::Key));
        let indexes = pieces.filter_map(|it| it.trim_end_matches(']').parse().ok());
        steps.extend(indexes.map(PathStep::Index));
    }
    steps
}

impl PathStep<'_> {
    /// The line of the step in a block, and the lines below it.
    fn find(&self, block: &[SourceLine]) -> Option<(usize, Vec<SourceLine>)> {
        let indent = block.first()?.indent();
        let is_child = |line: &SourceLine| line.indent() == indent;
        match self {
            Self::Key(name) => {
                let start = block
                    .iter()
                    .position(|line| is_child(line) && line.has_key(name))?;
                // The items of a list may have the indentation of its key.
                let is_below = |line: &&SourceLine| {
                    line.indent() > indent || (is_child(line) && line.is_item())
                };
                let below = block[start + 1..].iter().take_while(is_below);
                Some((block[start].number, below.cloned().collect()))
            }
            Self::Index(index) => {
                let items = block.iter().enumerate();
                let mut items = items.filter(|(_, line)| is_child(line) && line.is_item());
                let (start, first) = items.nth(*index)?;
                let end = items.next().map_or(block.len(), |(end, _)| end);
                let mut below = block[start..end].to_vec();
                below[0].text = below[0].text.replacen('-', " ", 1);
                // A dash on a line of its own.
                if below[0].text.trim().is_empty() {
                    below.remove(0);
                }
                Some((first.number, below))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# a comment
kind: Pipeline
spec:
  appRef: {kind: HelmRelease, name: a}
  environments:
  - name: dev
    targets:
      - namespace: a
      - namespace: b

  -
    name: prod
    promotion:
      strategy: {}
  promotion:
    strategy:
      \"pull-request\":
        type: github
";

    #[test]
    fn objects_of_a_list_keep_their_lines() {
        let text = "kind: List\nitems:\n- kind: A\n  # a comment\n  spec:\n    a: 1\n-\n  kind: B\n  spec: {}\n";
        let value = serde_saphyr::from_str(text).ok();
        let list = YamlDocument {
            line: 10,
            text: text.to_owned(),
            value: Ok(value.unwrap()),
        };
        let lines = objects(list)
            .iter()
            .map(|it| {
                let kind = it.value.as_ref().ok().unwrap()["kind"].clone();
                (kind, line_of(it, ""), line_of(it, "spec.a"))
            })
            .collect::<Vec<_>>();
        assert_eq!(lines, [("A".into(), 12, 15), ("B".into(), 17, 18)]);
    }

    #[test]
    fn fields_are_found_by_their_path() {
        let document = YamlDocument {
            line: 10,
            text: TEXT.to_owned(),
            value: Ok(serde_json::Value::Null),
        };
        for (path, expected) in [
            ("", 11),
            ("spec", 12),
            ("spec.appRef.name", 13),
            ("spec.environments", 14),
            ("spec.environments[0].targets[1].namespace", 18),
            ("spec.environments[1]", 20),
            ("spec.environments[1].name", 21),
            ("spec.environments[1].promotion.strategy.commit", 23),
            ("spec.environments[2].name", 14),
            ("spec.promotion.strategy.pull-request.type", 27),
            ("spec.missing", 12),
        ] {
            assert_eq!(line_of(&document, path), expected, "{path}");
        }
    }
}
