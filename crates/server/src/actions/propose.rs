//! Proposes a file in git by creating a Change, which the controller carries out.

use api::{
    Change,
    change::ChangeSpec,
    names::{change_name, is_dns_label, slug},
};
use http::StatusCode;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
};
use runtime::ObjectKey;
use serde::Deserialize;

use super::recorded_name;
use crate::{
    AppState, FIELD_MANAGER,
    access::{AccessRequest, CHANGES, Caller},
    get_object::get_object,
    problem::Problem,
};

/// How often a finished Change of the same name is deleted before giving up.
const MAX_ATTEMPTS: usize = 3;

/// A file to propose in git.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProposedFile {
    pub(crate) path: String,
    pub(crate) content: String,
    pub(crate) title: String,
}

/// A Change as the API server has it.
pub(crate) async fn stored_change(
    app_state: &AppState,
    key: &ObjectKey,
) -> Result<Change, Problem> {
    let found: Option<Change> = get_object(&app_state.client, key).await?;
    found.ok_or_else(|| Problem::not_found(&format!("the change {key}")))
}

/// Stores a Change for the file. The same file gives the same Change; one that has ended is replaced.
pub(crate) async fn propose(
    app_state: &AppState,
    caller: &Caller,
    namespace: &str,
    file: ProposedFile,
) -> Result<Change, Problem> {
    if !is_dns_label(namespace) {
        return Err(Problem::not_found("a namespace of that name"));
    }
    let access = AccessRequest::create(CHANGES, Some(namespace));
    caller.authorize(access).await?;
    let change = new_change(recorded_name(caller)?, namespace, file);
    check_acceptable(app_state, &change)?;
    let created = create_or_replace(app_state, &change).await?;
    let key = ObjectKey::of(&created.metadata);
    tracing::info!(change = %key, by = caller.name(), path = created.spec.path, "stored a Change");
    Ok(created)
}

/// Fails if the controller would not carry the Change out.
fn check_acceptable(app_state: &AppState, change: &Change) -> Result<(), Problem> {
    let watched = app_state.settings.namespace.as_ref();
    if let Some(watched) = watched.filter(|it| change.namespace().as_ref() != Some(it)) {
        let detail = format!("this Sluice watches only namespace {watched}");
        return Err(Problem::unprocessable(detail));
    }
    let authoring = app_state.settings.authoring.as_ref();
    let folders = authoring.map(|to| to.folders.as_slice());
    match planner::change::refuse(change, folders) {
        None => Ok(()),
        Some(refusal) if refusal.reason == planner::change::NOT_CONFIGURED => {
            Err(Problem::new(StatusCode::CONFLICT, refusal.message))
        }
        Some(refusal) => Err(Problem::unprocessable(refusal.message)),
    }
}

fn new_change(by: &str, namespace: &str, file: ProposedFile) -> Change {
    let file_name = file.path.rsplit('/').next().unwrap_or_default();
    let readable = slug(file_name.split('.').next().unwrap_or_default(), 45, "file");
    let name = change_name(&readable, &file.path, &file.content);
    let spec = ChangeSpec {
        path: file.path,
        content: file.content,
        title: file.title,
        by: Some(by.to_owned()),
    };
    let mut change = Change::new(&name, spec);
    change.metadata.namespace = Some(namespace.to_owned());
    change
}

async fn create_or_replace(app_state: &AppState, change: &Change) -> Result<Change, Problem> {
    let key = ObjectKey::of(&change.metadata);
    let changes: Api<Change> = Api::namespaced(app_state.client.clone(), &key.namespace);
    let parameters = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    for _ in 0..MAX_ATTEMPTS {
        match changes.create(&parameters, change).await {
            Ok(created) => {
                app_state.objects.wrote_change(created.clone());
                return Ok(created);
            }
            Err(kube::Error::Api(refusal)) if refusal.is_already_exists() => {}
            Err(error) => return Err(error.into()),
        }
        let Some(existing) = changes.get_opt(&key.name).await? else {
            continue;
        };
        let phase = existing.status.as_ref().and_then(|status| status.phase);
        if !phase.is_some_and(|phase| phase.is_over()) {
            return Ok(existing);
        }
        delete_exactly(&changes, &existing).await?;
    }
    let detail = format!("another client is writing the change {key}; try again");
    Err(Problem::new(StatusCode::CONFLICT, detail))
}

/// Deletes a Change unless it has changed since it was read.
async fn delete_exactly(changes: &Api<Change>, change: &Change) -> Result<(), kube::Error> {
    let parameters = DeleteParams {
        preconditions: Some(Preconditions {
            uid: change.uid(),
            resource_version: change.resource_version(),
        }),
        ..DeleteParams::default()
    };
    match changes.delete(&change.name_any(), &parameters).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(refusal)) if matches!(refusal.code, 404 | 409) => Ok(()),
        Err(error) => Err(error),
    }
}
