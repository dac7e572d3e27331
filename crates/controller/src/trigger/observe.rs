//! What a trigger's plan is made from: mostly what the watches have shown.

use std::sync::Arc;

use api::PipelineTrigger;
use jiff::Timestamp;
use kube::{
    Api,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use planner::trigger::{
    Credential, CredentialState, PipelineState, Run, Seen, SourceState, Version, pipeline_needed,
};
use serde_json::Value;

use super::{
    CALL_LIMIT, Context, Error,
    act::{Failure, bounded},
    version,
    world::{Key, Served, Watched},
};

/// What was seen, owned.
pub(super) struct Observed {
    is_served: bool,
    source: Option<Arc<Value>>,
    tekton: Option<Version>,
    pipeline: PipelineState,
    credential: CredentialState,
    runs: Vec<Run>,
}

impl Observed {
    pub(super) fn seen<'a>(&'a self, trigger: &'a PipelineTrigger, now: Timestamp) -> Seen<'a> {
        Seen {
            trigger,
            source: match &self.source {
                Some(object) => SourceState::Found(object),
                None if self.is_served => SourceState::Missing,
                None => SourceState::NotServed,
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
pub(super) async fn everything(context: &Context, trigger: &PipelineTrigger) -> Option<Observed> {
    let world = &context.world;
    let key = Key::of(trigger);
    let kind = trigger.spec.source.kind;
    let is_served = is_served(&world.served(Watched::Source(kind)))?;
    let tekton = match world.served(Watched::Runs) {
        Served::NotYetKnown => return None,
        Served::No => None,
        Served::Yes(resource) => Version::named(&resource.version),
    };
    let pipeline = pipeline(context, trigger, &key)?;
    let source = Key::new(&key.namespace, &trigger.spec.source.name);
    Some(Observed {
        is_served,
        source: world.source(kind, source),
        tekton,
        pipeline,
        credential: credential(context, trigger, &key).await,
        runs: world.runs(&key, trigger.metadata.uid.as_ref()),
    })
}

/// The trigger itself, from the server instead of the watch, which may lag behind what we wrote.
pub(super) async fn again(
    context: &Context,
    trigger: &PipelineTrigger,
) -> Result<Arc<PipelineTrigger>, Error> {
    let key = Key::of(trigger);
    let api: Api<PipelineTrigger> = Api::namespaced(context.client.clone(), &key.namespace);
    match bounded(context, "GET", api.get(&key.name)).await {
        Ok(trigger) => {
            context.certain.lock().insert(key, version(&trigger));
            Ok(Arc::new(trigger))
        }
        Err(Failure::Api(error)) => Err(Error::Observe(error)),
        Err(Failure::Slow) => Err(Error::Slow),
    }
}

fn is_served(served: &Served) -> Option<bool> {
    match served {
        Served::NotYetKnown => None,
        Served::No => Some(false),
        Served::Yes(_) => Some(true),
    }
}

fn pipeline(context: &Context, trigger: &PipelineTrigger, key: &Key) -> Option<PipelineState> {
    let Some(name) = pipeline_needed(trigger) else {
        return Some(PipelineState::NotNeeded);
    };
    is_served(&context.world.served(Watched::Pipelines))?;
    let found = context.world.pipeline(&Key::new(&key.namespace, &name));
    Some(match found {
        Some(types) => PipelineState::Found(types),
        None => PipelineState::Missing { name },
    })
}

/// Read each time: few triggers have one, and it may be in any namespace.
async fn credential(context: &Context, trigger: &PipelineTrigger, key: &Key) -> CredentialState {
    let Some(reference) = trigger.spec.credentials() else {
        return CredentialState::NotNeeded;
    };
    let kind = GroupVersionKind::gvk("credentials.jquad.rocks", "v1alpha1", "ManagedCredential");
    let resource = ApiResource::from_gvk_with_plural(&kind, "managedcredentials");
    let namespace = reference.namespace.as_deref().unwrap_or(&key.namespace);
    let api: Api<DynamicObject> =
        Api::namespaced_with(context.client.clone(), namespace, &resource);
    let name = |object: &DynamicObject, field: &str| {
        let name = object.data["status"][field]["name"].as_str();
        name.filter(|name| !name.is_empty()).map(str::to_owned)
    };
    match tokio::time::timeout(CALL_LIMIT, api.get(&reference.name)).await {
        Ok(Ok(object)) => CredentialState::Found(Credential {
            service_account: name(&object, "serviceAccountRef"),
            secret: name(&object, "secretRef"),
        }),
        Ok(Err(error)) => CredentialState::Missing {
            because: super::act::sentence(&error),
        },
        Err(_) => CredentialState::Missing {
            because: super::Error::Slow.to_string(),
        },
    }
}
