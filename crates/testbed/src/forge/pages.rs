//! The page of a pull request for people: its title, description, commit statuses, diff, comments, and the button
//! that merges it.
//!
//! Without TLS the pages are on the address of the API. With TLS they have an address of their own without
//! it, because no browser knows the certificate authority of the forge. Everybody who reaches loopback may
//! read them and merge, but no page of another site: browsers say where a form comes from.

use std::collections::BTreeMap;
use std::path::Path as FilePath;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use http::{HeaderMap, StatusCode, header};

use super::ForgeState;
use super::lists;
use super::pulls::{self, CommitStatus, PullRequest, PullState};
use super::repository::git;

const STYLE: &str = "
:root { color-scheme: light dark; --page: #f4f6fa; --card: #fff; --line: #dfe4ec; --ink: #131a26; --dim: #545f70;
  --open: #0f7a4d; --merged: #6936c9; --closed: #b4232f; --add: #e1f4ea; --remove: #fdebec; }
@media (prefers-color-scheme: dark) { :root { --page: #0d1117; --card: #161c25; --line: #2b3441; --ink: #e8ecf2;
  --dim: #a2adbb; --open: #4fce93; --merged: #bd9bff; --closed: #ff8d8d; --add: #12301f; --remove: #421d20; } }
body { margin: 0; font: 14px/1.5 system-ui, sans-serif; background: var(--page); color: var(--ink); }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem; display: grid; gap: 1rem; }
h1 { margin: 0; font-size: 1.5rem; } h1 span, .dim { color: var(--dim); font-weight: 400; }
h2 { margin: 0; font-size: 1rem; }
.state { color: var(--card); border-radius: 99px; padding: .15rem .8rem; font-weight: 600; }
.open { background: var(--open); } .merged { background: var(--merged); } .closed { background: var(--closed); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 1rem 1.2rem; overflow-x: auto; }
pre { margin: 0; font: 12.5px/1.6 ui-monospace, Consolas, monospace; } pre.text { white-space: pre-wrap; }
.success { background: var(--open); } .pending { background: var(--dim); } .failure, .error { background: var(--closed); }
main > p { margin: 0; } section p, section ul, section ol, section details { margin: .4rem 0 0; } code { font: 12.5px/1.6 ui-monospace, Consolas, monospace; overflow-wrap: anywhere; }
pre span { display: block; min-height: 1.6em; } .add { background: var(--add); } .remove { background: var(--remove); }
a { color: inherit; } .list { list-style: none; padding: 0; display: grid; gap: .6rem; }
button { font: inherit; font-weight: 600; padding: .45rem 1.1rem; border: 0; border-radius: 8px; color: var(--card); background: var(--open); cursor: pointer; }
form { display: flex; gap: 1rem; align-items: center; flex-wrap: wrap; }
.file { font-weight: 700; } .place { color: var(--dim); }
";

/// The pages, beside the API.
pub(super) fn routes() -> Router<Arc<ForgeState>> {
    Router::new()
        .route("/", get(lists::repositories))
        .route("/{owner}/{name}", get(lists::pull_requests))
        .route("/{owner}/{name}/pulls", get(lists::pull_requests))
        .route("/{owner}/{name}/pulls/{number}", get(show))
        .route("/{owner}/{name}/pulls/{number}/merge", post(merge))
}

/// A page with this content.
pub(super) fn document(title: &str, content: &str) -> Response {
    let policy =
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'";
    let headers = [(header::CONTENT_SECURITY_POLICY, policy)];
    let page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body><main>{content}</main></body></html>"
    );
    (headers, Html(page)).into_response()
}

/// Merges, if a person pressed the button on a page of the forge.
async fn merge(
    State(state): State<Arc<ForgeState>>,
    Path((owner, name, number)): Path<(String, String, u64)>,
    headers: HeaderMap,
) -> Response {
    let site = headers.get("sec-fetch-site");
    if site.is_some_and(|site| site != "same-origin") {
        return (StatusCode::FORBIDDEN, "Only pages of the forge may merge.").into_response();
    }
    let project = format!("{owner}/{name}");
    match pulls::merge(&state, &project, number, false, None).await {
        Ok(()) => Redirect::to(&format!("/{project}/pulls/{number}")).into_response(),
        Err((code, message)) => (code, message).into_response(),
    }
}

/// The state of a pull request, as a badge.
pub(super) fn state_badge(state: PullState) -> &'static str {
    match state {
        PullState::Open => "<span class=\"state open\">Open</span>",
        PullState::Merged => "<span class=\"state merged\">Merged</span>",
        PullState::Closed => "<span class=\"state closed\">Closed</span>",
    }
}

async fn show(
    State(state): State<Arc<ForgeState>>,
    Path((owner, name, number)): Path<(String, String, u64)>,
) -> Response {
    let project = format!("{owner}/{name}");
    let pulls = pulls::all(&state, &project).await;
    let Some(pull) = pulls.into_iter().find(|pull| pull.number == number) else {
        return (StatusCode::NOT_FOUND, "This pull request does not exist.").into_response();
    };
    let diff = diff(&state.repository(&project), &pull).await;
    let statuses = shown_statuses(&state, &project, &pull);
    let title = format!("{} · {}", escaped(&pull.title), escaped(&project));
    document(&title, &content(&project, &pull, &statuses, &diff))
}

/// The last commit status of each context on the head of the pull request.
fn shown_statuses(state: &ForgeState, project: &str, pull: &PullRequest) -> String {
    let all = pulls::statuses(state, project).into_iter();
    let own = all.filter(|it| it.commit == pull.head_commit);
    let last: BTreeMap<String, CommitStatus> = own.map(|it| (it.context.clone(), it)).collect();
    let line = |it: &CommitStatus| {
        let (context, state) = (escaped(&it.context), escaped(&it.state));
        let text = escaped(&it.description);
        format!("<p><span class=\"state {state}\">{state}</span> <b>{context}</b> {text}</p>")
    };
    let lines: String = last.values().map(line).collect();
    match lines.is_empty() {
        true => lines,
        // Nothing sets a status of a pull request that is not open any more.
        false if pull.state != PullState::Open => {
            section_of("Last commit status while it was open", &lines)
        }
        false => section_of("Commit status", &lines),
    }
}

/// What the pull request changes or, once merged, has changed.
async fn diff(folder: &FilePath, pull: &PullRequest) -> String {
    let range = match &pull.merge_commit {
        Some(commit) => format!("{commit}^1..{commit}"),
        None => format!("{}...{}", pull.base, pull.head_commit),
    };
    match git(folder, &["diff", "--no-color", &range], b"").await {
        Ok(output) => String::from_utf8_lossy(&output).into_owned(),
        Err(error) => error.to_string(),
    }
}

fn content(project: &str, pull: &PullRequest, statuses: &str, diff: &str) -> String {
    let project = escaped(project);
    let (title, head, base) = (
        escaped(&pull.title),
        escaped(&pull.head),
        escaped(&pull.base),
    );
    let comments: String = pull
        .comments
        .iter()
        .map(|it| section("Comment", it))
        .collect();
    let number = pull.number;
    let merge = match pull.state {
        PullState::Open => format!(
            "<form method=\"post\" action=\"/{project}/pulls/{number}/merge\"><button>Merge</button>\
             <span class=\"dim\">what a person does on a real forge</span></form>"
        ),
        PullState::Merged | PullState::Closed => String::new(),
    };
    format!(
        "<p><a href=\"/{project}/pulls\">{project}</a></p><h1>{title} <span>#{number}</span></h1>\
         <p>{badge} <code>{head}</code> into <code>{base}</code></p>{merge}\
         {statuses}{body}<section tabindex=\"0\" aria-label=\"Changes\"><h2>Changes</h2><pre>{lines}</pre></section>{comments}",
        badge = state_badge(pull.state),
        body = section("Description", &pull.body),
        lines = diff.lines().map(line).collect::<String>(),
    )
}

fn section(title: &str, text: &str) -> String {
    section_of(title, &super::markdown::html(text))
}

fn section_of(title: &str, content: &str) -> String {
    format!("<section aria-label=\"{title}\"><h2>{title}</h2>{content}</section>")
}

/// A line of a diff, marked as added, removed or the name of a file. What only git needs is left out.
fn line(line: &str) -> String {
    if let Some(names) = line.strip_prefix("diff --git ") {
        let file = names.rsplit(" b/").next().unwrap_or(names);
        return format!("<span class=\"file\">{}</span>", escaped(file));
    }
    if ["index ", "--- ", "+++ "]
        .iter()
        .any(|it| line.starts_with(it))
    {
        return String::new();
    }
    let class = match line.as_bytes().first() {
        Some(b'@') => "place",
        Some(b'+') => "add",
        Some(b'-') => "remove",
        _ => "same",
    };
    format!("<span class=\"{class}\">{}</span>", escaped(line))
}

pub(super) fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use crate::forge::Forge;

    async fn page_of(url: &str) -> (u16, String) {
        ask("GET", url, "").await
    }

    async fn ask(method: &str, url: &str, headers: &str) -> (u16, String) {
        let url: http::Uri = url.parse().unwrap();
        assert_eq!(
            url.scheme_str(),
            Some("http"),
            "no certificate to warn about"
        );
        let stream = tokio::net::TcpStream::connect(url.authority().unwrap().as_str());
        let mut stream = stream.await.unwrap();
        let request = format!(
            "{method} {} HTTP/1.1\r\nhost: forge\r\ncontent-length: 0\r\n{headers}connection: close\r\n\r\n",
            url.path()
        );
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let code = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (code, answer)
    }

    #[tokio::test]
    async fn a_person_finds_and_merges_a_pull_request() {
        let forge = Forge::start_with_tls().await.unwrap();
        let files = [("app.yaml", "version: 1\n")];
        let repository = forge.create_repository("team/config", &files);
        let repository = repository.await.unwrap();
        repository.branch("next", "main").await.unwrap();
        let files = [("app.yaml", "version: 2\n")];
        repository.commit("next", "2", &files).await.unwrap();
        repository.open("Bump", "next", "main").await.unwrap();
        let origin = forge.web_origin();
        for (path, link) in [
            ("/", "href=\"/team/config/pulls\""),
            ("/team/config", "href=\"/team/config/pulls/1\""),
            ("/team/config/pulls", "href=\"/team/config/pulls/1\""),
            (
                "/team/config/pulls/1",
                "action=\"/team/config/pulls/1/merge\"",
            ),
        ] {
            let (code, page) = page_of(&format!("{origin}{path}")).await;
            assert_eq!(code, 200, "{path}");
            assert!(page.contains(link), "{link} in {page}");
        }
        let (code, _) = page_of(&format!("{origin}/team/nothing")).await;
        assert_eq!(code, 404);
        let merge = format!("{origin}/team/config/pulls/1/merge");
        let (code, _) = ask("POST", &merge, "sec-fetch-site: cross-site\r\n").await;
        assert_eq!(code, 403);
        let (code, _) = ask("POST", &merge, "sec-fetch-site: same-origin\r\n").await;
        assert_eq!(code, 303);
        let (_, page) = page_of(&format!("{origin}/team/config/pulls/1")).await;
        assert!(
            page.contains(">Merged<") && !page.contains("<button>"),
            "{page}"
        );
        let (code, _) = ask("POST", &merge, "").await;
        assert_eq!(code, 405, "it is merged already");
    }

    #[tokio::test]
    async fn a_pull_request_has_a_readable_page_with_its_diff() {
        let forge = Forge::start_with_tls().await.unwrap();
        let files = [("app.yaml", "version: 1\n")];
        let repository = forge
            .create_repository("team/config", &files)
            .await
            .unwrap();
        repository.branch("next", "main").await.unwrap();
        let files = [("app.yaml", "version: \"<2>\"\n")];
        repository.commit("next", "2", &files).await.unwrap();
        let number = repository.open("Bump <app>", "next", "main").await.unwrap();
        let url = format!("{}/team/config/pulls/{number}", forge.web_origin());
        for state in ["Open", "Merged"] {
            let (code, page) = page_of(&url).await;
            assert_eq!(code, 200);
            for text in [
                "Bump &lt;app&gt;",
                state,
                "<span class=\"remove\">-version: 1</span>",
                "<span class=\"add\">+version: &quot;&lt;2&gt;&quot;</span>",
            ] {
                assert!(page.contains(text), "{text} in {page}");
            }
            // The second time it stays merged.
            drop(repository.merge(number).await);
        }
        let (code, _) = page_of(&url.replace("pulls/1", "pulls/9")).await;
        assert_eq!(code, 404);
    }
}
