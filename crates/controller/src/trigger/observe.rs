//! What a trigger's plan is made from: mostly what the watches have shown.

use std::sync::Arc;

use ::trigger::plan::{
    CredentialState, ObservedRun, ObservedTrigger, PipelineState, RunCredential, SourceState,
    TektonVersion, pipeline_needed,
};
use api::PipelineTrigger;
use jiff::Timestamp;
use kube::{
    Api,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::Value;

use super::{
    Error, Shared,
    act::{Failure, bounded},
    world::{Served, Watched},
};
use runtime::ObjectKey;

/// What was seen, owned.
pub(super) struct Observed {
    /// What the server said when something was asked for that we may not see.
    forbidden: Option<String>,
    is_served: bool,
    source: Option<Arc<Value>>,
    tekton: Option<TektonVersion>,
    pipeline: PipelineState,
    credential: CredentialState,
    runs: Vec<ObservedRun>,
}

impl Observed {
    pub(super) fn seen<'a>(
        &'a self,
        trigger: &'a PipelineTrigger,
        now: Timestamp,
    ) -> ObservedTrigger<'a> {
        ObservedTrigger {
            trigger,
            source: match (&self.forbidden, &self.source) {
                (Some(because), _) => SourceState::Forbidden(because),
                (None, Some(object)) => SourceState::Found(object),
                (None, None) if self.is_served => SourceState::Missing,
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

/// Nothing while a kind that matters has not been listed yet; the trigger is woken when it is.
pub(super) async fn everything(shared: &Shared, trigger: &PipelineTrigger) -> Option<Observed> {
    let world = &shared.world;
    let key = ObjectKey::of(&trigger.metadata);
    let kind = trigger.spec.source.kind;
    let (sources, runs) = (Watched::Source(kind), Watched::Runs);
    let is_served = is_served(&world.served(sources))?;
    let tekton = match world.served(runs) {
        Served::NotYetKnown => return None,
        Served::No | Served::Forbidden(_) => None,
        Served::Yes(resource) => TektonVersion::named(&resource.version),
    };
    let pipeline = pipeline(shared, trigger, &key)?;
    let source = ObjectKey::new(&key.namespace, &trigger.spec.source.name);
    let needed = [sources, runs, Watched::Pipelines].into_iter();
    let needed = needed.take(if pipeline == PipelineState::NotNeeded {
        2
    } else {
        3
    });
    Some(Observed {
        forbidden: needed
            .filter_map(|kind| world.served(kind).refusal())
            .next(),
        is_served,
        source: world.source(kind, source),
        tekton,
        pipeline,
        credential: credential(shared, trigger, &key).await,
        runs: world.runs(&key, trigger.metadata.uid.as_ref()),
    })
}

/// The trigger itself, from the server instead of the watch, which may lag behind what we wrote.
pub(super) async fn again(
    shared: &Shared,
    trigger: &PipelineTrigger,
) -> Result<Arc<PipelineTrigger>, Error> {
    let key = ObjectKey::of(&trigger.metadata);
    let api: Api<PipelineTrigger> = Api::namespaced(shared.client.clone(), &key.namespace);
    match bounded(api.get(&key.name)).await {
        Ok(trigger) => Ok(shared.confirm(trigger)),
        Err(Failure::Api(error)) => Err(Error::Observe(error)),
        Err(Failure::Slow) => Err(Error::Slow),
    }
}

fn is_served(served: &Served) -> Option<bool> {
    match served {
        Served::NotYetKnown => None,
        Served::No | Served::Forbidden(_) => Some(false),
        Served::Yes(_) => Some(true),
    }
}

fn pipeline(shared: &Shared, trigger: &PipelineTrigger, key: &ObjectKey) -> Option<PipelineState> {
    let Some(name) = pipeline_needed(trigger) else {
        return Some(PipelineState::NotNeeded);
    };
    is_served(&shared.world.served(Watched::Pipelines))?;
    let found = shared
        .world
        .pipeline(&ObjectKey::new(&key.namespace, &name));
    Some(match found {
        Some(types) => PipelineState::Found(types),
        None => PipelineState::Missing { name },
    })
}

/// Read each time: few triggers have one, and it may be in any namespace.
async fn credential(
    shared: &Shared,
    trigger: &PipelineTrigger,
    key: &ObjectKey,
) -> CredentialState {
    let Some(reference) = trigger.spec.credentials() else {
        return CredentialState::NotNeeded;
    };
    let kind = GroupVersionKind::gvk("credentials.jquad.rocks", "v1alpha1", "ManagedCredential");
    let resource = ApiResource::from_gvk_with_plural(&kind, "managedcredentials");
    let namespace = reference.namespace.as_deref().unwrap_or(&key.namespace);
    let api: Api<DynamicObject> = Api::namespaced_with(shared.client.clone(), namespace, &resource);
    let name = |object: &DynamicObject, field: &str| {
        let name = object.data["status"][field]["name"].as_str();
        name.filter(|name| !name.is_empty()).map(str::to_owned)
    };
    match bounded(api.get(&reference.name)).await {
        Ok(object) => CredentialState::Found(RunCredential {
            service_account: name(&object, "serviceAccountRef"),
            secret: name(&object, "secretRef"),
        }),
        Err(failure) => CredentialState::Missing {
            because: failure.sentence(),
        },
    }
}
