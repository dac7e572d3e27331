//! What can set a pipeline in motion: its source, its hook, and the triggers whose runs feed it.

use api::{
    Pipeline, PipelineTrigger, names,
    pipeline::{Source, SourceKind},
};

/// One thing that can set a pipeline in motion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    /// A Flux object whose revisions are proposed to the first environment.
    Source {
        /// Its kind.
        kind: SourceKind,
        /// Its name, in the pipeline's namespace.
        name: String,
    },
    /// A signed call that proposes a revision.
    Hook {
        /// The path to POST to.
        path: String,
    },
    /// A trigger whose runs build what the pipeline promotes.
    PipelineTrigger {
        /// Its name, in the pipeline's namespace.
        name: String,
        /// The kind and name of what starts its runs.
        source: String,
    },
}

/// What can set a pipeline in motion, of the triggers in its namespace those that are labelled with
/// its name or follow the same source.
pub fn triggers_of(pipeline: &Pipeline, triggers: &[PipelineTrigger]) -> Vec<Listed> {
    let namespace = pipeline.metadata.namespace.as_deref().unwrap_or_default();
    let name = pipeline.metadata.name.as_deref().unwrap_or_default();
    let source = pipeline.spec.source.as_ref();
    let mut list: Vec<Listed> = source
        .map(|source| match source.kind {
            SourceKind::Hook => Listed::Hook {
                path: format!("/release/{namespace}/{name}"),
            },
            kind => Listed::Source {
                kind,
                name: source.name.clone().unwrap_or_default(),
            },
        })
        .into_iter()
        .collect();
    let feeding = triggers.iter().filter(|trigger| {
        trigger.metadata.namespace == pipeline.metadata.namespace
            && (is_labelled(trigger, name) || source.is_some_and(|s| follows(trigger, s)))
    });
    list.extend(feeding.map(|trigger| Listed::PipelineTrigger {
        name: trigger.metadata.name.clone().unwrap_or_default(),
        source: format!(
            "{:?} {}",
            trigger.spec.source.kind, trigger.spec.source.name
        ),
    }));
    list
}

fn is_labelled(trigger: &PipelineTrigger, pipeline: &str) -> bool {
    let labels = trigger.metadata.labels.as_ref();
    [names::PIPELINE_LABEL, names::PIPELINE_LABEL_EARLY]
        .iter()
        .any(|label| {
            labels
                .and_then(|l| l.get(*label))
                .is_some_and(|name| name == pipeline)
        })
}

fn follows(trigger: &PipelineTrigger, source: &Source) -> bool {
    format!("{:?}", trigger.spec.source.kind) == format!("{:?}", source.kind)
        && Some(&trigger.spec.source.name) == source.name.as_ref()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_what_feeds_a_pipeline() {
        let pipeline = |source: serde_json::Value| -> Pipeline {
            serde_json::from_value(json!({
                "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
                "metadata": { "name": "shop", "namespace": "ns" }, "spec": { "environments": [], "source": source }
            }))
            .unwrap()
        };
        let trigger = |name: &str, label: &str, source: &str| -> PipelineTrigger {
            serde_json::from_value(json!({
                "apiVersion": "pipeline.jquad.rocks/v1alpha1", "kind": "PipelineTrigger",
                "metadata": { "name": name, "namespace": "ns", "labels": { "pipelines.weave.works/pipeline": label } },
                "spec": { "source": { "kind": "ImagePolicy", "name": source } }
            }))
            .unwrap()
        };
        let triggers = [
            trigger("labelled", "shop", "x"),
            trigger("same", "", "img"),
            trigger("other", "else", "x"),
        ];
        let fed = |source: &str, name: &str| Listed::PipelineTrigger {
            name: name.into(),
            source: format!("ImagePolicy {source}"),
        };
        assert_eq!(
            triggers_of(
                &pipeline(json!({ "kind": "ImagePolicy", "name": "img" })),
                &triggers
            ),
            [
                Listed::Source {
                    kind: SourceKind::ImagePolicy,
                    name: "img".into()
                },
                fed("x", "labelled"),
                fed("img", "same")
            ]
        );
        assert_eq!(
            triggers_of(&pipeline(json!({ "kind": "Hook" })), &triggers),
            [
                Listed::Hook {
                    path: "/release/ns/shop".into()
                },
                fed("x", "labelled")
            ]
        );
        assert_eq!(triggers_of(&pipeline(json!(null)), &[]), []);
    }
}
