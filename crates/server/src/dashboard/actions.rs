//! The forms that act on pipelines: the same actions as REST, with an answer for people.

use std::sync::Arc;

use axum::{
    Form,
    extract::{Path, State},
    response::{IntoResponse, Redirect, Response},
};
use http::{HeaderMap, header};
use kube::ResourceExt;
use planner::ApprovalState;
use runtime::ObjectKey;
use serde::Deserialize;

use super::{
    ErrorPage,
    components::address,
    decision::still_needed,
    sign_in::{Viewer, is_secure},
};
use crate::{
    AppState,
    actions::{ActionBody, ActionResult, ActionVerb, act_on_environment, suspend_pipeline},
    object_names::parse_key,
    problem::Problem,
    session::FlashMessage,
};

/// The longest message that is shown after an action: it is stored in a cookie.
const MAX_MESSAGE_LENGTH: usize = 1000;

/// The fields of a form.
#[derive(Deserialize)]
pub(super) struct ActionForm {
    csrf: String,
    verb: String,
    /// Empty for the whole pipeline.
    #[serde(default)]
    environment: String,
    /// What was typed.
    revision: Option<String>,
    /// What was chosen, if nothing was typed.
    known: Option<String>,
    target: Option<String>,
    note: Option<String>,
    unseen: Option<String>,
    /// The digest of the change that the page showed.
    change: Option<String>,
    /// The page to return to.
    back: Option<String>,
}

pub(super) async fn act(
    State(app_state): State<Arc<AppState>>,
    viewer: Viewer,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
    Form(form): Form<ActionForm>,
) -> Result<Response, ErrorPage> {
    viewer.check_csrf(&form.csrf)?;
    let key = parse_key(&namespace, &name);
    let key = key.ok_or_else(|| Problem::not_found("a pipeline of that name"))?;
    let back = match form.back.as_deref() {
        Some("/approvals") => "/approvals".to_owned(),
        _ => address(&key),
    };
    let done = match form.environment.is_empty() {
        true => act_on_pipeline(&app_state, &viewer, &key, &form.verb).await,
        false => act_on(&app_state, &viewer, &key, form).await,
    };
    let message = FlashMessage {
        is_success: done.is_ok(),
        // Another page than the pipeline's links to it.
        link: (back != address(&key)).then(|| (key.name.clone(), address(&key))),
        text: done.unwrap_or_else(|problem| {
            let (_, sentence) = problem.parts();
            sentence.chars().take(MAX_MESSAGE_LENGTH).collect()
        }),
    };
    let is_secure = is_secure(&app_state, &headers);
    let cookie = app_state.sessions.flash_cookie(&message, is_secure).await;
    let cookie = cookie.map_err(Problem::from)?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(&back)).into_response())
}

async fn act_on_pipeline(
    app_state: &AppState,
    viewer: &Viewer,
    key: &ObjectKey,
    verb: &str,
) -> Result<String, Problem> {
    let suspend = match ActionVerb::parse(verb)? {
        ActionVerb::Suspend => true,
        ActionVerb::Resume => false,
        _ => return Err(Problem::not_found(&format!("the action {verb:?}"))),
    };
    suspend_pipeline(app_state, &viewer.caller, key, suspend).await?;
    let state = if suspend { "suspended" } else { "resumed" };
    Ok(format!("{} is {state}.", key.name))
}

async fn act_on(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    key: &ObjectKey,
    form: ActionForm,
) -> Result<String, Problem> {
    let verb = ActionVerb::parse(&form.verb)?;
    let environment = form.environment;
    let body = ActionBody {
        revision: filled(form.revision).or(filled(form.known)),
        target: filled(form.target),
        note: filled(form.note),
        unseen: form.unseen.is_some(),
        change_digest: filled(form.change),
        ..ActionBody::default()
    };
    let done =
        act_on_environment(app_state, &viewer.caller, key, &environment, verb, &body).await?;
    Ok(match done {
        ActionResult::Approved {
            revision,
            promotions,
            ..
        } => {
            let state = approval_state(app_state, key, &promotions);
            approved(&environment, &revision, state.as_ref())
        }
        ActionResult::Rejected {
            rejected, message, ..
        } => format!("The promotion of {rejected} is rejected: {message}."),
        ActionResult::Requested {
            revision, message, ..
        } => requested(&environment, &revision, message),
        ActionResult::SuspendSet { suspend: true, .. } => {
            format!("{environment} is suspended: no promotion into it starts.")
        }
        ActionResult::SuspendSet { suspend: false, .. } => format!("{environment} is resumed."),
    })
}

/// A field that is not empty.
fn filled(field: Option<String>) -> Option<String> {
    field.filter(|text| !text.is_empty())
}

/// The approvals of the promotions that were approved, of that which needs most.
fn approval_state(
    app_state: &AppState,
    key: &ObjectKey,
    names: &[String],
) -> Option<ApprovalState> {
    let pipeline = app_state.objects.cached_pipeline(key);
    let promotions = app_state.objects.promotions_of(key).into_iter();
    let approved = promotions.filter(|it| names.contains(&it.name_any()));
    let now = app_state.clock.now();
    let states = approved.filter_map(|it| planner::approval_state(&it, pipeline.as_deref(), now));
    states.max_by_key(ApprovalState::missing_once_recorded)
}

/// What is said about an approval: one of several does not let the revision in.
fn approved(environment: &str, revision: &str, state: Option<&ApprovalState>) -> String {
    match state.filter(|it| it.missing_once_recorded() > 0) {
        Some(state) => format!(
            "Your approval of {revision} for {environment} is recorded; {}.",
            still_needed(state)
        ),
        None => format!("{revision} is approved for {environment}."),
    }
}

/// What is said about a stored request: its revision, if it names one, and what the controller answered.
fn requested(environment: &str, revision: &str, message: Option<String>) -> String {
    match (revision, message) {
        ("", Some(message)) => format!("{environment}: {message}."),
        ("", None) => format!("Requested for {environment}; the controller has not answered yet."),
        (revision, Some(message)) if message == format!("bringing {revision}") => {
            format!("Requested {revision} for {environment}; it is on its way.")
        }
        (revision, Some(message)) => format!("Requested {revision} for {environment}: {message}."),
        (revision, None) => format!("Requested {revision} for {environment}."),
    }
}
