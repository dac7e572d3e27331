//! Lists what can start a change in a pipeline: its source and hooks, Flux's image automation, and
//! PipelineTriggers.
//!
//! Only what the objects themselves show is listed, not what else may write to git.

use api::{
    Pipeline, PipelineTrigger, flux,
    image::Image,
    names,
    pipeline::{Source, SourceKind},
    third_party,
};
use serde::Serialize;
use serde_json::Value;

type ImagePolicy = third_party::Object<flux::ImagePolicySpec, flux::ImagePolicyStatus>;

/// The objects that may trigger a pipeline.
#[derive(Clone, Debug, Default)]
pub struct TriggerObjects {
    /// The PipelineTriggers in its namespace.
    pub triggers: Vec<PipelineTrigger>,
    /// Flux's ImagePolicies, of any namespace.
    pub image_policies: Vec<Value>,
    /// Flux's ImageUpdateAutomations, of any namespace.
    pub image_automations: Vec<Value>,
}

/// An object or hook that triggers a pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedTrigger {
    /// The kind of object; `Hook` for a path that accepts signed requests.
    pub kind: String,
    /// The object's namespace; hooks have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The object's name, or the hook's path.
    pub name: String,
    /// What it does, as a clause without a subject.
    pub effect: String,
}

/// What triggers a pipeline, its own source first.
pub fn triggers_of(pipeline: &Pipeline, objects: &TriggerObjects) -> Vec<ListedTrigger> {
    let mut list = Vec::from_iter(source_of(pipeline));
    let policies = policies_of(pipeline, objects);
    list.extend(objects.image_automations.iter().filter_map(|automation| {
        let used = policies.iter().filter(|policy| uses(automation, policy));
        let used: Vec<&str> = used.map(|policy| name_of(policy)).collect();
        let effect = format!("writes to git what {} chooses", used.join(", "));
        (!used.is_empty()).then(|| object("ImageUpdateAutomation", automation, effect))
    }));
    list.extend(policies.into_iter().filter_map(|policy| {
        let image = selected_image(policy)?;
        let (name, version) = (image.name(), image.version());
        let effect = format!("chooses {name} {version}, an image of the pipeline");
        Some(object("ImagePolicy", policy, effect))
    }));
    list.extend(pipeline_triggers(pipeline, &objects.triggers));
    list.extend(hooks(pipeline));
    list
}

/// The pipeline's source.
fn source_of(pipeline: &Pipeline) -> Option<ListedTrigger> {
    let source = pipeline.spec.source.as_ref()?;
    let effect = "proposes revisions to the first environment".to_owned();
    if source.kind == SourceKind::Hook {
        let path = format!("/release/{}", path_of(pipeline));
        return Some(hook(path, effect));
    }
    Some(ListedTrigger {
        kind: format!("{:?}", source.kind),
        namespace: pipeline.metadata.namespace.clone(),
        name: source.name.clone().unwrap_or_default(),
        effect,
    })
}

/// The hooks that accept reports of deployments.
fn hooks(pipeline: &Pipeline) -> impl Iterator<Item = ListedTrigger> {
    let environments = pipeline.spec.environments.iter();
    environments.map(|environment| {
        let name = &environment.name;
        let path = format!("/promotion/{}/{name}", path_of(pipeline));
        hook(path, format!("takes reports of what runs in {name}"))
    })
}

fn hook(path: String, effect: String) -> ListedTrigger {
    ListedTrigger {
        kind: "Hook".to_owned(),
        namespace: None,
        name: path,
        effect,
    }
}

fn path_of(pipeline: &Pipeline) -> String {
    let metadata = &pipeline.metadata;
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    format!("{}/{}", text(&metadata.namespace), text(&metadata.name))
}

/// The policies that select an image which the pipeline tracks or its apps run.
fn policies_of<'a>(pipeline: &Pipeline, objects: &'a TriggerObjects) -> Vec<&'a Value> {
    let images = images_of(pipeline);
    let source = pipeline.spec.source.as_ref();
    let is_source = |policy: &Value| {
        let source = source.filter(|source| source.kind == SourceKind::ImagePolicy);
        namespace_of(policy) == pipeline.metadata.namespace.as_deref()
            && source.is_some_and(|source| source.name.as_deref() == Some(name_of(policy)))
    };
    let concerns = |policy: &&Value| {
        let image = selected_image(policy);
        !is_source(policy) && image.is_some_and(|image| images.iter().any(|name| image.is(name)))
    };
    objects.image_policies.iter().filter(concerns).collect()
}

/// The names of the images that a pipeline tracks or its apps run.
fn images_of(pipeline: &Pipeline) -> Vec<String> {
    let tracked = pipeline.spec.track.iter().map(|track| track.image.clone());
    let environments = pipeline.status.iter().flat_map(|s| s.environments.values());
    let targets = environments.flat_map(|environment| &environment.targets);
    let apps = targets.flat_map(|target| &target.apps);
    let images = apps.flat_map(|app| &app.images);
    let running = images.filter_map(|image| Some(Image::parse(image)?.name().to_owned()));
    tracked.chain(running).collect()
}

fn selected_image(policy: &Value) -> Option<Image> {
    third_party::read::<ImagePolicy>(policy).status.latest()
}

/// An automation uses policies of its namespace; its status lists which.
fn uses(automation: &Value, policy: &Value) -> bool {
    let observed = automation.pointer("/status/observedPolicies");
    let observed = observed.and_then(Value::as_object);
    namespace_of(automation) == namespace_of(policy)
        && observed.is_none_or(|observed| observed.contains_key(name_of(policy)))
}

/// The PipelineTriggers in the pipeline's namespace that have its label or follow its source.
fn pipeline_triggers(
    pipeline: &Pipeline,
    triggers: &[PipelineTrigger],
) -> impl Iterator<Item = ListedTrigger> {
    let name = pipeline.metadata.name.as_deref().unwrap_or_default();
    let source = pipeline.spec.source.as_ref();
    let matching = triggers.iter().filter(move |trigger| {
        trigger.metadata.namespace == pipeline.metadata.namespace
            && (is_labelled(trigger, name) || source.is_some_and(|s| follows(trigger, s)))
    });
    matching.map(|trigger| {
        let source = &trigger.spec.source;
        ListedTrigger {
            kind: "PipelineTrigger".to_owned(),
            namespace: trigger.metadata.namespace.clone(),
            name: trigger.metadata.name.clone().unwrap_or_default(),
            effect: format!("starts Tekton runs for {:?} {}", source.kind, source.name),
        }
    })
}

fn is_labelled(trigger: &PipelineTrigger, pipeline: &str) -> bool {
    let labels = trigger.metadata.labels.as_ref();
    let has = |label: &&str| labels.is_some_and(|l| l.get(*label).is_some_and(|n| n == pipeline));
    [names::PIPELINE_LABEL, names::PIPELINE_LABEL_WEGO]
        .iter()
        .any(has)
}

fn follows(trigger: &PipelineTrigger, source: &Source) -> bool {
    format!("{:?}", trigger.spec.source.kind) == format!("{:?}", source.kind)
        && Some(&trigger.spec.source.name) == source.name.as_ref()
}

fn object(kind: &str, object: &Value, effect: String) -> ListedTrigger {
    ListedTrigger {
        kind: kind.to_owned(),
        namespace: namespace_of(object).map(str::to_owned),
        name: name_of(object).to_owned(),
        effect,
    }
}

fn namespace_of(object: &Value) -> Option<&str> {
    object["metadata"]["namespace"].as_str()
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pipeline(source: Value) -> Pipeline {
        serde_json::from_value(json!({
            "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
            "metadata": { "name": "shop", "namespace": "ns" },
            "spec": { "environments": [{ "name": "dev", "targets": [] }], "source": source },
            "status": { "environments": { "dev": { "targets": [{ "apps": [{ "images": ["r.example/shop:1"] }] }] } } }
        }))
        .unwrap()
    }

    fn objects() -> TriggerObjects {
        let trigger = |name: &str, label: &str, source: &str| {
            let trigger = serde_json::from_value(json!({
                "apiVersion": "pipeline.jquad.rocks/v1alpha1", "kind": "PipelineTrigger",
                "metadata": { "name": name, "namespace": "ns", "labels": { "pipelines.weave.works/pipeline": label } },
                "spec": { "source": { "kind": "ImagePolicy", "name": source } }
            }));
            trigger.unwrap()
        };
        let policy = |name: &str, image: &str| {
            json!({
                "metadata": { "name": name, "namespace": "flux" },
                "status": { "latestRef": { "name": image, "tag": "2" } }
            })
        };
        let automation = |name: &str, observed: Value| json!({ "metadata": { "name": name, "namespace": "flux" }, "status": observed });
        TriggerObjects {
            triggers: vec![
                trigger("labelled", "shop", "x"),
                trigger("same", "", "img"),
                trigger("other", "else", "x"),
            ],
            image_policies: vec![
                policy("shop", "r.example/shop"),
                policy("db", "r.example/db"),
            ],
            image_automations: vec![
                automation("silent", json!({})),
                automation("shops", json!({ "observedPolicies": { "shop": {} } })),
                automation("databases", json!({ "observedPolicies": { "db": {} } })),
            ],
        }
    }

    fn shown(pipeline: &Pipeline, objects: &TriggerObjects) -> Vec<String> {
        let listed = triggers_of(pipeline, objects);
        let line = |it: &ListedTrigger| {
            let namespace = it.namespace.as_deref().unwrap_or("-");
            format!("{} {namespace} {} {}", it.kind, it.name, it.effect)
        };
        listed.iter().map(line).collect()
    }

    #[test]
    fn lists_what_feeds_a_pipeline() {
        let fed = pipeline(json!({ "kind": "ImagePolicy", "name": "img" }));
        assert_eq!(
            shown(&fed, &objects()),
            [
                "ImagePolicy ns img proposes revisions to the first environment",
                "ImageUpdateAutomation flux silent writes to git what shop chooses",
                "ImageUpdateAutomation flux shops writes to git what shop chooses",
                "ImagePolicy flux shop chooses r.example/shop 2, an image of the pipeline",
                "PipelineTrigger ns labelled starts Tekton runs for ImagePolicy x",
                "PipelineTrigger ns same starts Tekton runs for ImagePolicy img",
                "Hook - /promotion/ns/shop/dev takes reports of what runs in dev",
            ]
        );
    }

    #[test]
    fn a_hook_is_shown_with_its_path() {
        let hooked = pipeline(json!({ "kind": "Hook" }));
        assert_eq!(
            shown(&hooked, &TriggerObjects::default()),
            [
                "Hook - /release/ns/shop proposes revisions to the first environment",
                "Hook - /promotion/ns/shop/dev takes reports of what runs in dev",
            ]
        );
    }

    #[test]
    fn what_has_no_source_has_the_hooks_alone() {
        let bare = pipeline(Value::Null);
        assert_eq!(shown(&bare, &TriggerObjects::default()).len(), 1);
    }
}
