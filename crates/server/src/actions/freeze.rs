//! Stops and resumes promotions with a Freeze, for a person.
//!
//! Creating and deleting need the verb `freeze` on `pipelines` in the namespace of the Freeze, as the
//! admission policy demands of kubectl.

use api::{
    Freeze, Time,
    freeze::{AllowedPromotion, FreezeSpec},
    names::{AUTHOR_ANNOTATION, STOP_LABEL, stop_name},
};
use http::StatusCode;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use runtime::ObjectKey;
use serde::Deserialize;
use serde_json::json;

use super::recorded_name;
use crate::{
    AppState, FIELD_MANAGER,
    access::{AccessRequest, Caller},
    problem::Problem,
};

/// What to stop.
#[derive(Deserialize, Default, Clone)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct FreezeBody {
    /// The pipeline; without it all of the namespace.
    pub(crate) pipeline: Option<String>,
    /// The environments; without any all.
    #[serde(default)]
    pub(crate) environments: Vec<String>,
    /// Why.
    #[serde(default)]
    pub(crate) reason: String,
    /// When it ends; without it when it is deleted.
    pub(crate) until: Option<Time>,
    /// What passes nevertheless; rollbacks without it.
    pub(crate) allow: Option<Vec<AllowedPromotion>>,
}

/// Creates the Freeze that stops a pipeline or a namespace, or updates the one there is.
pub(crate) async fn freeze(
    app_state: &AppState,
    caller: &Caller,
    namespace: &str,
    body: &FreezeBody,
) -> Result<Freeze, Problem> {
    caller.authorize(AccessRequest::freeze(namespace)).await?;
    let by = recorded_name(caller)?;
    check_environments(app_state, namespace, body).await?;
    let now = app_state.clock.now();
    if body.until.as_ref().is_some_and(|until| until.0 <= now) {
        return Err(Problem::unprocessable("`until` is in the past"));
    }
    let freeze = new_freeze(namespace, body, by)?;
    let stored = create_or_update(app_state, &freeze).await?;
    let key = ObjectKey::of(&stored.metadata);
    tracing::info!(freeze = %key, by, reason = stored.spec.reason, "stored a Freeze");
    app_state.objects.wrote_freeze(stored.clone());
    Ok(stored)
}

/// Fails if the pipeline does not have one of the environments or, without a pipeline, if none that the Freeze covers
/// has: it would stop nothing.
async fn check_environments(
    app_state: &AppState,
    namespace: &str,
    body: &FreezeBody,
) -> Result<(), Problem> {
    let Some(pipeline) = &body.pipeline else {
        let covers_all = app_state.settings.freeze_namespace.as_deref() == Some(namespace);
        let all = app_state.objects.pipelines().all();
        let covered = all
            .iter()
            .map(|pipeline| &**pipeline)
            .filter(|it| covers_all || it.metadata.namespace.as_deref() == Some(namespace));
        return match planner::unknown_environment(&body.environments, covered) {
            Some(name) => Err(Problem::not_found(&format!(
                "a pipeline with an environment {name}"
            ))),
            None => Ok(()),
        };
    };
    let key = ObjectKey::new(namespace, pipeline);
    let pipeline = app_state.stored_pipeline(&key).await?;
    match planner::unknown_environment(&body.environments, [&pipeline]) {
        Some(name) => Err(Problem::not_found(&format!(
            "the environment {name} of {key}"
        ))),
        None => Ok(()),
    }
}

fn new_freeze(namespace: &str, body: &FreezeBody, by: &str) -> Result<Freeze, Problem> {
    let reason = match body.reason.trim() {
        "" => format!("stopped by {by}"),
        reason => reason.to_owned(),
    };
    if reason.chars().count() > 512 {
        return Err(Problem::unprocessable(
            "a reason has at most 512 characters",
        ));
    }
    let spec = FreezeSpec {
        reason,
        pipelines: body.pipeline.iter().cloned().collect(),
        environments: body.environments.clone(),
        not_after: body.until.clone(),
        allow: body.allow.clone(),
        ..FreezeSpec::default()
    };
    let name = stop_name(body.pipeline.as_deref(), &body.environments);
    let mut freeze = Freeze::new(&name, spec);
    freeze.metadata.namespace = Some(namespace.to_owned());
    let label = (STOP_LABEL.to_owned(), "true".to_owned());
    freeze.metadata.labels = Some([label].into());
    let author = (AUTHOR_ANNOTATION.to_owned(), by.to_owned());
    freeze.metadata.annotations = Some([author].into());
    Ok(freeze)
}

async fn create_or_update(app_state: &AppState, freeze: &Freeze) -> Result<Freeze, Problem> {
    let key = ObjectKey::of(&freeze.metadata);
    let freezes: Api<Freeze> = Api::namespaced(app_state.client.clone(), &key.namespace);
    let parameters = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    match freezes.create(&parameters, freeze).await {
        Err(kube::Error::Api(refusal)) if refusal.is_already_exists() => {}
        created => return Ok(created?),
    }
    let before = freezes.get(&key.name).await?;
    if planner::weakens_freeze(&before.spec, &freeze.spec) {
        let detail = format!(
            "the freeze {} is stricter ({}); end that first",
            key.name, before.spec.reason
        );
        return Err(Problem::new(StatusCode::CONFLICT, detail));
    }
    // Of the existing one nothing else can differ: its name is made from the rest.
    let spec = &freeze.spec;
    let spec = json!({"reason": spec.reason, "notAfter": spec.not_after, "allow": spec.allow});
    let metadata = json!({"annotations": freeze.metadata.annotations});
    let patch = Patch::Merge(json!({"metadata": metadata, "spec": spec}));
    let parameters = PatchParams::apply(FIELD_MANAGER);
    Ok(freezes.patch(&key.name, &parameters, &patch).await?)
}

/// Deletes a Freeze.
pub(crate) async fn thaw(
    app_state: &AppState,
    caller: &Caller,
    key: &ObjectKey,
) -> Result<(), Problem> {
    caller
        .authorize(AccessRequest::freeze(&key.namespace))
        .await?;
    let freezes: Api<Freeze> = Api::namespaced(app_state.client.clone(), &key.namespace);
    match freezes.delete(&key.name, &DeleteParams::default()).await {
        Ok(_) => {}
        Err(kube::Error::Api(refusal)) if refusal.code == StatusCode::NOT_FOUND.as_u16() => {
            return Err(Problem::not_found(&format!("the Freeze {key}")));
        }
        Err(error) => return Err(error.into()),
    }
    app_state.objects.deleted_freeze(key);
    tracing::info!(freeze = %key, by = caller.name(), "deleted a Freeze");
    Ok(())
}
