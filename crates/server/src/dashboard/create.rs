//! The form for a new pipeline, with a preview of the manifest, which is proposed in git.
//!
//! It works without JavaScript: every button submits the form, and the page contains what was typed.
//! With JavaScript the manifest and the errors are updated while typing.

mod draft;
mod form;
mod manifest;
mod references;

use std::{collections::BTreeSet, sync::Arc};

use api::{Change, GitopsCluster, change::ChangeSpec};
use axum::{
    Form, Json,
    extract::State,
    response::{IntoResponse, Redirect, Response},
};
use futures::future::try_join_all;
use kube::ResourceExt;
use runtime::ObjectKey;
use serde_json::{Map, Value, json};

use super::{
    ErrorPage, changes,
    html::Html,
    layout::{self, Tab},
    shared_targets,
    sign_in::Viewer,
};
use crate::{
    AppState,
    access::{AccessRequest, CHANGES, CLUSTERS, PIPELINES},
    actions::{ProposedFile, propose},
    problem::Problem,
};
use draft::{Draft, FormButton, SubmittedDraft};
use form::CreateForm;
use manifest::FieldErrors;

/// The fields of a form, in order.
type Fields = Form<Vec<(String, String)>>;

pub(super) async fn form(
    State(app_state): State<Arc<AppState>>,
    viewer: Viewer,
) -> Result<Response, ErrorPage> {
    let namespace_of = |key: &ObjectKey| key.namespace.clone();
    let known = app_state.objects.pipeline_keys();
    let known = viewer
        .caller
        .visible(PIPELINES, known, namespace_of)
        .await?;
    let known: BTreeSet<String> = known.iter().map(namespace_of).collect();
    // If all pipelines of the viewer are in one namespace, the next one probably is too.
    let likely = known.first().filter(|_| known.len() == 1);
    let draft = Draft {
        namespace: likely.cloned().unwrap_or_default(),
        ..Draft::new()
    };
    let shown = ShownErrors::default();
    show(&app_state, &viewer, &draft, shown).await
}

/// What the form shows besides the draft.
#[derive(Default)]
struct ShownErrors {
    errors: FieldErrors,
    /// Why the file was not proposed.
    refusal: Option<String>,
    /// What a check of a draft without errors warns about.
    checked: Option<Vec<String>>,
    /// The field that gets the focus.
    focus: Option<String>,
}

pub(super) async fn submit(
    State(app_state): State<Arc<AppState>>,
    viewer: Viewer,
    Form(fields): Fields,
) -> Result<Response, ErrorPage> {
    let SubmittedDraft {
        csrf,
        button,
        mut draft,
    } = SubmittedDraft::read(fields);
    viewer.check_csrf(&csrf)?;
    draft.apply(button);
    let is_complete = matches!(button, FormButton::Check | FormButton::Propose);
    let errors = field_errors(&app_state, &viewer, &draft, is_complete).await?;
    if button != FormButton::Propose || !errors.is_empty() {
        let focus = draft.next_field(button);
        let checked = match button == FormButton::Check && errors.is_empty() {
            true => check(&app_state, &viewer, &draft).await?,
            false => None,
        };
        let shown = ShownErrors {
            focus: focus.or_else(|| draft.first_field(&errors)),
            errors,
            checked,
            refusal: None,
        };
        return show(&app_state, &viewer, &draft, shown).await;
    }
    propose_draft(&app_state, &viewer, &draft).await
}

async fn propose_draft(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    draft: &Draft,
) -> Result<Response, ErrorPage> {
    let file = ProposedFile {
        path: path(app_state, draft),
        content: draft.yaml(),
        title: format!("Add pipeline {}/{}", draft.namespace, draft.name),
    };
    match propose(app_state, &viewer.caller, &draft.namespace, file).await {
        Ok(change) => {
            let address = changes::address(&ObjectKey::of(&change.metadata));
            Ok(Redirect::to(&address).into_response())
        }
        Err(problem) => {
            let refusal = problem.parts().1.to_owned();
            let shown = ShownErrors {
                refusal: Some(refusal),
                ..ShownErrors::default()
            };
            show(app_state, viewer, draft, shown).await
        }
    }
}

/// What a person should know about a draft without errors: `sluice lint`'s warnings, and what it names and does
/// not exist.
async fn check(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    draft: &Draft,
) -> Result<Option<Vec<String>>, Problem> {
    let Some(pipeline) = draft.pipeline() else {
        return Ok(None);
    };
    references::warnings(app_state, viewer, &pipeline)
        .await
        .map(Some)
}

/// The parts of the form that are updated while typing.
pub(super) async fn preview(
    State(app_state): State<Arc<AppState>>,
    viewer: Viewer,
    Form(fields): Fields,
) -> Result<Json<Value>, ErrorPage> {
    let submitted = SubmittedDraft::read(fields);
    viewer.check_csrf(&submitted.csrf)?;
    let draft = &submitted.draft;
    let errors = field_errors(&app_state, &viewer, draft, false).await?;
    let shown = ShownErrors {
        errors,
        ..ShownErrors::default()
    };
    let form = create_form(&app_state, &viewer, draft, shown).await?;
    let parts = form.parts().into_iter();
    let set: Map<String, Value> = parts
        .map(|(id, element)| (id, json!(Html::from(element).as_str())))
        .collect();
    Ok(Json(json!({"set": set})))
}

async fn show(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    draft: &Draft,
    shown: ShownErrors,
) -> Result<Response, ErrorPage> {
    let form = create_form(app_state, viewer, draft, shown).await?;
    let title = ("Create a pipeline", Some(Tab::Pipelines));
    let page = layout::plain(app_state, viewer, title, form.page()).await?;
    Ok(page.into_response())
}

async fn create_form<'a>(
    app_state: &'a Arc<AppState>,
    viewer: &'a Viewer,
    draft: &'a Draft,
    shown: ShownErrors,
) -> Result<CreateForm<'a>, Problem> {
    let namespace_of = |it: &Arc<GitopsCluster>| it.namespace().unwrap_or_default();
    let clusters = viewer
        .caller
        .visible(CLUSTERS, app_state.objects.clusters(), namespace_of)
        .await?;
    let reference = |it: &Arc<GitopsCluster>| match namespace_of(it) {
        own if own == draft.namespace => it.name_any(),
        other => format!("{other}/{}", it.name_any()),
    };
    let mut warnings = draft.warnings();
    if let Some(pipeline) = draft.pipeline() {
        warnings.extend(shared_targets::warnings(app_state, viewer, &pipeline).await?);
    }
    Ok(CreateForm {
        draft,
        errors: shown.errors,
        refusal: shown.refusal,
        checked: shown.checked,
        warnings,
        focus: shown.focus,
        csrf: &viewer.session.csrf,
        path: path(app_state, draft),
        authoring: app_state.settings.authoring.as_ref(),
        clusters: clusters.iter().map(reference).collect(),
    })
}

/// The path of the manifest: the one that was typed, else a suggestion.
fn path(app_state: &AppState, draft: &Draft) -> String {
    if !draft.path.is_empty() {
        return draft.path.clone();
    }
    let authoring = app_state.settings.authoring.as_ref();
    let folders = authoring
        .map(|it| it.folders.as_slice())
        .unwrap_or_default();
    let or_default = |text: &'_ str, default: &'_ str| match text {
        "" => default.to_owned(),
        text => text.to_owned(),
    };
    let namespace = or_default(&draft.namespace, "namespace");
    let name = or_default(&draft.name, "name");
    planner::change::suggested_path(folders, &namespace, &name)
}

/// The errors of a draft. Missing fields are errors only if the draft is complete.
async fn field_errors(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    draft: &Draft,
    is_complete: bool,
) -> Result<FieldErrors, Problem> {
    let mut errors = draft.errors(is_complete);
    let key = ObjectKey::new(&draft.namespace, &draft.name);
    let may_know = viewer
        .caller
        .may_see(&AccessRequest::new("get", &key))
        .await?;
    if may_know && app_state.objects.has_pipeline(&key) {
        let text = "the namespace already has a pipeline of that name";
        errors.insert("name".to_owned(), text.to_owned());
    }
    if let Some(authoring) = &app_state.settings.authoring {
        let mut change = Change::new("", ChangeSpec::default());
        change.metadata.namespace = Some(draft.namespace.clone());
        change.spec.path = path(app_state, draft);
        let refusal = planner::change::refuse(&change, Some(&authoring.folders));
        if let Some(refusal) = refusal.filter(|_| is_complete || !draft.path.is_empty()) {
            errors.insert("path".to_owned(), refusal.message);
        }
    }
    Ok(errors)
}

/// Whether the viewer may propose files: in all namespaces, or in one with pipelines or clusters.
pub(super) async fn may_propose(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
) -> Result<bool, Problem> {
    let everywhere = AccessRequest::create(CHANGES, app_state.settings.namespace.as_deref());
    if viewer.caller.may_see(&everywhere).await? {
        return Ok(true);
    }
    let pipelines = app_state.objects.pipeline_keys();
    let clusters = app_state.objects.clusters();
    let namespaces = pipelines.into_iter().map(|key| key.namespace);
    let namespaces = namespaces.chain(clusters.iter().filter_map(|it| it.namespace()));
    let namespaces: BTreeSet<String> = namespaces.collect();
    let reviews = namespaces.iter().map(async |namespace| {
        let access_request = AccessRequest::create(CHANGES, Some(namespace));
        viewer.caller.may_see(&access_request).await
    });
    Ok(try_join_all(reviews).await?.contains(&true))
}
