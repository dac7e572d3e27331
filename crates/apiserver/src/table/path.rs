//! The JSONPath of printer columns: fields, indexes, `[*]` and filters that compare one field.

use serde_json::Value;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath(Vec<PathSegment>);

#[derive(Debug, Clone, PartialEq)]
enum PathSegment {
    Field(String),
    Index(i64),
    All,
    Filter {
        path: Vec<PathSegment>,
        is_equal: bool,
        value: Value,
    },
}

impl JsonPath {
    /// Reads `.spec.list[0].name` and the like; `None` if it is not supported.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text
            .strip_prefix('{')
            .and_then(|it| it.strip_suffix('}'))
            .unwrap_or(text);
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut segments = Vec::new();
        while !rest.is_empty() {
            let (segment, left) = match rest.strip_prefix('[') {
                Some(inner) => bracket(inner)?,
                None => field(rest.strip_prefix('.').unwrap_or(rest))?,
            };
            segments.push(segment);
            rest = left;
        }
        Some(Self(segments))
    }

    /// The first value at the path.
    pub(crate) fn first<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        walk(&self.0, value).into_iter().next()
    }

    /// All values at the path, as text separated by spaces.
    pub(crate) fn joined(&self, value: &Value) -> String {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let found: Vec<String> = walk(&self.0, value).into_iter().map(text).collect();
        found.join(" ")
    }
}

/// A field name up to the next segment; a backslash escapes the next character.
fn field(text: &str) -> Option<(PathSegment, &str)> {
    let mut name = String::new();
    let mut letters = text.char_indices();
    let mut end = text.len();
    while let Some((index, letter)) = letters.next() {
        match letter {
            '\\' => name.extend(letters.next().map(|(_, letter)| letter)),
            '.' | '[' => {
                end = index;
                break;
            }
            letter => name.push(letter),
        }
    }
    let segment = match name.as_str() {
        "" => return None,
        "*" => PathSegment::All,
        _ => PathSegment::Field(name),
    };
    Some((segment, &text[end..]))
}

fn bracket(inner: &str) -> Option<(PathSegment, &str)> {
    let end = closing(inner)?;
    let (content, rest) = (inner[..end].trim(), &inner[end + 1..]);
    let segment = if content == "*" {
        PathSegment::All
    } else if let Some(name) = unquoted(content) {
        PathSegment::Field(name.to_owned())
    } else if let Some(filter) = content
        .strip_prefix("?(")
        .and_then(|it| it.strip_suffix(')'))
    {
        parse_filter(filter)?
    } else {
        PathSegment::Index(content.parse().ok()?)
    };
    Some((segment, rest))
}

/// The end of a bracket that was opened before the text; quotes may contain brackets.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0;
    for (index, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(index),
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

fn unquoted(text: &str) -> Option<&str> {
    ['\'', '"']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
}

fn parse_filter(text: &str) -> Option<PathSegment> {
    let (left, right, is_equal) = match (text.split_once("=="), text.split_once("!=")) {
        (Some((left, right)), _) => (left, right, true),
        (None, Some((left, right))) => (left, right, false),
        (None, None) => return None,
    };
    let right = right.trim();
    Some(PathSegment::Filter {
        path: JsonPath::parse(left.trim().strip_prefix('@')?)?.0,
        is_equal,
        value: match unquoted(right) {
            Some(text) => text.into(),
            None => serde_json::from_str(right).ok()?,
        },
    })
}

fn walk<'v>(segments: &[PathSegment], value: &'v Value) -> Vec<&'v Value> {
    let mut found = vec![value];
    for segment in segments {
        found = found
            .into_iter()
            .flat_map(|value| follow(segment, value))
            .collect();
    }
    found
}

fn follow<'v>(segment: &PathSegment, value: &'v Value) -> Vec<&'v Value> {
    let items = || value.as_array().into_iter().flatten();
    match segment {
        PathSegment::Field(name) => value.get(name).into_iter().collect(),
        PathSegment::Index(index) => {
            let list = value.as_array().map_or(&[][..], Vec::as_slice);
            let from_end = usize::try_from(index.unsigned_abs()).ok();
            let position = match index {
                0.. => from_end,
                _ => from_end.and_then(|back| list.len().checked_sub(back)),
            };
            position.and_then(|at| list.get(at)).into_iter().collect()
        }
        PathSegment::All => items()
            .chain(value.as_object().into_iter().flat_map(|map| map.values()))
            .collect(),
        PathSegment::Filter {
            path,
            is_equal,
            value,
        } => items()
            .filter(|item| {
                let found = walk(path, item);
                !found.is_empty() && found.contains(&value) == *is_equal
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_somewhere() {
        let object = json!({
            "a": {"b.c": "dotted", "list": [{"n": "x", "on": true}, {"n": "y", "on": false}]},
        });
        let check = |path: &str, expected: &str| {
            let path = JsonPath::parse(path).expect(path);
            assert_eq!(path.joined(&object), expected, "{path:?}");
        };
        check(".a.list[0].n", "x");
        check(".a.list[-1].n", "y");
        check("{.a.list[*].n}", "x y");
        check(".a.list[?(@.n==\"y\")].on", "false");
        check(".a.list[?(@.on==true)].n", "x");
        check(".a.list[?(@.n!='x')].n", "y");
        check(".a.b\\.c", "dotted");
        check(".a['b.c']", "dotted");
        check(".nope.nope", "");
        for bad in [".", ".a[", ".a[x]", ".a[?(@.n)]", "..a"] {
            assert_eq!(JsonPath::parse(bad), None, "{bad}");
        }
    }
}
