//! The freezes page: what stops promotions, until when, the button that ends it, and the form that creates one.

mod create;

use std::sync::Arc;

use api::{
    Freeze, Time,
    freeze::{FreezeSpec, ScheduleWindow},
    names::AUTHOR_ANNOTATION,
};
use axum::{
    Form,
    extract::State,
    response::{IntoResponse, Redirect, Response},
};
use futures::future::try_join_all;
use http::{HeaderMap, header};
use jiff::{civil::DateTime, tz::TimeZone};
use kube::ResourceExt;
use planner::{FreezeState, SummaryState};
use runtime::ObjectKey;
use serde::Deserialize;

use super::{
    ErrorPage,
    components::{address, badge_with_text, counted, empty_state, hidden_field, table, timestamp},
    html::{Element, Html, tag},
    page::{PagePart, PageParts},
    sign_in::{Viewer, is_secure},
};
use crate::{
    AppState,
    access::{AccessRequest, FREEZES},
    actions::{FreezeBody, freeze, thaw},
    object_names::parse_key,
    problem::Problem,
    session::FlashMessage,
};

/// The page.
const FREEZES_PAGE: &str = "/freezes";
/// Where freezes are created and ended.
const ACT: &str = "/freezes/act";

pub(super) async fn parts(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
) -> Result<PageParts, Problem> {
    let all = app_state.objects.freezes();
    let namespace_of = |it: &Arc<Freeze>| it.namespace().unwrap_or_default();
    let mut freezes = viewer.caller.visible(FREEZES, all, namespace_of).await?;
    freezes.sort_by_key(|it| (it.namespace(), it.name_any()));
    let rows = freezes.iter().map(|freeze| async move {
        let namespace = namespace_of(freeze);
        let to_end = AccessRequest::freeze(&namespace);
        let may_end = viewer.caller.may_see(&to_end).await?;
        let csrf = may_end.then_some(viewer.session.csrf.as_str());
        Ok::<_, Problem>(row(freeze, app_state.clock.now(), csrf))
    });
    let mut parts = PageParts {
        rows: try_join_all(rows).await?,
        ..PageParts::default()
    };
    let count = tag("div").id("count").class("dim");
    let count = match parts.rows.len() {
        0 => count.child(none(app_state, viewer).await?),
        number => count.text(counted(number, "freeze")),
    };
    parts.push("count", count);
    parts.push("create", create::create_form(app_state, viewer).await?);
    Ok(parts)
}

/// What the page says where there is no Freeze that the viewer may see.
async fn none(app_state: &Arc<AppState>, viewer: &Viewer) -> Result<Element, Problem> {
    let everywhere = AccessRequest::list(FREEZES, app_state.settings.namespace.as_deref());
    if viewer.caller.may_see(&everywhere).await? {
        return Ok(empty_state(
            "No freezes",
            "Nothing stops promotions. People who may stop them do that here or in the Actions menu \
             of a pipeline. A Freeze with windows, such as every weekend, is applied from a manifest.",
        ));
    }
    let text = format!(
        "{} needs a role with the verb list on freezes of the group pipelines.weave.works, in one \
         namespace or in all. Pages of pipelines say what stops them nevertheless.",
        viewer.caller.name()
    );
    Ok(empty_state("You may not list freezes", &text))
}

fn row(freeze: &Freeze, now: planner::Timestamp, csrf: Option<&str>) -> (Arc<str>, Arc<PagePart>) {
    let key = ObjectKey::of(&freeze.metadata);
    let id = format!("freeze-{}", freeze.uid().unwrap_or_default());
    let spec = &freeze.spec;
    let name = tag("th")
        .with("scope", "row")
        .text(&key.name)
        .child(tag("small").text(&key.namespace));
    let html = tag("tr")
        .id(&id)
        .child(name)
        .child(reason(freeze))
        .child(tag("td").child(state(spec, now)))
        .child(tag("td").child(covers(spec, &key.namespace)))
        .child(tag("td").children(windows(spec)))
        .child(tag("td").child(csrf.map(|csrf| end(&key, csrf))));
    (id.into(), Arc::new(PagePart::from(Html::from(html))))
}

/// Why, who created it, as far as it says so, and when.
fn reason(freeze: &Freeze) -> Element {
    let author = freeze.annotations().get(AUTHOR_ANNOTATION);
    let by = author.map_or("created ".to_owned(), |name| format!("by {name}, "));
    let at = freeze.creation_timestamp();
    let origin = tag("small").text(by).child(at.as_ref().map(timestamp));
    let cell = tag("td").class("reason").text(&freeze.spec.reason);
    cell.child(origin)
}

fn state(spec: &FreezeSpec, now: planner::Timestamp) -> Html {
    let (state, word, next, until) = match planner::freeze_state(spec, now) {
        FreezeState::Closed { until } => (SummaryState::Held, "active", "ends ", until),
        FreezeState::Open { until } => (SummaryState::Ready, "not active", "begins ", until),
        FreezeState::Invalid(why) => {
            let badge = badge_with_text(SummaryState::Failed, "active: cannot be understood");
            return Html::all([badge, tag("small").text(why)]);
        }
    };
    let until = until.map(|at| tag("small").text(next).child(timestamp(&Time(at))));
    Html::all([Some(badge_with_text(state, word)), until])
}

/// The pipelines and environments that it covers.
fn covers(spec: &FreezeSpec, namespace: &str) -> Html {
    let pipelines = spec.pipelines.iter().map(|name| {
        let key = ObjectKey::new(namespace, name);
        tag("p").child(tag("a").link(&address(&key)).text(name))
    });
    let selectors = [
        (&spec.selector, "pipelines by label"),
        (&spec.cluster_selector, "clusters by label"),
        (&spec.namespace_selector, "namespaces by label"),
    ];
    let selectors = selectors.into_iter().filter(|(it, _)| it.is_some());
    let selectors = selectors.map(|(_, text)| tag("p").text(text));
    let all = spec
        .pipelines
        .is_empty()
        .then(|| tag("p").text("all pipelines"));
    let all = all.filter(|_| spec.selector.is_none());
    let environments = match spec.environments.is_empty() {
        true => "all environments".to_owned(),
        false => spec.environments.join(", "),
    };
    let environments = tag("small").text(environments);
    let each = all.into_iter().chain(pipelines).chain(selectors);
    Html::all(each.chain([environments]))
}

fn windows(spec: &FreezeSpec) -> Vec<Element> {
    let line = |what: &str, it: &ScheduleWindow| {
        let zone = it.time_zone.as_deref().unwrap_or("UTC");
        tag("p")
            .text(format_args!("{what} "))
            .child(tag("code").text(&it.cron))
            .text(format_args!(" for {}, {zone}", it.window))
    };
    let closed = spec.closed.iter().map(|it| line("closed", it));
    let all: Vec<_> = closed
        .chain(spec.open_only.iter().map(|it| line("only open", it)))
        .collect();
    match all.is_empty() {
        true => vec![tag("p").class("dim").text("always")],
        false => all,
    }
}

/// The button that ends a freeze, with what that leads to.
fn end(key: &ObjectKey, csrf: &str) -> Element {
    tag("details")
        .id(format_args!("end-{}-{}", key.namespace, key.name))
        .child(tag("summary").text("End…"))
        .child(thaw_form(&key.namespace, &key.name, csrf))
}

fn thaw_form(namespace: &str, name: &str, csrf: &str) -> Element {
    form(csrf, "thaw", namespace)
        .child(hidden_field("name", name))
        .child(tag("p").class("dim").text(
            "Deletes the Freeze. Promotions that it stopped go on where nothing else holds them.",
        ))
        .child(tag("button").text(format_args!("End the freeze {name}")))
}

/// The form on the page of a pipeline that ends a Freeze of its namespace.
pub(super) fn end_form(pipeline: &ObjectKey, name: &str, csrf: &str) -> Element {
    thaw_form(&pipeline.namespace, name, csrf).child(hidden_field("pipeline", &pipeline.name))
}

fn form(csrf: &str, verb: &str, namespace: &str) -> Element {
    form_without_namespace(csrf, verb).child(hidden_field("namespace", namespace))
}

fn form_without_namespace(csrf: &str, verb: &str) -> Element {
    tag("form")
        .with("method", "post")
        .link(ACT)
        .child(hidden_field("csrf", csrf))
        .child(hidden_field("verb", verb))
}

fn label(id: &str, text: &str) -> Element {
    tag("label").with("for", id).text(text)
}

/// The form with what it leads to, why and until when.
fn details(form: Element) -> Element {
    let field = |id: &'static str, name: &'static str, kind: &str| {
        tag("input").id(id).with("name", name).with("type", kind)
    };
    let consequence = "Nothing is pushed, opened or merged until the freeze ends. Rollbacks pass. What is merged \
         already is followed.";
    form.child(label("freeze-reason", "Reason"))
        .child(field("freeze-reason", "reason", "text").with("maxlength", 512))
        .child(label(
            "freeze-until",
            "Until, in UTC (empty: until somebody ends it)",
        ))
        .child(field("freeze-until", "until", "datetime-local"))
        .child(tag("p").class("dim").text(consequence))
        .child(tag("button").class("danger").text("Stop promotions"))
}

/// The form that stops a pipeline.
pub(super) fn freeze_form(key: &ObjectKey, environments: &[&str], csrf: &str) -> Element {
    let all = tag("option").with("value", "").text("all environments");
    let options = environments.iter();
    let options = options.map(|name| tag("option").with("value", name).text(name));
    let select = tag("select")
        .id("freeze-environment")
        .with("name", "environment");
    let scope = form(csrf, "freeze", &key.namespace)
        .child(hidden_field("pipeline", &key.name))
        .child(label("freeze-environment", "Environments"))
        .child(select.child(all).children(options));
    details(scope)
}

/// The fields of the forms.
#[derive(Deserialize)]
pub(super) struct FreezeForm {
    csrf: String,
    verb: String,
    namespace: String,
    /// The Freeze to end.
    name: Option<String>,
    pipeline: Option<String>,
    environment: Option<String>,
    reason: Option<String>,
    until: Option<String>,
    /// The page to return to, if it is not the pipeline's.
    back: Option<String>,
}

pub(super) async fn act(
    State(app_state): State<Arc<AppState>>,
    viewer: Viewer,
    headers: HeaderMap,
    Form(form): Form<FreezeForm>,
) -> Result<Response, ErrorPage> {
    viewer.check_csrf(&form.csrf)?;
    let pipeline = form.pipeline.as_deref();
    let pipeline = pipeline.filter(|_| form.back.as_deref() != Some(FREEZES_PAGE));
    let pipeline = pipeline.and_then(|name| parse_key(&form.namespace, name));
    let back = pipeline.map_or(FREEZES_PAGE.to_owned(), |key| address(&key));
    let done = match form.verb.as_str() {
        "thaw" => end_freeze(&app_state, &viewer, &form).await,
        _ => start_freeze(&app_state, &viewer, &form).await,
    };
    let message = FlashMessage {
        is_success: done.is_ok(),
        link: None,
        text: done.unwrap_or_else(|problem| problem.parts().1.chars().take(1000).collect()),
    };
    let is_secure = is_secure(&app_state, &headers);
    let cookie = app_state.sessions.flash_cookie(&message, is_secure).await;
    let cookie = cookie.map_err(Problem::from)?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(&back)).into_response())
}

async fn start_freeze(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    form: &FreezeForm,
) -> Result<String, Problem> {
    let filled = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
    let until = filled(&form.until).map(|text| until(&text)).transpose()?;
    let body = FreezeBody {
        pipeline: filled(&form.pipeline),
        environments: filled(&form.environment).into_iter().collect(),
        reason: form.reason.clone().unwrap_or_default(),
        until,
        ..FreezeBody::default()
    };
    let key = parse_key(&form.namespace, body.pipeline.as_deref().unwrap_or("all"));
    key.ok_or_else(|| Problem::not_found("a pipeline of that name"))?;
    let stored = freeze(app_state, &viewer.caller, &form.namespace, &body).await?;
    let what = body
        .pipeline
        .unwrap_or_else(|| format!("all pipelines in {}", form.namespace));
    let into = match body.environments.is_empty() {
        true => String::new(),
        false => format!(" into {}", body.environments.join(", ")),
    };
    Ok(format!(
        "Promotions of {what}{into} are stopped by the freeze {}.",
        stored.name_any()
    ))
}

/// A time as browsers submit it, in UTC.
fn until(text: &str) -> Result<Time, Problem> {
    let time = text.parse::<DateTime>().ok();
    let time = time.and_then(|time| time.to_zoned(TimeZone::UTC).ok());
    let wrong =
        || Problem::unprocessable(format!("{text:?} is not a time such as 2026-12-24T18:00"));
    time.map(|time| Time(time.timestamp())).ok_or_else(wrong)
}

async fn end_freeze(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    form: &FreezeForm,
) -> Result<String, Problem> {
    let key = parse_key(&form.namespace, form.name.as_deref().unwrap_or_default());
    let key = key.ok_or_else(|| Problem::not_found("a Freeze of that name"))?;
    thaw(app_state, &viewer.caller, &key).await?;
    Ok(format!("The freeze {} has ended.", key.name))
}

/// The page around the rows.
pub(super) fn frame(parts: &PageParts) -> Html {
    let heads = ["Freeze", "Reason", "State", "Covers", "Windows", "Action"];
    let table = table("Freezes", &heads, parts.all_rows());
    Html::all([
        Html::from(tag("h1").text("Freezes")),
        parts.html("count"),
        parts.html("create"),
        table.into(),
    ])
}
