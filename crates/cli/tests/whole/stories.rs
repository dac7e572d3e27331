//! Stories of RFC-0001 that take the whole way.

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    time::{Duration, SystemTime},
};

use apiserver::{ServeOptions, Server};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use testbed::{
    objects::apply,
    shop::{HOOK_KEY, ShopPipeline},
    tls,
};

const PATH: &str = "/release/default/shop";

fn crds() -> Vec<Value> {
    let ours = api::crds().into_iter().map(|definition| {
        let mut value = serde_json::to_value(definition).unwrap();
        value["apiVersion"] = json!("apiextensions.k8s.io/v1");
        value["kind"] = json!("CustomResourceDefinition");
        value
    });
    ours.collect()
}

/// Calls as the guide to hooks says; answers with the status line and headers.
fn release(shop: &ShopPipeline, revision: &str) -> std::io::Result<String> {
    let body = json!({"revision": revision}).to_string();
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let mut mac = Hmac::<Sha256>::new_from_slice(HOOK_KEY.as_bytes()).unwrap();
    mac.update(format!("{now}\nPOST\n{PATH}\n{body}").as_bytes());
    let signature: String = mac
        .finalize()
        .into_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let mut stream = TcpStream::connect(shop.hooks)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    write!(
        stream,
        "POST {PATH} HTTP/1.1\r\nHost: hooks\r\nConnection: close\r\nContent-Length: {}\r\n\
         X-Signature-Timestamp: {now}\r\nX-Signature: sha256={signature}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// CI proposes a revision by webhook; it enters dev by a pull request, and prod after it.
#[tokio::test(flavor = "multi_thread")]
async fn story_7_ci_triggers_a_pipeline_by_webhook() {
    tls::install_provider();
    let server = Server::in_memory();
    let folder = tempfile::tempdir().unwrap();
    let served = server
        .serve(ServeOptions::new(folder.path().join("api")))
        .await
        .unwrap();
    let spec = json!({"source": {"kind": "Hook"}});
    apply(&server.client(), crds()).await;
    let shop = ShopPipeline::create(server.client(), ["1.0.0", "1.0.0"], spec).await;
    let binary = Path::new(env!("CARGO_BIN_EXE_sluice"));
    let _running = shop.start(binary, served.kubeconfig(), &["controller"]);
    let answer = shop
        .until("the hook is not answered", async || {
            let answer = release(&shop, "1.1.0").ok()?;
            assert!(!answer.starts_with("HTTP/1.1 401"), "{answer}");
            (answer.starts_with("HTTP/1.1 201") || answer.starts_with("HTTP/1.1 202"))
                .then_some(answer)
        })
        .await;
    assert!(!answer.contains(HOOK_KEY));
    shop.merge_next().await;
    shop.wait_for_promotion("dev", "1.1.0").await;
    shop.merge_next().await;
    shop.wait_for_promotion("prod", "1.1.0").await;
}
