//! What several pages say the same way.

use api::Time;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::html::{Element, tag};
use crate::watched::ObjectKey;
use planner::SummaryState;

/// A shape with a colour, for eyes only.
pub(super) fn shape(state: SummaryState) -> Element {
    tag("i")
        .class(format_args!("s {}", state.id()))
        .with("aria-hidden", "true")
}

/// A shape and its word.
pub(super) fn badge(state: SummaryState) -> Element {
    badge_saying(state, state.word())
}

/// A shape and another word.
pub(super) fn badge_saying(state: SummaryState, word: &str) -> Element {
    tag("span")
        .class(format_args!("badge {}", state.id()))
        .child(shape(state))
        .child(tag("span").text(word))
}

/// A moment; the script turns it into how long ago that was.
pub(super) fn moment(time: &Time) -> Element {
    let text = time.0.strftime("%Y-%m-%d %H:%M UTC");
    tag("time").with("datetime", time.0).text(text)
}

/// Words for screen readers only.
pub(super) fn aside(text: &str) -> Element {
    tag("span").class("vh").text(text)
}

/// A part of an address.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// Where a pipeline is shown.
pub(super) fn address(key: &ObjectKey) -> String {
    format!(
        "/pipelines/{}/{}",
        encoded(&key.namespace),
        encoded(&key.name)
    )
}

/// The way to a page: what is above it, and its own name.
pub(super) fn crumbs(above: &[(&str, &str)], own: &str) -> Element {
    let nav = tag("nav").with("aria-label", "Breadcrumb").class("crumbs");
    let nav = above.iter().fold(nav, |nav, (name, address)| {
        nav.child(tag("a").link(address).text(name))
            .child(tag("span").with("aria-hidden", "true").text(" / "))
    });
    nav.child(tag("span").text(own))
}

/// A link out of here; only its text, where the address would lead to nothing good.
pub(super) fn outward(address: &str, text: &str) -> Element {
    if super::html::is_address(address) && !address.starts_with('/') {
        return tag("a")
            .link(address)
            .with("rel", "noopener noreferrer")
            .text(text);
    }
    tag("span").text(address)
}

/// A field that nobody sees.
pub(super) fn hidden(name: &str, value: &str) -> Element {
    tag("input")
        .with("type", "hidden")
        .with("name", name)
        .with("value", value)
}
