//! The frame of every page: head, navigation, account, and the element that says whether the page is
//! up to date.

use std::sync::Arc;

use axum::response::Html as Answer;
use http::StatusCode;

use super::{
    approvals, assets,
    components::{hidden_field, screen_reader_text},
    html::{Element, Html, tag},
    page::{DashboardPage, PageParts},
    sign_in::Viewer,
};
use crate::{AppState, problem::Problem, session::FlashMessage};

/// The part of every page that counts promotions that await approval.
pub(super) const WAITING: &str = "waiting";

/// The entries of the navigation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Pipelines,
    Approvals,
    Freezes,
    Checks,
    Apps,
    Clusters,
    Triggers,
}

impl Tab {
    const ALL: [(&str, &str, Self); 7] = [
        ("/pipelines", "Pipelines", Self::Pipelines),
        ("/approvals", "Approvals", Self::Approvals),
        ("/freezes", "Freezes", Self::Freezes),
        ("/checks", "Checks", Self::Checks),
        ("/apps", "Apps", Self::Apps),
        ("/clusters", "Clusters", Self::Clusters),
        ("/triggers", "Triggers", Self::Triggers),
    ];

    /// Other words that the command palette finds the page by.
    fn synonyms(self) -> &'static str {
        match self {
            Self::Pipelines => "home list",
            Self::Approvals => "approve reject decide decisions inbox",
            Self::Freezes => "freeze thaw stop windows",
            Self::Checks => "verify verdicts tests",
            Self::Apps => "workloads images versions",
            Self::Clusters => "targets leaves",
            Self::Triggers => "hooks webhooks tekton",
        }
    }
}

/// What the frame shows besides the content of a page.
struct Frame<'a> {
    viewer: &'a Viewer,
    tab: Option<Tab>,
    waiting: Html,
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
    let frame = Frame {
        viewer,
        tab: page.tab(),
        waiting: parts.html(WAITING),
    };
    document(&page.title(), Some(&frame), main)
}

/// A page that is not kept up to date.
pub(super) async fn plain(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    (title, tab): (&str, Option<Tab>),
    content: Html,
) -> Result<Answer<String>, Problem> {
    let main = tag("main").id("main").with("tabindex", "-1").child(content);
    let frame = Frame {
        viewer,
        tab,
        waiting: waiting(app_state, viewer).await?.into(),
    };
    Ok(document(title, Some(&frame), main))
}

/// How many promotions await approval, for the navigation and the title of the page.
pub(super) async fn waiting(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
) -> Result<Element, Problem> {
    let count = approvals::visible(app_state, viewer).await?.len();
    let element = tag("span")
        .id(WAITING)
        .class("count")
        .with("data-count", count);
    Ok(match count {
        0 => element,
        count => element.text(count).child(screen_reader_text(" waiting")),
    })
}

/// A page without a viewer.
pub(super) fn bare(title: &str, content: Html) -> Answer<String> {
    let main = tag("main").id("main").class("bare").child(content);
    document(title, None, main)
}

/// The page of an error, without a viewer.
pub(super) fn error_page(code: StatusCode, sentence: &str) -> Answer<String> {
    bare(title_of(code), error_content(code, sentence))
}

/// The page of an error, with the navigation.
pub(super) async fn framed_error(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    problem: &Problem,
) -> Result<Answer<String>, Problem> {
    let (code, sentence) = problem.parts();
    let content = tag("div")
        .class("empty")
        .child(error_content(code, sentence));
    let title = (title_of(code), None);
    plain(app_state, viewer, title, content.into()).await
}

fn title_of(code: StatusCode) -> &'static str {
    code.canonical_reason().unwrap_or("Problem")
}

fn error_content(code: StatusCode, sentence: &str) -> Html {
    let back = tag("a").class("button").link("/pipelines");
    // Others may begin with the name of a person or an object.
    let sentence = match code {
        StatusCode::NOT_FOUND => capitalized(sentence),
        _ => sentence.to_owned(),
    };
    Html::all([
        tag("p").class("code").text(code.as_u16()),
        tag("h1").text(title_of(code)),
        tag("p").text(sentence),
        tag("p").child(back.text("All pipelines")),
    ])
}

fn capitalized(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let first = letters.next().map(|it| it.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

fn document(title: &str, frame: Option<&Frame<'_>>, main: Element) -> Answer<String> {
    let skip = tag("a").class("skip").link("#main").text("Skip to content");
    let live = tag("p")
        .id("live")
        .with("role", "status")
        .with("aria-live", "polite");
    let body = tag("body")
        .child(skip)
        .child(frame.map(header))
        .child(main)
        .child(live);
    let html = tag("html")
        .with("lang", "en")
        .child(head(title))
        .child(body);
    Answer(Html::from(html).into_page())
}

fn head(title: &str) -> Element {
    let meta =
        |name: &'static str, content: &str| tag("meta").with("name", name).with("content", content);
    let link = |rel: &str, file: &str| tag("link").with("rel", rel).link(&assets::address(file));
    let script = |file: &str| {
        tag("script")
            .link(&assets::address(file))
            .set("defer", true)
    };
    tag("head")
        .child(tag("meta").with("charset", "utf-8"))
        .child(meta("viewport", "width=device-width, initial-scale=1"))
        .child(meta("color-scheme", "light dark"))
        .child(tag("title").text(format_args!("{title} · Sluice")))
        .child(link("icon", "icon.svg"))
        .child(link("stylesheet", "sluice.css"))
        .child(script("sluice.js"))
        .child(script("palette.js"))
}

fn header(frame: &Frame<'_>) -> Element {
    let links = Tab::ALL.map(|(address, name, own)| {
        let mut link = tag("a").link(address).text(name);
        link = link.with("data-find", own.synonyms());
        if own == Tab::Approvals {
            link = link.text(" ").child(frame.waiting.clone());
        }
        match frame.tab == Some(own) {
            true => link.with("aria-current", "page"),
            false => link,
        }
    });
    let brand = tag("a").class("brand").link("/pipelines").child(logo(24));
    let find = tag("a")
        .id("find")
        .class("find")
        .link("/pipelines")
        .child(tag("span").text("Search"))
        .child(tag("kbd").text("Ctrl K"));
    tag("header")
        .class("top")
        .child(brand.text("Sluice"))
        .child(tag("nav").with("aria-label", "Main").children(links))
        .child(find)
        .child(account(frame.viewer))
}

/// The logo with a size in pixels.
pub(super) fn logo(size: u32) -> Element {
    tag("img")
        .with("alt", "")
        .with("width", size)
        .with("height", size)
        .link(&assets::address("icon.svg"))
}

/// The name of the viewer, and the button to sign out.
fn account(viewer: &Viewer) -> Element {
    let name = viewer.caller.name();
    let own = name.rsplit(':').next().unwrap_or(name);
    let letters = own.chars().filter(|it| it.is_alphanumeric());
    let initials: String = letters.take(2).collect();
    let summary = tag("summary")
        .class("avatar")
        .text(initials.to_uppercase())
        .child(screen_reader_text(&format!(" account of {name}")));
    let sign_out = tag("form")
        .with("method", "post")
        .link("/logout")
        .child(hidden_field("csrf", &viewer.session.csrf))
        .child(tag("button").class("quiet").text("Sign out"));
    let panel = tag("div")
        .class("panel")
        .child(tag("p").class("user").text(name))
        .child(sign_out);
    tag("details").class("menu").child(summary).child(panel)
}

fn flash_message(message: FlashMessage) -> Element {
    let (class, role) = match message.is_success {
        true => ("notice good", "status"),
        false => ("notice bad", "alert"),
    };
    let text = tag("p").class(class).with("role", role);
    let link = message.link.map(|(name, address)| {
        let link = tag("a").link(&address).text(name);
        tag("span").text(" ").child(link)
    });
    text.text(message.text).child(link)
}
