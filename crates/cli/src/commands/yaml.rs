//! Reads and writes YAML documents.

use std::{
    io::{Read, Write},
    path::Path,
};

use anyhow::Context;
use serde::Serialize;
use serde_json::Value;

/// One document of a file.
pub(super) struct YamlDocument {
    /// The line of the file on which it begins.
    pub(super) line: usize,
    pub(super) text: String,
    /// The parsed content, or the error.
    pub(super) value: Result<Value, YamlError>,
}

/// Why a document cannot be parsed.
pub(super) struct YamlError {
    /// The line of the file.
    pub(super) line: usize,
    pub(super) text: String,
}

/// Writes an object as a document.
pub(crate) fn write(out: &mut dyn Write, object: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_saphyr::to_string(object).context("cannot write an object as YAML")?;
    Ok(write!(out, "---\n{text}")?)
}

/// The text of a file, or of stdin for `-`.
pub(super) fn read_text(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        read.context("cannot read stdin")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// The non-empty documents of a file.
pub(super) fn documents(text: &str) -> Vec<YamlDocument> {
    let mut documents = vec![(1, String::new())];
    for (index, line) in text.lines().enumerate() {
        if line == "---" || line.starts_with("--- ") {
            documents.push((index + 2, String::new()));
        } else if let Some((_, text)) = documents.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    let is_content = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    documents
        .into_iter()
        .filter(|(_, text)| text.lines().any(is_content))
        .map(|(line, text)| YamlDocument {
            line,
            value: serde_saphyr::from_str(&text).map_err(|error| yaml_error(&error, line, &text)),
            text,
        })
        .collect()
}

/// The error with its line in the file. The text names the line in the document, so it is left out there.
fn yaml_error(error: &serde_saphyr::Error, first_line: usize, content: &str) -> YamlError {
    let location = error.location();
    let line = location.map_or(0, |it| usize::try_from(it.line()).unwrap_or(0));
    // At the end of the text the parser names the line after the last one.
    let last = content.lines().count().saturating_sub(1);
    let line = line.saturating_sub(1).min(last);
    if let Some(tab) = tab_near(content, line) {
        return YamlError {
            line: first_line + tab,
            text: "a tab in the indentation; use spaces".to_owned(),
        };
    }
    let text = error.without_snippet().to_string();
    let text = text.lines().next().unwrap_or_default();
    let text = text.split(" at line ").next().unwrap_or(text);
    let text = text.trim_start_matches("error: ");
    YamlError {
        line: first_line + line,
        text: without_advice(text).to_owned(),
    }
}

/// The text without what the parser advises to programmers.
fn without_advice(text: &str) -> &str {
    match text {
        "cannot deserialize null into string; use Option<String>" => "an empty key",
        "expected string scalar" => "a key that is not a string",
        _ => text.split(", set ").next().unwrap_or(text),
    }
}

/// The line that is indented with a tab, at the error or after it: the parser names the value before the tab.
fn tab_near(content: &str, error: usize) -> Option<usize> {
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let mut near = content.lines().enumerate().skip(error).take(2);
    near.find(|(_, line)| line[..indentation(line)].contains('\t'))
        .map(|(index, _)| index)
}
