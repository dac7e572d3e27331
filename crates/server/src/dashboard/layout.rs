//! The frame of every page: head, navigation and footer.

use axum::response::Html as Answer;
use http::StatusCode;

use super::{
    assets,
    components::hidden_field,
    html::{Element, Html, tag},
    page::{DashboardPage, PageParts},
    sign_in::Viewer,
};
use crate::session::FlashMessage;

/// The entries of the navigation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Pipelines,
    Approvals,
    Apps,
    Clusters,
}

impl Tab {
    const ALL: [(&str, &str, Self); 4] = [
        ("/pipelines", "Pipelines", Self::Pipelines),
        ("/approvals", "Approvals", Self::Approvals),
        ("/apps", "Apps", Self::Apps),
        ("/clusters", "Clusters", Self::Clusters),
    ];
}

/// A page that is kept up to date.
pub(super) fn page(
    page: &DashboardPage,
    viewer: &Viewer,
    parts: &PageParts,
    message: Option<FlashMessage>,
) -> Answer<String> {
    let main = tag("main")
        .id("main")
        .with("tabindex", "-1")
        .with("data-digest", parts.digest())
        .child(message.map(flash_message))
        .child(page.frame(parts));
    document(&page.title(), Some((viewer, page.tab())), main)
}

/// A page that is not kept up to date.
pub(super) fn plain(title: &str, viewer: &Viewer, tab: Tab, content: Html) -> Answer<String> {
    let main = tag("main").id("main").with("tabindex", "-1").child(content);
    document(title, Some((viewer, tab)), main)
}

/// A page without a viewer.
pub(super) fn bare(title: &str, content: Html) -> Answer<String> {
    let main = tag("main").id("main").class("bare").child(content);
    document(title, None, main)
}

/// The page of an error.
pub(super) fn error_page(code: StatusCode, sentence: &str) -> Answer<String> {
    let title = code.canonical_reason().unwrap_or("Problem");
    let content = Html::all([
        tag("h1").text(title),
        tag("p").text(sentence),
        tag("p").child(tag("a").link("/pipelines").text("All pipelines")),
    ]);
    bare(title, content)
}

fn document(title: &str, shown: Option<(&Viewer, Tab)>, main: Element) -> Answer<String> {
    let head = tag("head")
        .child(tag("meta").with("charset", "utf-8"))
        .child(
            tag("meta")
                .with("name", "viewport")
                .with("content", "width=device-width, initial-scale=1"),
        )
        .child(
            tag("meta")
                .with("name", "color-scheme")
                .with("content", "light dark"),
        )
        .child(tag("title").text(format_args!("{title} · Sluice")))
        .child(
            tag("link")
                .with("rel", "icon")
                .link(&assets::address("icon.svg")),
        )
        .child(
            tag("link")
                .with("rel", "stylesheet")
                .link(&assets::address("sluice.css")),
        )
        .child(
            tag("script")
                .link(&assets::address("sluice.js"))
                .set("defer", true),
        );
    let skip = tag("a").class("skip").link("#main").text("Skip to content");
    let header = shown.map(|(viewer, tab)| header(viewer, tab));
    let live = tag("p")
        .id("live")
        .with("role", "status")
        .with("aria-live", "polite");
    let body = tag("body")
        .child(skip)
        .child(header)
        .child(main)
        .child(live);
    let html = tag("html").with("lang", "en").child(head).child(body);
    Answer(Html::from(html).into_page())
}

fn header(viewer: &Viewer, tab: Tab) -> Element {
    let links = Tab::ALL.map(|(address, name, own)| {
        let link = tag("a").link(address).text(name);
        match own == tab {
            true => link.with("aria-current", "page"),
            false => link,
        }
    });
    let sign_out = tag("form")
        .with("method", "post")
        .link("/logout")
        .child(hidden_field("csrf", &viewer.session.csrf))
        .child(tag("span").class("user").text(viewer.caller.name()))
        .child(tag("button").class("quiet").text("Sign out"));
    tag("header")
        .class("top")
        .child(tag("a").class("brand").link("/pipelines").text("Sluice"))
        .child(tag("nav").with("aria-label", "Main").children(links))
        .child(sign_out)
}

fn flash_message(message: FlashMessage) -> Element {
    let class = if message.is_success {
        "notice good"
    } else {
        "notice bad"
    };
    tag("p")
        .class(class)
        .with(
            "role",
            if message.is_success {
                "status"
            } else {
                "alert"
            },
        )
        .text(message.text)
}
