//! A kube-rs `Controller` runs for an hour of virtual time against the embedded API.
//!
//! It watches a custom kind, owns ConfigMaps, patches status and holds a finalizer: what every loop
//! of Sluice does. The clock is paused, so the hour takes as long as its work takes.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use apiserver::{FaultRates, Options, Server};
use futures::StreamExt;
use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, CustomResource, CustomResourceExt, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::ObjectMeta,
    runtime::{
        Controller,
        controller::Action,
        finalizer::{Event, finalizer},
        watcher,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const NAMESPACE: &str = "workshop";
const WIDGETS: usize = 10;

#[derive(CustomResource, Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "test.example.com",
    version = "v1",
    kind = "Widget",
    namespaced,
    status = "WidgetStatus"
)]
struct WidgetSpec {
    size: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WidgetStatus {
    built_size: u32,
    observed_generation: i64,
}

struct WidgetContext {
    client: Client,
    reconciles: AtomicUsize,
    cleanups: AtomicUsize,
}

impl WidgetContext {
    fn widgets(&self) -> Api<Widget> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    fn parts(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }
}

async fn reconcile(
    widget: Arc<Widget>,
    context: Arc<WidgetContext>,
) -> Result<Action, ReconcileError> {
    context.reconciles.fetch_add(1, Ordering::Relaxed);
    let inner = context.clone();
    let name = "test.example.com/workshop";
    finalizer(&context.widgets(), name, widget, |event| async move {
        match event {
            Event::Apply(widget) => build(&inner, &widget).await,
            Event::Cleanup(_) => {
                inner.cleanups.fetch_add(1, Ordering::Relaxed);
                Ok(Action::await_change())
            }
        }
    })
    .await
    .map_err(|error| ReconcileError(error.to_string()))
}

async fn build(context: &WidgetContext, widget: &Widget) -> Result<Action, kube::Error> {
    let part = ConfigMap {
        metadata: ObjectMeta {
            name: Some(widget.name_any()),
            owner_references: Some(vec![widget.controller_owner_ref(&()).expect("stored")]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(
            "size".to_owned(),
            widget.spec.size.to_string(),
        )])),
        ..ConfigMap::default()
    };
    match context.parts().create(&PostParams::default(), &part).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let patch = Patch::Merge(json!({"data": part.data}));
            context
                .parts()
                .patch(&widget.name_any(), &PatchParams::default(), &patch)
                .await?;
        }
        outcome => drop(outcome?),
    }
    let status = WidgetStatus {
        built_size: widget.spec.size,
        observed_generation: widget.metadata.generation.unwrap_or_default(),
    };
    if widget.status.as_ref() != Some(&status) {
        let patch = Patch::Merge(json!({"status": status}));
        context
            .widgets()
            .patch_status(&widget.name_any(), &PatchParams::default(), &patch)
            .await?;
    }
    Ok(Action::requeue(Duration::from_secs(60)))
}

#[derive(Debug)]
struct ReconcileError(String);

impl std::fmt::Display for ReconcileError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for ReconcileError {}

/// Applies the definition, makes the widgets, and starts the controller.
async fn start_controller(server: &Server) -> Arc<WidgetContext> {
    let client = server.client();
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).expect("a namespace");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .expect("a new namespace");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions
        .create(&PostParams::default(), &Widget::crd())
        .await
        .expect("a valid definition");

    let context = Arc::new(WidgetContext {
        client,
        reconciles: AtomicUsize::new(0),
        cleanups: AtomicUsize::new(0),
    });
    for number in 0..WIDGETS {
        let widget = Widget::new(&format!("w{number}"), WidgetSpec { size: 1 });
        context
            .widgets()
            .create(&PostParams::default(), &widget)
            .await
            .expect("a valid widget");
    }
    let controller = Controller::new(context.widgets(), watcher::Config::default())
        .owns(context.parts(), watcher::Config::default())
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_secs(5)),
            context.clone(),
        );
    tokio::spawn(controller.for_each(|_| std::future::ready(())));
    context
}

/// An hour in which widgets grow and two of them are deleted.
async fn an_hour_of_work(context: &WidgetContext) {
    let widgets = context.widgets();
    for round in 1..=12_u32 {
        tokio::time::sleep(Duration::from_secs(300)).await;
        let name = format!("w{}", round as usize % WIDGETS);
        let patch = Patch::Merge(json!({"spec": {"size": round + 1}}));
        retry(async || {
            widgets
                .patch(&name, &PatchParams::default(), &patch)
                .await
                .map(drop)
        })
        .await;
        if round == 11 {
            for name in ["w8", "w9"] {
                retry(async || {
                    widgets
                        .delete(name, &DeleteParams::default())
                        .await
                        .map(drop)
                })
                .await;
            }
        }
    }
}

/// Tries until it works or the object is gone: faults may be injected.
async fn retry(attempt: impl AsyncFn() -> Result<(), kube::Error>) {
    loop {
        match attempt().await {
            Ok(()) => return,
            Err(kube::Error::Api(status)) if status.is_not_found() => return,
            Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}

async fn assert_settled(context: &WidgetContext) {
    let parts = context.parts();
    let present = context
        .widgets()
        .list(&ListParams::default())
        .await
        .expect("a list")
        .items;
    assert_eq!(present.len(), WIDGETS - 2);
    for widget in &present {
        let status = widget.status.clone().expect("built");
        assert_eq!(status.built_size, widget.spec.size, "{}", widget.name_any());
        assert_eq!(Some(status.observed_generation), widget.metadata.generation);
        let part = parts.get(&widget.name_any()).await.expect("an owned part");
        assert_eq!(
            part.data.expect("data")["size"],
            widget.spec.size.to_string()
        );
    }
    let left = parts
        .list(&ListParams::default())
        .await
        .expect("a list")
        .items;
    assert_eq!(
        left.len(),
        present.len(),
        "parts of deleted widgets are collected"
    );
    assert!(context.cleanups.load(Ordering::Relaxed) >= 2);
}

#[tokio::test(start_paused = true)]
async fn a_controller_runs_for_an_hour() {
    let server = Server::in_memory();
    let context = start_controller(&server).await;
    an_hour_of_work(&context).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_settled(&context).await;
    // Ten widgets, each looked at once a minute.
    let reconciles = context.reconciles.load(Ordering::Relaxed);
    assert!((500..5000).contains(&reconciles), "{reconciles} reconciles");
}

#[tokio::test(start_paused = true)]
async fn a_controller_gets_there_in_spite_of_faults() {
    for seed in 1..=5 {
        println!("seed {seed}");
        let server = Server::new(Options {
            seed: Some(seed),
            ..Options::default()
        });
        let context = start_controller(&server).await;
        server.inject_faults(FaultRates {
            seed,
            conflict: 0.1,
            server_error: 0.1,
            timeout: 0.1,
            dropped_watch: 0.5,
            stale_list: 0.2,
        });
        an_hour_of_work(&context).await;
        server.inject_faults(FaultRates::default());
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_settled(&context).await;
    }
}
