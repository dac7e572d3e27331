//! An embedded API server that serves our kinds.
//!
//! Definitions take longer to compile than most tests take. They are created once in a process; each server starts
//! with a copy of them.

use std::{sync::LazyLock, thread};

use apiserver::{Options, Server};
use kube::{
    Api,
    api::{DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};

/// A server with our definitions and nothing else.
static DEFINED: LazyLock<Server> = LazyLock::new(|| {
    // A runtime cannot be entered from another one's thread, on which tests run.
    let defined = thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(define())
    });
    defined.join().expect("our definitions are valid")
});

/// An embedded hub with our kinds. Needs a running tokio runtime.
pub fn server() -> Server {
    server_with(Options::default())
}

/// The same with options.
pub fn server_with(options: Options) -> Server {
    DEFINED.fork(options)
}

async fn define() -> Server {
    let server = Server::in_memory();
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let resource = ApiResource::from_gvk(&kind);
    let definitions: Api<DynamicObject> = Api::all_with(server.client(), &resource);
    for definition in api::crds() {
        let definition = serde_json::to_value(definition).and_then(serde_json::from_value);
        let definition = definition.expect("a definition is an object");
        let created = definitions
            .create(&PostParams::default(), &definition)
            .await;
        created.expect("the definition is accepted");
    }
    server
}
