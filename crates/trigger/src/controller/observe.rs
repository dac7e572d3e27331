//! Gathers what a plan is made from, mostly from caches.

use std::sync::Arc;

use api::PipelineTrigger;
use jiff::Timestamp;
use kube::{
    Api,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use runtime::ObjectKey;
use serde_json::Value;

use super::{
    api_call::with_timeout,
    dependency_cache::{DependencyCache, KindAvailability, WatchedKind},
    reconciler::{ReconcileError, TriggerReconciler},
};
use crate::plan::{
    CredentialState, ObservedRun, ObservedTrigger, PipelineState, RunCredential, SourceState,
    TektonVersion, pipeline_needed,
};

/// The objects that a trigger refers to, and its runs.
pub(super) struct ObservedObjects {
    /// The API server's message if a kind that is needed may not be listed.
    forbidden: Option<String>,
    is_source_kind_served: bool,
    source: Option<Arc<Value>>,
    tekton: Option<TektonVersion>,
    pipeline: PipelineState,
    credential: CredentialState,
    runs: Vec<ObservedRun>,
}

impl ObservedObjects {
    /// Together with the trigger itself.
    pub(super) fn of_trigger<'a>(
        &'a self,
        trigger: &'a PipelineTrigger,
        now: Timestamp,
    ) -> ObservedTrigger<'a> {
        ObservedTrigger {
            trigger,
            source: match (&self.forbidden, &self.source) {
                (Some(because), _) => SourceState::Forbidden(because),
                (None, Some(object)) => SourceState::Found(object),
                (None, None) if self.is_source_kind_served => SourceState::Missing,
                (None, None) => SourceState::NotServed,
            },
            tekton: self.tekton,
            pipeline: self.pipeline.clone(),
            credential: self.credential.clone(),
            runs: &self.runs,
            now,
        }
    }
}

/// `None` while a kind that the trigger needs has not been listed yet; it is enqueued when that is done.
pub(super) async fn observe(
    reconciler: &TriggerReconciler,
    trigger: &PipelineTrigger,
) -> Option<ObservedObjects> {
    let cache = &*reconciler.dependencies;
    let key = ObjectKey::of(&trigger.metadata);
    let kind = trigger.spec.source.kind;
    let source_kind = cache.availability(WatchedKind::Source(kind));
    let run_kind = cache.availability(WatchedKind::Runs);
    let is_source_kind_served = source_kind.is_served()?;
    run_kind.is_served()?;
    let tekton = match &run_kind {
        KindAvailability::Served(resource) => TektonVersion::named(&resource.version),
        _ => None,
    };
    let pipeline = observe_pipeline(cache, trigger, &key)?;
    let pipeline_kind =
        (pipeline != PipelineState::NotNeeded).then(|| cache.availability(WatchedKind::Pipelines));
    let source = ObjectKey::new(&key.namespace, &trigger.spec.source.name);
    Some(ObservedObjects {
        forbidden: [Some(source_kind), Some(run_kind), pipeline_kind]
            .into_iter()
            .flatten()
            .find_map(KindAvailability::forbidden_message),
        is_source_kind_served,
        source: cache.source(kind, source),
        tekton,
        pipeline,
        credential: read_credential(reconciler, trigger, &key).await,
        runs: cache.runs(&key, trigger.metadata.uid.as_ref()),
    })
}

/// Reads the trigger from the API server, because the watch may lag behind our own writes.
pub(super) async fn read_trigger(
    reconciler: &TriggerReconciler,
    trigger: &PipelineTrigger,
) -> Result<Arc<PipelineTrigger>, ReconcileError> {
    let key = ObjectKey::of(&trigger.metadata);
    let api: Api<PipelineTrigger> = Api::namespaced(reconciler.client.clone(), &key.namespace);
    let trigger = with_timeout(api.get(&key.name)).await;
    let trigger = trigger.map_err(ReconcileError::ReadTrigger)?;
    reconciler.confirm(&trigger);
    Ok(Arc::new(trigger))
}

fn observe_pipeline(
    cache: &DependencyCache,
    trigger: &PipelineTrigger,
    key: &ObjectKey,
) -> Option<PipelineState> {
    let Some(name) = pipeline_needed(trigger) else {
        return Some(PipelineState::NotNeeded);
    };
    cache.availability(WatchedKind::Pipelines).is_served()?;
    let types = cache.pipeline(&ObjectKey::new(&key.namespace, &name));
    Some(types.map_or(PipelineState::Missing { name }, PipelineState::Found))
}

/// Read at each reconcile instead of watched: few triggers name one, and it may be in any namespace.
async fn read_credential(
    reconciler: &TriggerReconciler,
    trigger: &PipelineTrigger,
    key: &ObjectKey,
) -> CredentialState {
    let Some(reference) = trigger.spec.credentials() else {
        return CredentialState::NotNeeded;
    };
    let kind = GroupVersionKind::gvk("credentials.jquad.rocks", "v1alpha1", "ManagedCredential");
    let resource = ApiResource::from_gvk_with_plural(&kind, "managedcredentials");
    let namespace = reference.namespace.as_deref().unwrap_or(&key.namespace);
    let api: Api<DynamicObject> =
        Api::namespaced_with(reconciler.client.clone(), namespace, &resource);
    let name = |object: &DynamicObject, field: &str| {
        let name = object.data["status"][field]["name"].as_str();
        name.filter(|name| !name.is_empty()).map(str::to_owned)
    };
    match with_timeout(api.get(&reference.name)).await {
        Ok(object) => CredentialState::Found(RunCredential {
            service_account: name(&object, "serviceAccountRef"),
            secret: name(&object, "secretRef"),
        }),
        Err(error) => CredentialState::Missing {
            because: error.to_string(),
        },
    }
}
