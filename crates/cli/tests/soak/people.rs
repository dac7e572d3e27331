//! People who approve, and people who look at the dashboard, REST and metrics.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use api::{
    Promotion,
    promotion::{Approval, Phase},
};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{
    controller_process::ControllerProcess,
    fleet::{Fleet, TOKEN},
};

/// Approves every promotion that waits, as two people.
pub(crate) async fn approve_forever(fleet: Arc<Fleet>) {
    loop {
        let listed = fleet.promotions().list(&ListParams::default()).await;
        let is_waiting = |it: &Promotion| {
            let phase = it.status.as_ref().and_then(|status| status.phase);
            phase == Some(Phase::AwaitingApproval)
        };
        for promotion in listed.unwrap().into_iter().filter(is_waiting) {
            approve(&fleet, promotion).await;
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Adds the next missing approval. A conflict is tried again with the next list.
async fn approve(fleet: &Fleet, promotion: Promotion) {
    let change = promotion.status.and_then(|status| status.change);
    let Some(digest) = change.map(|change| change.digest) else {
        return;
    };
    let mut approvals = promotion.spec.approvals;
    let by = ["ann", "ben"];
    let Some(by) = by
        .iter()
        .find(|by| !approvals.iter().any(|it| it.by == **by))
    else {
        return;
    };
    approvals.push(Approval {
        by: (*by).to_owned(),
        change_digest: Some(digest),
        ..Approval::default()
    });
    let version = promotion.metadata.resource_version;
    let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"approvals": approvals}});
    let name = promotion.metadata.name.unwrap_or_default();
    let parameters = PatchParams::default();
    let patched = fleet.promotions();
    drop(
        patched
            .patch(&name, &parameters, &Patch::Merge(&patch))
            .await,
    );
}

/// Reads the dashboard and REST again and again. Answers that do not come are not their concern.
pub(crate) async fn read_forever(fleet: Arc<Fleet>, controller: Arc<ControllerProcess>) {
    for app in (0..fleet.app_count()).cycle() {
        let name = fleet.app_name(app);
        for path in [
            "/api/v1/pipelines".to_owned(),
            format!("/api/v1/pipelines/default/{name}"),
            "/".to_owned(),
        ] {
            drop(get(controller.rest, &path).await);
        }
        sleep(Duration::from_secs(2)).await;
    }
}

/// The answer to a GET request with the reader's token, if there is one in time.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Option<String> {
    let answered = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        Some(answer)
    };
    timeout(Duration::from_secs(10), answered).await.ok()?
}
