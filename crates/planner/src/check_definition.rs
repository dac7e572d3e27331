//! What a check asks: its URL or query with `${…}` filled in, and its compiled `passExpr`.
//!
//! A value is escaped for where it stands: percent-encoded in a URL, as part of a string in PromQL. Where no
//! escape exists (a host name, PromQL outside of strings), a value with special characters is refused.

use std::{collections::BTreeSet, sync::Arc};

use api::{
    check_run::CheckRunSpec,
    pipeline::{Check, CheckKind, PipelineSpec, PreflightProblem},
};
use expression::Condition;

use crate::sources::receives_nothing;

/// The reason of a check whose host is not in `--check-hosts`.
pub const CHECK_HOST_NOT_ALLOWED: &str = "CheckHostNotAllowed";
/// The variables of `passExpr` for a query of Prometheus.
const PROMETHEUS_VARIABLES: &[&str] = &["value", "values"];
/// The variables of `passExpr` for a GET request.
const HTTP_VARIABLES: &[&str] = &["status", "body", "json", "headers"];
/// The names that can stand in `${…}`.
const PLACEHOLDERS: [&str; 4] = ["environment", "revision", "version", "pipeline"];

/// Whether a finding of the preflight check is about the checks of an environment, not the promotions into it.
pub fn is_about_checks(problem: &PreflightProblem) -> bool {
    problem.reason == CHECK_HOST_NOT_ALLOWED
}

/// Why a check cannot work as it is written: the first of its problems.
pub fn check_problem(check: &Check) -> Option<String> {
    let mut problems = check_problems(check).into_iter();
    problems.next().map(|(_, text)| text)
}

/// All problems of a check: the field below it, such as `.http.url`, and the sentence.
pub(crate) fn check_problems(check: &Check) -> Vec<(&'static str, String)> {
    let about = |field, problem: String| (field, format!("the check {}: {problem}", check.name));
    if check.kinds().len() != 1 {
        let text = "it must be one of prometheus, http, job and external";
        return vec![about("", text.to_owned())];
    }
    let query = check.prometheus.as_ref().map(|it| &it.query);
    let url = check.http.as_ref().map(|it| &it.url);
    let texts = [
        query.map(|it| (".prometheus.query", "query", it)),
        url.map(|it| (".http.url", "url", it)),
    ];
    let mut found = Vec::new();
    for (field, name, text) in texts.into_iter().flatten() {
        let problem = unknown_placeholder(text);
        found.extend(problem.map(|problem| about(field, format!("{name} {problem}"))));
    }
    let prometheus = check.prometheus.as_ref();
    if prometheus.is_some_and(|it| it.address.contains("${")) {
        let text = "address cannot contain ${…}";
        found.push(about(".prometheus.address", text.to_owned()));
    }
    if let Some(Err(problem)) = condition_of(check) {
        let field = match prometheus {
            Some(_) => ".prometheus.passExpr",
            None => ".http.passExpr",
        };
        found.push(about(field, format!("passExpr: {problem}")));
    }
    found
}

/// The condition of a check that measures, compiled; nothing for the others.
pub fn condition_of(check: &Check) -> Option<Result<Arc<Condition>, String>> {
    let prometheus = check.prometheus.as_ref();
    let prometheus = prometheus.map(|it| Condition::compile(&it.pass_expr, PROMETHEUS_VARIABLES));
    let http = check.http.as_ref();
    prometheus.or_else(|| http.map(|it| Condition::compile(&it.pass_expr, HTTP_VARIABLES)))
}

/// The condition of a check as it is written.
pub fn condition_text(check: &Check) -> &str {
    let prometheus = check.prometheus.as_ref().map(|it| &it.pass_expr);
    let http = check.http.as_ref().map(|it| &it.pass_expr);
    prometheus.or(http).map_or("", String::as_str)
}

/// Whether a check is measured again and again.
pub(crate) fn is_measured(check: &Check) -> bool {
    let kinds = check.kinds();
    kinds.contains(&CheckKind::Prometheus) || kinds.contains(&CheckKind::Http)
}

/// The URL of a GET request of a check run.
pub fn http_url(spec: &CheckRunSpec) -> Result<String, String> {
    let url = spec.check.http.as_ref().map_or("", |http| &http.url);
    let authority = authority_of(url);
    fill(url, spec, |position, value| {
        match authority.contains(&position) {
            true => in_host_name(value),
            false => in_url(value),
        }
    })
}

/// A URL that a check of an environment asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckUrl<'a> {
    /// The environment that is checked, or that the checked revision is promoted into.
    pub environment: &'a str,
    /// The name of the check.
    pub check: &'a str,
    /// What it asks. A revision in the path or the query is made up.
    pub url: String,
}

/// The URLs that the checks of a pipeline ask, as far as they are known before there is a revision.
pub fn check_urls<'a>(pipeline: &str, spec: &'a PipelineSpec) -> Vec<CheckUrl<'a>> {
    let mut urls = Vec::new();
    for environment in &spec.environments {
        let name = &environment.name;
        let into = spec.promotion_into(name);
        let into = into.filter(|_| !receives_nothing(spec, name));
        let into = into.map(|it| it.checks.as_slice());
        let used = spec
            .verify_checks(name)
            .iter()
            .chain(into.unwrap_or_default());
        let used: BTreeSet<&str> = used.map(String::as_str).collect();
        let checks = used.into_iter().filter_map(|name| spec.check(name));
        urls.extend(checks.filter_map(|check| {
            let url = url_before_revisions(pipeline, name, check)?;
            Some(CheckUrl {
                environment: name,
                check: &check.name,
                url,
            })
        }));
    }
    urls
}

fn url_before_revisions(pipeline: &str, environment: &str, check: &Check) -> Option<String> {
    if let Some(prometheus) = &check.prometheus {
        return Some(prometheus.address.clone());
    }
    let template = &check.http.as_ref()?.url;
    let authority = &template[authority_of(template)];
    if ["${revision}", "${version}"]
        .iter()
        .any(|it| authority.contains(it))
    {
        return None;
    }
    let made_up = CheckRunSpec {
        pipeline: pipeline.to_owned(),
        environment: environment.to_owned(),
        check: check.clone(),
        revision: "0".to_owned(),
        version: "0".to_owned(),
        ..CheckRunSpec::default()
    };
    http_url(&made_up).ok()
}

/// The query of a check run.
pub fn prometheus_query(spec: &CheckRunSpec) -> Result<String, String> {
    let query = spec.check.prometheus.as_ref().map_or("", |it| &it.query);
    fill(query, spec, |position, value| {
        match PromQlState::at(query, position) {
            PromQlState::Quoted(_) => Ok(in_quotes(value)),
            PromQlState::Raw if !value.contains('`') => Ok(value.to_owned()),
            PromQlState::Raw | PromQlState::Code | PromQlState::Comment => in_code(value),
        }
    })
}

/// A value in a URL's path, query or fragment, percent-encoded.
fn in_url(value: &str) -> Result<String, String> {
    if [".", ".."].contains(&value) {
        return Err("cannot be a part of a path".to_owned());
    }
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encoded = value.bytes().map(|byte| match is_unreserved(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    Ok(encoded.collect())
}

fn in_host_name(value: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    match !value.is_empty() && value.chars().all(is_plain) {
        true => Ok(value.to_owned()),
        false => Err("cannot be a part of a host name".to_owned()),
    }
}

fn in_quotes(value: &str) -> String {
    let escaped = value.chars().map(|c| match c {
        '\\' => r"\\".to_owned(),
        '"' => r#"\""#.to_owned(),
        '\'' => r"\'".to_owned(),
        '\n' => r"\n".to_owned(),
        other => other.to_string(),
    });
    escaped.collect()
}

fn in_code(value: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match value.chars().all(is_plain) {
        true => Ok(value.to_owned()),
        false => Err("can only stand in a quoted string of the query".to_owned()),
    }
}

/// Where scheme and authority of a URL are, in bytes.
fn authority_of(url: &str) -> std::ops::Range<usize> {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']);
    0..end.map_or(url.len(), |end| start + end)
}

/// Replaces `${…}` by what `escape` makes of the value at its position in the template.
fn fill(
    template: &str,
    spec: &CheckRunSpec,
    escape: impl Fn(usize, &str) -> Result<String, String>,
) -> Result<String, String> {
    let (mut filled, mut rest, mut position) = (String::new(), template, 0);
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start..].find('}') else {
            break;
        };
        let name = &rest[start + 2..start + length];
        let value = value_of(spec, name).ok_or_else(|| format!("there is no ${{{name}}}"))?;
        let escaped = escape(position + start, value);
        let escaped = escaped.map_err(|why| format!("${{{name}}} is {value:?}, which {why}"))?;
        filled.push_str(&rest[..start]);
        filled.push_str(&escaped);
        rest = &rest[start + length + 1..];
        position += start + length + 1;
    }
    Ok(filled + rest)
}

fn value_of<'a>(spec: &'a CheckRunSpec, name: &str) -> Option<&'a str> {
    match name {
        "environment" => Some(&spec.environment),
        "revision" => Some(&spec.revision),
        "version" => Some(&spec.version),
        "pipeline" => Some(&spec.pipeline),
        _ => None,
    }
}

fn unknown_placeholder(template: &str) -> Option<String> {
    template.split("${").skip(1).find_map(|rest| {
        let known = PLACEHOLDERS.map(|name| format!("${{{name}}}")).join(", ");
        match rest.split_once('}') {
            None => Some("has ${ without }".to_owned()),
            Some((name, _)) if PLACEHOLDERS.contains(&name) => None,
            Some((name, _)) => Some(format!("has ${{{name}}}; there are only {known}")),
        }
    })
}

/// What a position in a PromQL query is part of.
#[derive(Clone, Copy)]
enum PromQlState {
    Code,
    Comment,
    /// A string in these quotes.
    Quoted(char),
    /// A string in backquotes, without escapes.
    Raw,
}

impl PromQlState {
    fn at(query: &str, position: usize) -> Self {
        let mut state = Self::Code;
        let mut characters = query[..position].chars();
        while let Some(character) = characters.next() {
            state = match (state, character) {
                (Self::Code, '#') => Self::Comment,
                (Self::Code, '`') => Self::Raw,
                (Self::Code, quote @ ('"' | '\'')) => Self::Quoted(quote),
                (Self::Comment, '\n') | (Self::Raw, '`') => Self::Code,
                (Self::Quoted(quote), character) if quote == character => Self::Code,
                (Self::Quoted(_), '\\') => {
                    characters.next();
                    state
                }
                _ => state,
            };
        }
        state
    }
}
