//! What a caller wants to do, as a SubjectAccessReview asks about it.

use runtime::ObjectKey;

/// An API group and a resource of it.
pub(crate) type ResourceType = (&'static str, &'static str);
pub(crate) const PIPELINES: ResourceType = ("pipelines.weave.works", "pipelines");
pub(crate) const CHANGES: ResourceType = ("pipelines.weave.works", "changes");
pub(crate) const CHECK_RUNS: ResourceType = ("pipelines.weave.works", "checkruns");
pub(crate) const FREEZES: ResourceType = ("pipelines.weave.works", "freezes");
pub(crate) const EVENTS: ResourceType = ("", "events");
pub(crate) const SECRETS: ResourceType = ("", "secrets");
pub(crate) const TRIGGERS: ResourceType = ("pipeline.jquad.rocks", "pipelinetriggers");
pub(crate) const CLUSTERS: ResourceType = ("gitops.weave.works", "gitopsclusters");

/// A verb and what it is used on.
#[derive(Clone, Copy)]
pub(crate) struct AccessRequest<'a> {
    pub(super) resource_type: ResourceType,
    pub(super) verb: &'static str,
    pub(super) namespace: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) environment: Option<&'a str>,
}

impl<'a> AccessRequest<'a> {
    pub(crate) fn new(verb: &'static str, pipeline: &'a ObjectKey) -> Self {
        Self {
            resource_type: PIPELINES,
            verb,
            namespace: Some(&pipeline.namespace),
            name: Some(&pipeline.name),
            environment: None,
        }
    }

    /// To stop promotions in a namespace, and to let them go on.
    pub(crate) fn freeze(namespace: &'a str) -> Self {
        Self {
            verb: "freeze",
            ..Self::list(PIPELINES, Some(namespace))
        }
    }

    /// To list a resource, in one namespace or everywhere.
    pub(crate) fn list(resource_type: ResourceType, namespace: Option<&'a str>) -> Self {
        Self {
            resource_type,
            verb: "list",
            namespace,
            name: None,
            environment: None,
        }
    }

    /// To inspect a cluster, all clusters of a namespace, or all there are.
    pub(crate) fn inspect(namespace: Option<&'a str>, name: Option<&'a str>) -> Self {
        Self {
            resource_type: CLUSTERS,
            verb: "inspect",
            namespace,
            name,
            environment: None,
        }
    }

    /// To create an object, in one namespace or in any.
    pub(crate) fn create(resource_type: ResourceType, namespace: Option<&'a str>) -> Self {
        Self {
            verb: "create",
            ..Self::list(resource_type, namespace)
        }
    }

    /// The same verb on an object of another resource.
    pub(crate) fn of(self, resource_type: ResourceType) -> Self {
        Self {
            resource_type,
            ..self
        }
    }

    pub(crate) fn environment(self, environment: &'a str) -> Self {
        Self {
            environment: Some(environment),
            ..self
        }
    }
}
