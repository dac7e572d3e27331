//! Which namespaces of the hub say whose pipelines may have targets in them.
//!
//! Followed by a watch of their metadata. Where that is forbidden, as it may be for a controller of one
//! namespace, no annotation has an effect, and that is logged.

use std::{
    collections::HashMap,
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

use crate::Shared;

/// The annotations of the namespaces that have one.
#[derive(Default)]
pub(crate) struct Namespaces {
    allowed: RwLock<HashMap<String, String>>,
    are_known: AtomicBool,
}

impl Namespaces {
    /// Whether the namespaces were read once, or cannot be.
    pub(crate) fn are_known(&self) -> bool {
        self.are_known.load(Ordering::Relaxed)
    }

    /// The namespaces whose pipelines may have targets in this one; nothing where it does not say.
    pub(crate) fn allowed(&self, namespace: &str) -> Option<String> {
        self.allowed.read().get(namespace).cloned()
    }

    /// Keeps what a namespace says; answers whether that is news.
    fn keep(&self, namespace: &str, says: Option<String>) -> bool {
        let mut allowed = self.allowed.write();
        let before = match says.clone() {
            Some(says) => allowed.insert(namespace.to_owned(), says),
            None => allowed.remove(namespace),
        };
        before != says
    }
}

/// Follows the namespaces of the hub; pipelines are looked at again when one says something else.
pub(crate) async fn follow(shared: Arc<Shared>) {
    let api: Api<PartialObjectMeta<Namespace>> = Api::all(shared.hub.clone());
    let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events);
    let mut seen = HashMap::new();
    let mut is_warned = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => take(&shared, event, &mut seen),
            Err(error) if is_forbidden(&error) => {
                if !is_warned {
                    let annotation = ALLOWED_NAMESPACES_ANNOTATION;
                    tracing::warn!(%error, annotation, "namespaces of the hub cannot be watched: the annotation has no effect on them");
                }
                is_warned = true;
                known(&shared);
            }
            Err(error) => tracing::warn!(%error, "watch of namespaces interrupted"),
        }
    }
}

fn take(
    shared: &Arc<Shared>,
    event: Event<PartialObjectMeta<Namespace>>,
    seen: &mut HashMap<String, String>,
) {
    let says = |namespace: &PartialObjectMeta<Namespace>| {
        let annotation = namespace.annotations().get(ALLOWED_NAMESPACES_ANNOTATION);
        (namespace.name_any(), annotation.cloned())
    };
    let is_news = match event {
        Event::Init => {
            seen.clear();
            false
        }
        Event::InitApply(namespace) => {
            let (name, said) = says(&namespace);
            seen.extend(said.map(|said| (name, said)));
            false
        }
        Event::InitDone => {
            let mut allowed = shared.namespaces.allowed.write();
            let is_news = *allowed != *seen;
            *allowed = std::mem::take(seen);
            drop(allowed);
            known(shared);
            is_news
        }
        Event::Apply(namespace) => {
            let (name, said) = says(&namespace);
            shared.namespaces.keep(&name, said)
        }
        Event::Delete(namespace) => shared.namespaces.keep(&namespace.name_any(), None),
    };
    if is_news {
        shared.wake_all();
    }
}

/// Says that the namespaces are known, once.
fn known(shared: &Arc<Shared>) {
    if !shared.namespaces.are_known.swap(true, Ordering::Relaxed) {
        shared.wake_all();
    }
}

fn is_forbidden(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 403,
        _ => false,
    }
}
