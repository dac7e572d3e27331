//! Markup that several pages share.

use api::Time;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use planner::SummaryState;
use runtime::ObjectKey;

use super::html::{Element, Html, tag};

/// The icon of a state, hidden from screen readers.
pub(super) fn state_icon(state: SummaryState) -> Element {
    tag("i")
        .class(format_args!("s {}", state.id()))
        .with("aria-hidden", "true")
}

/// The icon and the word of a state.
pub(super) fn badge(state: SummaryState) -> Element {
    badge_with_text(state, state.word())
}

/// The icon of a state with another text.
pub(super) fn badge_with_text(state: SummaryState, text: &str) -> Element {
    tag("span")
        .class(format_args!("badge {}", state.id()))
        .child(state_icon(state))
        .child(tag("span").text(text))
}

/// A point in time; the script shows it as relative time.
pub(super) fn timestamp(time: &Time) -> Element {
    let text = time.0.strftime("%Y-%m-%d %H:%M UTC");
    tag("time").with("datetime", time.0).text(text)
}

/// Since when something lasts; the script shows for how long.
pub(super) fn duration_since(time: &Time) -> Element {
    let text = time.0.strftime("since %Y-%m-%d %H:%M UTC");
    tag("time")
        .with("datetime", time.0)
        .with("data-since", "")
        .text(text)
}

/// A sentence in which what stands between backticks is code.
pub(super) fn sentence(text: &str) -> Html {
    let parts: Vec<&str> = text.split('`').collect();
    // Without its second backtick the first one is only a character.
    if parts.len().is_multiple_of(2) {
        return Html::from(text);
    }
    let parts = parts.into_iter().enumerate();
    Html::all(parts.map(|(index, part)| match index % 2 {
        0 => Html::from(part),
        _ => Html::from(tag("code").text(part)),
    }))
}

/// Text for screen readers only.
pub(super) fn screen_reader_text(text: &str) -> Element {
    tag("span").class("vh").text(text)
}

/// Text, encoded for a URL.
pub(super) fn percent_encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The address of a pipeline's page.
pub(super) fn address(key: &ObjectKey) -> String {
    format!(
        "/pipelines/{}/{}",
        percent_encoded(&key.namespace),
        percent_encoded(&key.name)
    )
}

/// The breadcrumb navigation of a page: the pages above it, and its own name.
pub(super) fn breadcrumbs(above: &[(&str, &str)], own: &str) -> Element {
    let nav = tag("nav")
        .with("aria-label", "Breadcrumb")
        .class("breadcrumbs");
    let nav = above.iter().fold(nav, |nav, (name, address)| {
        nav.child(tag("a").link(address).text(name))
            .child(tag("span").with("aria-hidden", "true").text(" / "))
    });
    nav.child(tag("span").text(own))
}

/// A link to another site; only the address as text if it is not a web address.
pub(super) fn external_link(address: &str, text: &str) -> Element {
    if super::html::is_address(address) && !address.starts_with('/') {
        return tag("a")
            .link(address)
            .with("rel", "noopener noreferrer")
            .text(text);
    }
    tag("span").text(address)
}

/// A hidden input field.
pub(super) fn hidden_field(name: &str, value: &str) -> Element {
    tag("input")
        .with("type", "hidden")
        .with("name", name)
        .with("value", value)
}

/// `Pull request #7`, with the number if the address ends with one.
pub(super) fn pull_request_label(url: &str) -> String {
    let last = url.trim_end_matches('/').rsplit('/').next();
    match last.and_then(|number| number.parse::<u64>().ok()) {
        Some(number) => format!("Pull request #{number}"),
        None => "Pull request".to_owned(),
    }
}

/// What a page says where it has nothing to list, and what to do about it.
pub(super) fn empty_state(title: &str, text: &str) -> Element {
    tag("div")
        .class("empty")
        .child(tag("p").class("title").text(title))
        .child(tag("p").class("dim").text(text))
}

/// A count with its noun: `1 target`, `3 targets`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

/// How many entries a list has, and links to its pages if there are several.
pub(super) fn page_links(
    count: &str,
    (page, pages): (usize, usize),
    address: impl Fn(usize) -> String,
) -> Element {
    let numbers = (0..pages).filter(|_| pages > 1).map(|number| {
        let link = tag("a").link(&address(number)).text(number + 1);
        match number == page {
            true => link.with("aria-current", "page"),
            false => link,
        }
    });
    tag("nav")
        .id("pages")
        .class("pages")
        .with("aria-label", "Pages")
        .child(tag("span").text(count))
        .children(numbers)
}

/// A table with a caption for screen readers, which scrolls if it is wide. Its rows have the id `rows`.
pub(super) fn table(caption: &str, heads: &[&str], rows: Html) -> Element {
    let heads = heads
        .iter()
        .map(|head| tag("th").with("scope", "col").text(head));
    let table = tag("table")
        .child(tag("caption").class("vh").text(caption))
        .child(tag("thead").child(tag("tr").children(heads)))
        .child(tag("tbody").id("rows").child(rows));
    tag("div")
        .class("table")
        .with("role", "region")
        .with("aria-label", caption)
        .with("tabindex", 0)
        .child(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_stands_between_backticks() {
        for (text, expected) in [
            ("plain <b>", "plain &lt;b&gt;"),
            (
                "after `sluice thaw a`; 2",
                "after <code>sluice thaw a</code>; 2",
            ),
            ("one ` only", "one ` only"),
        ] {
            assert_eq!(sentence(text).as_str(), expected);
        }
    }
}
