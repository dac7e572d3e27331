//! The YAML page of a pipeline, and YAML in colours.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::{IntoResponse, Response},
};
use http::StatusCode;

use super::{
    ErrorPage,
    components::{address, breadcrumbs},
    framed_problem,
    html::{Element, Html, tag},
    layout::{self, Tab},
    sign_in::Viewer,
};
use crate::{AppState, access::AccessRequest, object_names::parse_key, problem::Problem};

pub(super) async fn show(
    State(app_state): State<Arc<AppState>>,
    viewer: Viewer,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Response, ErrorPage> {
    match page(&app_state, &viewer, &namespace, &name).await {
        Ok(page) => Ok(page),
        Err(problem) => framed_problem(&app_state, &viewer, problem).await,
    }
}

async fn page(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    namespace: &str,
    name: &str,
) -> Result<Response, Problem> {
    let key = parse_key(namespace, name);
    let key = key.ok_or_else(|| Problem::not_found("a pipeline of that name"))?;
    let access_request = AccessRequest::new("get", &key);
    if !viewer.caller.may_see(&access_request).await? {
        let detail = format!("{} may not see {key}", viewer.caller.name());
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    let mut pipeline = app_state.stored_pipeline(&key).await?;
    pipeline.metadata.managed_fields = None;
    let text = serde_saphyr::to_string(&pipeline)
        .unwrap_or_else(|error| format!("cannot be written as YAML: {error}"));
    let here = address(&key);
    let command = format!("kubectl get pipeline -n {namespace} {name} -o yaml");
    let title = format!("{name} as YAML");
    let content = Html::all([
        breadcrumbs(&[("Pipelines", "/pipelines"), (name, &here)], "YAML"),
        tag("h1").text(&title),
        tag("p").class("dim").child(tag("code").text(command)),
        source(&text, "YAML"),
    ]);
    let title = (title.as_str(), Some(Tab::Pipelines));
    let page = layout::plain(app_state, viewer, title, content).await?;
    Ok(page.into_response())
}

/// YAML in colours. The script adds a button that copies it.
pub(super) fn source(text: &str, label: &str) -> Element {
    let lines = text.split_inclusive('\n').map(line);
    let code = tag("code").class("yaml").child(Html::all(lines));
    let pre = tag("pre")
        .with("tabindex", 0)
        .with("role", "region")
        .with("aria-label", label)
        .child(code);
    tag("div").class("source").child(pre)
}

/// A line: indentation and dashes, then a key and a value, a value, or a comment.
fn line(line: &str) -> Html {
    let start = line.find(|it: char| it != ' ' && it != '-');
    let (indent, rest) = line.split_at(start.unwrap_or(line.len()));
    // A dash that is not followed by a space belongs to the value.
    let (indent, rest) = match indent.ends_with('-') {
        true => line.split_at(indent.trim_end_matches('-').len()),
        false => (indent, rest),
    };
    let indent = Html::from(tag("span").class("p").text(indent));
    if rest.starts_with('#') {
        return Html::all([indent, tag("span").class("c").text(rest).into()]);
    }
    let end = rest.find(": ").map(|at| at + 1);
    let end = end.or_else(|| {
        rest.trim_end()
            .ends_with(':')
            .then(|| rest.trim_end().len())
    });
    let is_key = |key: &str| !key.starts_with(['"', '\'', '|', '>']) && !key.contains(' ');
    match end.filter(|end| is_key(&rest[..end - 1])) {
        Some(end) => {
            let key = tag("span").class("k").text(&rest[..end]);
            Html::all([indent, key.into(), value(&rest[end..])])
        }
        None => Html::all([indent, value(rest)]),
    }
}

fn value(text: &str) -> Html {
    let plain = text.trim();
    let is_word = ["true", "false", "null", "~"].contains(&plain);
    let class = match plain.parse::<f64>() {
        _ if plain.is_empty() => return Html::from(text),
        Ok(_) => "n",
        Err(_) if is_word => "n",
        Err(_) => "s1",
    };
    tag("span").class(class).text(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(line(text).as_str(), expected);
    }

    #[test]
    fn keys_values_and_comments_have_their_colour() {
        check(
            "  - name: dev\n",
            "<span class=\"p\">  - </span><span class=\"k\">name:</span><span class=\"s1\"> dev\n</span>",
        );
        check(
            "suspend: true",
            "<span class=\"p\"></span><span class=\"k\">suspend:</span><span class=\"n\"> true</span>",
        );
        check(
            "spec:\n",
            "<span class=\"p\"></span><span class=\"k\">spec:</span>\n",
        );
        check(
            "# why",
            "<span class=\"p\"></span><span class=\"c\"># why</span>",
        );
        check(
            "- -1",
            "<span class=\"p\">- </span><span class=\"n\">-1</span>",
        );
    }

    #[test]
    fn no_text_is_lost_or_becomes_markup() {
        for text in [
            "a: <b>\n",
            "\"x: y\": z\n",
            "---\n",
            "- \n",
            "  a b: c",
            ": x",
            "é: ü",
        ] {
            let html = line(text);
            let mut shown = String::new();
            let mut is_tag = false;
            for character in html.as_str().chars() {
                match character {
                    '<' => is_tag = true,
                    '>' => is_tag = false,
                    other if !is_tag => shown.push(other),
                    _ => {}
                }
            }
            let shown = shown
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&quot;", "\"");
            assert_eq!(shown, text);
        }
    }
}
