//! Paths that people write into definitions, such as `.spec.color` or `.labels['a.b']`.

use super::error::child;
use super::node::SchemaNode;

/// Follows `json_path` from `node`; returns the path as messages print it and the schema found.
pub(super) fn follow<'a>(
    node: &'a SchemaNode,
    json_path: &str,
    brackets: bool,
) -> Result<(String, &'a SchemaNode), String> {
    let (mut node, mut printed, mut rest) = (node, String::new(), json_path);
    while !rest.is_empty() {
        let (name, tail) = next(rest, brackets)?;
        let unknown = || "does not refer to a valid field".to_owned();
        if node.properties.is_empty() {
            node = node.additional_schema().ok_or_else(unknown)?;
            printed = format!("{printed}[{name}]");
        } else {
            node = node.properties.get(&name).ok_or_else(unknown)?;
            printed = child(&printed, &name);
        }
        rest = tail;
    }
    Ok((printed, node))
}

/// The first step of a path and what follows it.
fn next(path: &str, brackets: bool) -> Result<(String, &str), String> {
    if let Some(after) = path.strip_prefix('.') {
        let end = after.find(['.', '[', ']']).unwrap_or(after.len());
        let (name, tail) = after.split_at(end);
        return match name.is_empty() {
            true => Err("unexpected end of JSON path".to_owned()),
            false => Ok((name.to_owned(), tail)),
        };
    }
    let Some(after) = path.strip_prefix('[') else {
        let word = path.split(['.', '[', ']']).next().unwrap_or_default();
        return Err(format!("expected [ or . but got: {word}"));
    };
    if !brackets {
        return Err("array notation is not allowed".to_owned());
    }
    let Some(quoted) = after.strip_prefix('\'') else {
        return Err(format!("expected single quoted string but got {after}"));
    };
    let mut name = String::new();
    let mut characters = quoted.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            '\'' => {
                let tail = &quoted[index + 1..];
                let tail = tail
                    .strip_prefix(']')
                    .ok_or_else(|| format!("expected ] but got {tail}"))?;
                return Ok((name, tail));
            }
            other => name.push(other),
        }
    }
    Err("unexpected end of JSON path".to_owned())
}
