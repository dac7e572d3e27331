//! What is around every page.

use axum::response::Html as Answer;
use http::StatusCode;

use super::{
    assets,
    html::{Element, Html, tag},
    page::{Page, Parts},
    sign_in::Viewer,
    words::hidden,
};
use crate::session::Told;

/// What the pages are sorted by.
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

/// A page for somebody.
pub(super) fn page(
    page: &Page,
    viewer: &Viewer,
    parts: &Parts,
    told: Option<Told>,
) -> Answer<String> {
    let main = tag("main")
        .id("main")
        .with("tabindex", "-1")
        .with("data-seen", parts.digest())
        .child(told.map(told_once))
        .child(page.frame(parts));
    whole(&page.title(), Some((viewer, page.tab())), main)
}

/// A page of its own that is not kept up to date.
pub(super) fn plain(title: &str, viewer: &Viewer, tab: Tab, content: Html) -> Answer<String> {
    let main = tag("main").id("main").with("tabindex", "-1").child(content);
    whole(title, Some((viewer, tab)), main)
}

/// A page for nobody in particular.
pub(super) fn bare(title: &str, content: Html) -> Answer<String> {
    let main = tag("main").id("main").class("bare").child(content);
    whole(title, None, main)
}

/// What went wrong.
pub(super) fn failure(code: StatusCode, sentence: &str) -> Answer<String> {
    let title = code.canonical_reason().unwrap_or("Problem");
    let content = Html::all([
        tag("h1").text(title),
        tag("p").text(sentence),
        tag("p").child(tag("a").link("/pipelines").text("All pipelines")),
    ]);
    bare(title, content)
}

fn whole(title: &str, shown: Option<(&Viewer, Tab)>, main: Element) -> Answer<String> {
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
    let skip = tag("a").class("skip").link("#main").text("To the content");
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
    let leave = tag("form")
        .with("method", "post")
        .link("/logout")
        .child(hidden("csrf", &viewer.session.csrf))
        .child(tag("span").class("who").text(viewer.caller.name()))
        .child(tag("button").class("quiet").text("Sign out"));
    tag("header")
        .class("top")
        .child(tag("a").class("brand").link("/pipelines").text("Sluice"))
        .child(tag("nav").with("aria-label", "Main").children(links))
        .child(leave)
}

fn told_once(told: Told) -> Element {
    let class = if told.is_good {
        "told good"
    } else {
        "told bad"
    };
    tag("p")
        .class(class)
        .with("role", if told.is_good { "status" } else { "alert" })
        .text(told.sentence)
}
