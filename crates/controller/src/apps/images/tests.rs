//! Lookups of workloads share lists, and the tracked image has one revision.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use apiserver::Server;
use futures::future::join_all;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
    client::Body,
};
use serde_json::json;
use tower::ServiceExt;

use super::*;

/// A client that counts its requests.
fn counted(server: &Server) -> (Client, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let (router, asked) = (server.router(apiserver::User::in_process()), count.clone());
    let service = tower::service_fn(move |request: http::Request<Body>| {
        asked.fetch_add(1, Ordering::Relaxed);
        router.clone().oneshot(request.map(axum::body::Body::new))
    });
    (Client::new(service, "default"), count)
}

async fn workload(server: &Server, number: usize) {
    let app = format!("app-{number}");
    let labels =
        json!({"helm.toolkit.fluxcd.io/name": app, "helm.toolkit.fluxcd.io/namespace": "default"});
    let image = format!("registry.example/app:{number}");
    let deployment = serde_json::from_value(json!({
        "metadata": {"name": app, "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"app": app}},
            "template": {
                "metadata": {"labels": {"app": app}},
                "spec": {"containers": [{"name": "app", "image": image}]},
            },
        },
    }));
    let api: Api<Deployment> = Api::namespaced(server.client(), "default");
    let deployment = deployment.unwrap();
    api.create(&PostParams::default(), &deployment)
        .await
        .unwrap();
}

#[test]
fn several_versions_of_the_tracked_image_are_no_revision() {
    let tracked = |images: &[&str]| {
        let images: Vec<String> = images.iter().map(|&image| image.to_owned()).collect();
        tracked(&images, "acme/shop").map(|image| image.shown_revision())
    };
    let mixed = "its workloads run the image acme/shop at 1.10.0 and 1.9.0";
    assert_eq!(
        tracked(&["acme/shop:1.10.0", "acme/shop:1.9.0", "acme/db:1"]),
        Err(mixed.to_owned())
    );
    assert_eq!(tracked(&["acme/shop:2", "acme/db:1"]), Ok("2".to_owned()));
    // One workload pins the digest as well.
    assert_eq!(
        tracked(&["acme/shop:2", "acme/shop:2@sha256:a"]),
        Ok("2@sha256:a".to_owned())
    );
    let none = "no workload of the app runs the image acme/shop";
    assert_eq!(tracked(&["acme/db:1"]), Err(none.to_owned()));
}

#[tokio::test]
async fn many_lookups_at_once_need_few_lists() {
    let server = Server::in_memory();
    for number in 0..40 {
        workload(&server, number).await;
    }
    let (client, count) = counted(&server);
    let kind = AppKind::new(api::flux::HELM_GROUP, "HelmRelease");
    let lookups = WorkloadLookups::default();
    let results = join_all((0..40).map(|number| {
        lookups.get(
            &client,
            &kind,
            ("default".to_owned(), format!("app-{number}")),
            WantedWorkloads::All,
        )
    }));
    for (number, result) in results.await.into_iter().enumerate() {
        let read = result.unwrap();
        assert_eq!(read.images, [format!("registry.example/app:{number}")]);
        assert_eq!(read.workloads[0].name, format!("app-{number}"));
    }
    // Three kinds of workload for the first lookup, and three for all that came meanwhile.
    assert_eq!(count.load(Ordering::Relaxed), 6);
}

#[tokio::test]
async fn known_workloads_are_read_by_name_and_no_others() {
    let server = Server::in_memory();
    workload(&server, 1).await;
    let (client, count) = counted(&server);
    let kind = AppKind::new(api::flux::HELM_GROUP, "HelmRelease");
    let lookups = WorkloadLookups::default();
    let app = ("default".to_owned(), "app-1".to_owned());
    let known = |workloads: &[Workload]| WantedWorkloads::Known(workloads.into());
    let none = lookups.get(&client, &kind, app.clone(), known(&[]));
    assert!(none.await.unwrap().images.is_empty());
    assert_eq!(count.load(Ordering::Relaxed), 0);
    let all = lookups.get(&client, &kind, app.clone(), WantedWorkloads::All);
    let all = all.await.unwrap();
    assert!(!all.is_provisional());
    assert_eq!(count.load(Ordering::Relaxed), 3);
    let read = lookups.get(&client, &kind, app.clone(), known(&all.workloads));
    let read = read.await.unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 4);
    assert!(read.is_provisional());
    assert_eq!(
        (&read.images, &read.workloads),
        (&all.images, &all.workloads)
    );

    let api: Api<Deployment> = Api::namespaced(server.client(), "default");
    api.delete("app-1", &DeleteParams::default()).await.unwrap();
    let gone = lookups.get(&client, &kind, app, known(&all.workloads));
    assert!(gone.await.unwrap().images.is_empty());
}
