//! A new pipeline: a form that shows the manifest as one types, and proposes it in git.
//!
//! Works without script: every button sends the form, and what was typed comes back with the page.
//! With script the manifest and what is wrong with it follow every key.

mod draft;
mod form;
mod manifest;

use std::{collections::BTreeSet, sync::Arc};

use api::{Change, GitopsCluster, Pipeline, change::ChangeSpec};
use axum::{
    Form, Json,
    extract::State,
    response::{IntoResponse, Redirect, Response},
};
use futures::future::try_join_all;
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::{
    Failure, changes,
    html::Html,
    layout::{self, Tab},
    sign_in::Viewer,
};
use crate::{
    Door,
    rest::{
        Problem,
        access::{CHANGES, CLUSTERS, PIPELINES, Wish},
        changes::{Wanted, propose},
    },
    watched::ObjectKey,
};
use draft::{Draft, Sent, Step};
use form::View;
use manifest::Problems;

/// The fields of a form in the order they came.
type Fields = Form<Vec<(String, String)>>;

pub(super) async fn form(
    State(door): State<Arc<Door>>,
    viewer: Viewer,
) -> Result<Response, Failure> {
    let namespace_of = |it: &Arc<Pipeline>| it.namespace().unwrap_or_default();
    let known = door.watched.pipelines();
    let known = viewer
        .caller
        .visible(PIPELINES, known, namespace_of)
        .await?;
    let known: BTreeSet<String> = known.iter().map(namespace_of).collect();
    // Where all of somebody's pipelines are, the next one is likely to be.
    let likely = known.first().filter(|_| known.len() == 1);
    let draft = Draft {
        namespace: likely.cloned().unwrap_or_default(),
        ..Draft::new()
    };
    show(&door, &viewer, &draft, (Problems::new(), None)).await
}

pub(super) async fn submit(
    State(door): State<Arc<Door>>,
    viewer: Viewer,
    Form(fields): Fields,
) -> Result<Response, Failure> {
    let Sent {
        csrf,
        step,
        mut draft,
    } = Sent::read(fields);
    viewer.must_have_given(&csrf)?;
    draft.take(step);
    let is_whole = matches!(step, Step::Preview | Step::Propose);
    let problems = problems(&door, &viewer, &draft, is_whole).await?;
    if step != Step::Propose || !problems.is_empty() {
        return show(&door, &viewer, &draft, (problems, None)).await;
    }
    let wanted = Wanted {
        path: path(&door, &draft),
        content: draft.yaml(),
        title: format!("Add pipeline {}/{}", draft.namespace, draft.name),
    };
    match propose(&door, &viewer.caller, &draft.namespace, wanted).await {
        Ok(change) => {
            let address = changes::address(&ObjectKey::of(&change));
            Ok(Redirect::to(&address).into_response())
        }
        Err(problem) => {
            let sentence = problem.parts().1.to_owned();
            show(&door, &viewer, &draft, (problems, Some(sentence))).await
        }
    }
}

/// The parts of the form that follow what is typed.
pub(super) async fn preview(
    State(door): State<Arc<Door>>,
    viewer: Viewer,
    Form(fields): Fields,
) -> Result<Json<Value>, Failure> {
    let sent = Sent::read(fields);
    viewer.must_have_given(&sent.csrf)?;
    let problems = problems(&door, &viewer, &sent.draft, false).await?;
    let view = view(&door, &viewer, &sent.draft, (problems, None)).await?;
    let parts = view.parts().into_iter();
    let set: Map<String, Value> = parts
        .map(|(id, element)| (id, json!(Html::from(element).as_str())))
        .collect();
    Ok(Json(json!({"set": set})))
}

async fn show(
    door: &Arc<Door>,
    viewer: &Viewer,
    draft: &Draft,
    said: (Problems, Option<String>),
) -> Result<Response, Failure> {
    let view = view(door, viewer, draft, said).await?;
    Ok(layout::plain("Create a pipeline", viewer, Tab::Pipelines, view.page()).into_response())
}

async fn view<'a>(
    door: &'a Arc<Door>,
    viewer: &'a Viewer,
    draft: &'a Draft,
    (problems, refusal): (Problems, Option<String>),
) -> Result<View<'a>, Problem> {
    let namespace_of = |it: &Arc<GitopsCluster>| it.namespace().unwrap_or_default();
    let clusters = viewer
        .caller
        .visible(CLUSTERS, door.watched.clusters(), namespace_of)
        .await?;
    let named = |it: &Arc<GitopsCluster>| match namespace_of(it) {
        own if own == draft.namespace => it.name_any(),
        other => format!("{other}/{}", it.name_any()),
    };
    Ok(View {
        draft,
        problems,
        refusal,
        csrf: &viewer.session.csrf,
        path: path(door, draft),
        authoring: door.settings.authoring.as_ref(),
        clusters: clusters.iter().map(named).collect(),
    })
}

/// Where the manifest goes: where somebody said, else where it fits.
fn path(door: &Door, draft: &Draft) -> String {
    if !draft.path.is_empty() {
        return draft.path.clone();
    }
    let authoring = door.settings.authoring.as_ref();
    let folders = authoring
        .map(|it| it.folders.as_slice())
        .unwrap_or_default();
    let named = |text: &str, instead: &str| match text {
        "" => instead.to_owned(),
        text => text.to_owned(),
    };
    let (namespace, name) = (
        named(&draft.namespace, "namespace"),
        named(&draft.name, "name"),
    );
    planner::change::suggested_path(folders, &namespace, &name)
}

/// What is wrong with a draft. What is not there yet counts only once it is taken to be whole.
async fn problems(
    door: &Arc<Door>,
    viewer: &Viewer,
    draft: &Draft,
    is_whole: bool,
) -> Result<Problems, Problem> {
    let mut problems = draft.problems(is_whole);
    let key = ObjectKey::new(&draft.namespace, &draft.name);
    let may_know = viewer.caller.may_see(&Wish::new("get", &key)).await?;
    if may_know && door.watched.known(&key).is_some() {
        let sentence = "there is a pipeline of that name in the namespace already";
        problems.insert("name".to_owned(), sentence.to_owned());
    }
    if let Some(authoring) = &door.settings.authoring {
        let mut change = Change::new("", ChangeSpec::default());
        change.metadata.namespace = Some(draft.namespace.clone());
        change.spec.path = path(door, draft);
        let refusal = planner::change::refuse(&change, Some(&authoring.folders));
        if let Some(refusal) = refusal.filter(|_| is_whole || !draft.path.is_empty()) {
            problems.insert("path".to_owned(), refusal.message);
        }
    }
    Ok(problems)
}

/// Whether somebody may propose files in some namespace: everywhere, or where something is that they
/// might know.
pub(super) async fn is_for(door: &Arc<Door>, viewer: &Viewer) -> Result<bool, Problem> {
    let everywhere = Wish::create(CHANGES, door.settings.namespace.as_deref());
    if viewer.caller.may_see(&everywhere).await? {
        return Ok(true);
    }
    let pipelines = door.watched.pipelines();
    let clusters = door.watched.clusters();
    let namespaces = pipelines.iter().filter_map(|it| it.namespace());
    let namespaces = namespaces.chain(clusters.iter().filter_map(|it| it.namespace()));
    let namespaces: BTreeSet<String> = namespaces.collect();
    let asked = namespaces.iter().map(async |namespace| {
        let wish = Wish::create(CHANGES, Some(namespace));
        viewer.caller.may_see(&wish).await
    });
    Ok(try_join_all(asked).await?.contains(&true))
}
