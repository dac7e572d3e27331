//! The namespaces of the hub: their labels, which Freezes select, and the annotations by which they allow
//! pipelines of others to have targets in them.
//!
//! Kept current by a watch of their metadata. Where that is forbidden, as it may be for a controller of one
//! namespace, no annotation has an effect, no labels are known, and that is logged.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use api::names::ALLOWED_NAMESPACES_ANNOTATION;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use parking_lot::RwLock;

use crate::PipelineReconciler;

/// What is read of one namespace.
#[derive(Clone, Debug, PartialEq)]
struct NamespaceInfo {
    allowed: Option<String>,
    labels: BTreeMap<String, String>,
}

/// What is read of the namespaces, by name.
#[derive(Default)]
pub(crate) struct Namespaces {
    known: RwLock<HashMap<String, NamespaceInfo>>,
    are_listed: AtomicBool,
}

impl Namespaces {
    /// Whether the namespaces were read once, or cannot be.
    pub(crate) fn are_listed(&self) -> bool {
        self.are_listed.load(Ordering::Relaxed)
    }

    /// The namespaces whose pipelines may have targets in this one; nothing where it does not say.
    pub(crate) fn allowed(&self, namespace: &str) -> Option<String> {
        self.known.read().get(namespace)?.allowed.clone()
    }

    /// The labels of a namespace; none where they are not known.
    pub(crate) fn labels(&self, namespace: &str) -> Option<BTreeMap<String, String>> {
        Some(self.known.read().get(namespace)?.labels.clone())
    }

    /// Stores what was read of a namespace; returns whether it changed.
    fn keep(&self, namespace: &str, info: Option<NamespaceInfo>) -> bool {
        let mut known = self.known.write();
        let before = match info.clone() {
            Some(info) => known.insert(namespace.to_owned(), info),
            None => known.remove(namespace),
        };
        before != info
    }
}

/// Watches the namespaces of the hub; all pipelines are reconciled when the annotation or a label changes.
pub(crate) async fn watch(reconciler: Arc<PipelineReconciler>) {
    let api: Api<PartialObjectMeta<Namespace>> = Api::all(reconciler.hub.clone());
    let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events);
    let mut seen = HashMap::new();
    let mut is_warned = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => take(&reconciler, event, &mut seen),
            Err(error) if is_forbidden(&error) => {
                if !is_warned {
                    let annotation = ALLOWED_NAMESPACES_ANNOTATION;
                    tracing::warn!(%error, annotation, "watching namespaces of the hub is forbidden: the annotation has no effect");
                }
                is_warned = true;
                set_listed(&reconciler);
            }
            Err(error) => tracing::warn!(%error, "the watch of namespaces was interrupted"),
        }
    }
}

fn take(
    reconciler: &Arc<PipelineReconciler>,
    event: Event<PartialObjectMeta<Namespace>>,
    seen: &mut HashMap<String, NamespaceInfo>,
) {
    let says = |namespace: &PartialObjectMeta<Namespace>| {
        let annotation = namespace.annotations().get(ALLOWED_NAMESPACES_ANNOTATION);
        let info = NamespaceInfo {
            allowed: annotation.cloned(),
            labels: namespace.labels().clone(),
        };
        (namespace.name_any(), info)
    };
    let is_news = match event {
        Event::Init => {
            seen.clear();
            false
        }
        Event::InitApply(namespace) => {
            let (name, said) = says(&namespace);
            seen.insert(name, said);
            false
        }
        Event::InitDone => {
            let mut known = reconciler.namespaces.known.write();
            let is_news = *known != *seen;
            *known = std::mem::take(seen);
            drop(known);
            set_listed(reconciler);
            is_news
        }
        Event::Apply(namespace) => {
            let (name, said) = says(&namespace);
            reconciler.namespaces.keep(&name, Some(said))
        }
        Event::Delete(namespace) => reconciler.namespaces.keep(&namespace.name_any(), None),
    };
    if is_news {
        reconciler.enqueue_all();
    }
}

/// Marks the namespaces as listed, once.
fn set_listed(reconciler: &Arc<PipelineReconciler>) {
    if !reconciler
        .namespaces
        .are_listed
        .swap(true, Ordering::Relaxed)
    {
        reconciler.enqueue_all();
    }
}

fn is_forbidden(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 403,
        _ => false,
    }
}
