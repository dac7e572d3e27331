//! HTML that is escaped by construction.
//!
//! Text and attribute values are untrusted. They get into a page only through [`Element`], which
//! escapes them, and addresses only through [`Element::link`], which accepts no scripts.

use std::fmt::{self, Display, Write};

/// Escaped markup.
#[derive(Clone, Debug, Default)]
pub(super) struct Html(String);

impl Html {
    /// Concatenates parts.
    pub(super) fn all<I: Into<Self>>(parts: impl IntoIterator<Item = I>) -> Self {
        let mut all = Self::default();
        for part in parts {
            all.0.push_str(&part.into().0);
        }
        all
    }

    /// Concatenates parts that are shared.
    pub(super) fn joined<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        Self(parts.into_iter().map(Self::as_str).collect())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn into_page(self) -> String {
        format!("<!doctype html>{}", self.0)
    }
}

impl From<Element> for Html {
    fn from(element: Element) -> Self {
        let Element {
            name,
            mut open,
            content,
        } = element;
        open.push('>');
        if !is_void(name) {
            open.push_str(&content);
            open.push_str("</");
            open.push_str(name);
            open.push('>');
        }
        Self(open)
    }
}

impl From<Option<Element>> for Html {
    fn from(element: Option<Element>) -> Self {
        element.map(Self::from).unwrap_or_default()
    }
}

impl From<&str> for Html {
    fn from(text: &str) -> Self {
        let mut escaped = String::new();
        escape(&mut escaped, text);
        Self(escaped)
    }
}

/// An element under construction.
pub(super) struct Element {
    name: &'static str,
    open: String,
    content: String,
}

/// An element of that name.
pub(super) fn tag(name: &'static str) -> Element {
    Element {
        name,
        open: format!("<{name}"),
        content: String::new(),
    }
}

impl Element {
    pub(super) fn with(mut self, attribute: &'static str, value: impl Display) -> Self {
        debug_assert!(
            !["href", "src", "action", "style"].contains(&attribute)
                && !attribute.starts_with("on"),
            "addresses go through `link`, and inline code is not allowed"
        );
        self.push(attribute, &value);
        self
    }

    pub(super) fn class(self, value: impl Display) -> Self {
        self.with("class", value)
    }

    pub(super) fn id(self, value: impl Display) -> Self {
        self.with("id", value)
    }

    /// A boolean attribute.
    pub(super) fn set(mut self, attribute: &'static str, is_set: bool) -> Self {
        if is_set {
            self.open.push(' ');
            self.open.push_str(attribute);
        }
        self
    }

    /// The address that it links or posts to; none unless it is a path of this server or a web address.
    pub(super) fn link(mut self, address: &str) -> Self {
        if is_address(address) {
            let attribute = match self.name {
                "form" => "action",
                "script" | "img" => "src",
                _ => "href",
            };
            self.push(attribute, &address);
        }
        self
    }

    pub(super) fn text(mut self, text: impl Display) -> Self {
        let mut writer = EscapingWriter(&mut self.content);
        write!(writer, "{text}").expect("writing to a string cannot fail");
        self
    }

    pub(super) fn child(mut self, child: impl Into<Html>) -> Self {
        self.content.push_str(child.into().as_str());
        self
    }

    pub(super) fn children<I: Into<Html>>(self, children: impl IntoIterator<Item = I>) -> Self {
        self.child(Html::all(children))
    }

    fn push(&mut self, attribute: &str, value: &dyn Display) {
        write!(self.open, " {attribute}=\"").expect("writing to a string cannot fail");
        let mut writer = EscapingWriter(&mut self.open);
        write!(writer, "{value}").expect("writing to a string cannot fail");
        self.open.push('"');
    }
}

/// Whether an address is a path of this server or a web address.
pub(super) fn is_address(address: &str) -> bool {
    let is_path = address.starts_with('/') && !address.starts_with("//");
    let is_anchor = address.starts_with('#') || address.starts_with('?');
    let is_web = address.starts_with("https://") || address.starts_with("http://");
    is_path || is_anchor || is_web
}

struct EscapingWriter<'a>(&'a mut String);

impl fmt::Write for EscapingWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        escape(self.0, text);
        Ok(())
    }
}

fn escape(into: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => into.push_str("&amp;"),
            '<' => into.push_str("&lt;"),
            '>' => into.push_str("&gt;"),
            '"' => into.push_str("&quot;"),
            '\'' => into.push_str("&#39;"),
            // Characters that change the direction of text or are invisible.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}' | '\0' => {
                into.push('\u{fffd}');
            }
            other => into.push(other),
        }
    }
}

fn is_void(name: &str) -> bool {
    matches!(name, "input" | "meta" | "link" | "br" | "hr" | "img")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(element: Element, expected: &str) {
        assert_eq!(Html::from(element).as_str(), expected);
    }

    #[test]
    fn text_and_values_are_escaped() {
        check(
            tag("b").with("title", "\"'<&").text("<script>&"),
            r#"<b title="&quot;&#39;&lt;&amp;">&lt;script&gt;&amp;</b>"#,
        );
        check(tag("b").text("a\u{202e}b"), "<b>a\u{fffd}b</b>");
    }

    #[test]
    fn only_paths_and_web_addresses_are_linked() {
        let link = tag("a").link("/pipelines?q=\"");
        check(link, r#"<a href="/pipelines?q=&quot;"></a>"#);
        check(
            tag("a").link("https://forge.example/1"),
            r#"<a href="https://forge.example/1"></a>"#,
        );
        for address in [
            "javascript:alert(1)",
            "//evil.example",
            "data:text/html,x",
            "",
        ] {
            check(tag("a").link(address), "<a></a>");
        }
    }

    #[test]
    fn void_elements_are_not_closed() {
        check(tag("input").set("required", true), "<input required>");
    }
}
