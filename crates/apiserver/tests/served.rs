//! The API on a socket, as clients with tokens see it: who gets in, and what is cut off.

#![expect(
    clippy::unwrap_used,
    reason = "a failing case is a panic, as in any other test"
)]

use std::{os::unix::fs::PermissionsExt, sync::Arc, time::Duration};

use apiserver::{Limits, ServeError, ServeHandle, ServeOptions, Server, User};
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

struct Setup {
    server: Server,
    served: ServeHandle,
    folder: tempfile::TempDir,
}

async fn setup(limits: Limits) -> Setup {
    testbed::tls::install_provider();
    let folder = tempfile::tempdir().unwrap();
    let server = Server::in_memory();
    let mut options = ServeOptions::new(folder.path().join("serve"));
    options.limits = limits;
    let served = server.serve(options).await.unwrap();
    Setup {
        server,
        served,
        folder,
    }
}

impl Setup {
    fn config(&self) -> Kubeconfig {
        Kubeconfig::read_from(self.served.kubeconfig()).unwrap()
    }

    /// A client with this token instead of the administrator's; with none, if it is empty.
    async fn client(&self, token: Option<&str>) -> kube::Client {
        let mut config = self.config();
        if let Some(token) = token {
            let user = config.auth_infos[0].auth_info.as_mut().unwrap();
            user.token = (!token.is_empty()).then(|| token.to_owned().into());
        }
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(config, &options)
            .await
            .unwrap();
        config.default_retry = false;
        kube::Client::try_from(config).unwrap()
    }

    /// A TLS connection that does only what it is told to.
    async fn connect(&self) -> tokio_rustls::client::TlsStream<TcpStream> {
        self.connect_from([127, 0, 0, 1]).await
    }

    /// The same from an address of this machine.
    async fn connect_from(&self, from: [u8; 4]) -> tokio_rustls::client::TlsStream<TcpStream> {
        let config = self.config();
        let cluster = config.clusters[0].cluster.as_ref().unwrap();
        let pem = cluster.certificate_authority_data.as_ref().unwrap();
        let pem = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, pem).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(&pem).unwrap())
            .unwrap();
        let tls = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        let stream = socket.connect(self.served.address()).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(tls));
        connector.connect(name, stream).await.unwrap()
    }

    fn token(&self) -> String {
        let path = self.folder.path().join("serve/identity.json");
        let identity: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        identity["token"].as_str().unwrap().to_owned()
    }
}

async fn send(client: &kube::Client, request: Request<String>) -> (u16, Value) {
    let request = request.map(|text| kube::client::Body::from(text.into_bytes()));
    let response = client.send(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn get(client: &kube::Client, path: &str) -> (u16, Value) {
    send(client, Request::get(path).body(String::new()).unwrap()).await
}

async fn post(client: &kube::Client, path: &str, body: Value) -> (u16, Value) {
    let request = Request::builder().method(Method::POST).uri(path);
    let request = request.header("content-type", "application/json");
    send(client, request.body(body.to_string()).unwrap()).await
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

#[tokio::test]
async fn the_kubeconfig_works_and_is_private() {
    let setup = setup(Limits::default()).await;
    let administrator = setup.client(None).await;
    assert_eq!(post(&administrator, MAPS, config_map("a")).await.0, 201);
    assert_eq!(get(&administrator, &format!("{MAPS}/a")).await.0, 200);
    let (_, review) = post(
        &administrator,
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        json!({}),
    )
    .await;
    assert_eq!(review["status"]["userInfo"]["username"], "admin");
    let path = setup.served.kubeconfig();
    for path in [path, &path.with_file_name("identity.json")] {
        assert_eq!(
            std::fs::metadata(path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}

#[tokio::test]
async fn tokens_decide_who_gets_in() {
    let setup = setup(Limits::default()).await;
    let (code, status) = get(&setup.client(Some("wrong")).await, "/healthz").await;
    assert_eq!((code, &status["reason"]), (401, &json!("Unauthorized")));
    let anonymous = setup.client(Some("")).await;
    assert_eq!(get(&anonymous, "/version").await.0, 200);
    let (code, status) = get(&anonymous, MAPS).await;
    let message = "configmaps is forbidden: User \"system:anonymous\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\"";
    assert_eq!((code, &status["message"]), (403, &json!(message)));
}

#[tokio::test]
async fn a_viewer_reads_one_namespace_and_writes_nothing() {
    let setup = setup(Limits::default()).await;
    setup
        .server
        .add_token("viewers-token", User::new("viewer", &[]));
    let administrator = setup.client(None).await;
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    let binding = json!({
        "metadata": {"name": "viewer"},
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "viewer"}],
    });
    assert_eq!(post(&administrator, bindings, binding).await.0, 201);
    let viewer = setup.client(Some("viewers-token")).await;
    assert_eq!(get(&viewer, MAPS).await.0, 200);
    assert_eq!(
        get(&viewer, "/api/v1/namespaces/kube-system/configmaps")
            .await
            .0,
        403
    );
    assert_eq!(
        get(&viewer, "/api/v1/namespaces/default/secrets").await.0,
        403
    );
    assert_eq!(post(&viewer, MAPS, config_map("a")).await.0, 403);
    let request = Request::get(MAPS).header("impersonate-user", "admin");
    let (code, status) = send(&viewer, request.body(String::new()).unwrap()).await;
    let message = "users \"admin\" is forbidden: User \"viewer\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope";
    assert_eq!((code, &status["message"]), (403, &json!(message)));
}

#[tokio::test]
async fn a_service_account_gets_in_with_its_token() {
    let setup = setup(Limits::default()).await;
    let administrator = setup.client(None).await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    post(
        &administrator,
        accounts,
        json!({"metadata": {"name": "robot"}}),
    )
    .await;
    let (code, request) = post(
        &administrator,
        &format!("{accounts}/robot/token"),
        json!({}),
    )
    .await;
    assert_eq!(code, 201, "{request}");
    let robot = setup.client(request["status"]["token"].as_str()).await;
    let (code, status) = get(&robot, MAPS).await;
    assert_eq!(code, 403);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("User \"system:serviceaccount:default:robot\" cannot list"),
        "{message}"
    );
}

#[tokio::test]
async fn only_its_own_names_are_answered() {
    let setup = setup(Limits::default()).await;
    let administrator = setup.client(None).await;
    for (host, expected) in [("localhost", 200), ("evil.example:443", 403), ("", 403)] {
        let request = Request::get("/version").header("host", host);
        let (code, _) = send(&administrator, request.body(String::new()).unwrap()).await;
        assert_eq!(code, expected, "{host}");
    }
}

#[tokio::test]
async fn others_are_served_only_on_purpose() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = ServeOptions::new(folder.path());
    options.address = "0.0.0.0:0".parse().unwrap();
    let refused = Server::in_memory().serve(options).await;
    assert!(matches!(refused, Err(ServeError::NotLoopback(_))));
}

#[tokio::test]
async fn the_identity_survives_a_restart() {
    let setup = setup(Limits::default()).await;
    let before = std::fs::read_to_string(setup.served.kubeconfig()).unwrap();
    let folder = setup.folder.path().join("serve");
    let second = setup.server.serve(ServeOptions::new(folder)).await.unwrap();
    let after = std::fs::read_to_string(second.kubeconfig()).unwrap();
    let without_server = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.contains("server:"));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(without_server(&before), without_server(&after));
}

#[tokio::test]
async fn there_are_only_so_many_watches() {
    let limits = Limits {
        watches: 1,
        ..Limits::default()
    };
    let setup = setup(limits).await;
    let administrator = setup.client(None).await;
    let watch = || {
        Request::get(format!("{MAPS}?watch=true"))
            .body(Vec::new())
            .unwrap()
    };
    let first = administrator.request_stream(watch()).await.unwrap();
    let (code, status) = get(&administrator, &format!("{MAPS}?watch=true")).await;
    assert_eq!((code, &status["reason"]), (429, &json!("TooManyRequests")));
    assert_eq!(get(&administrator, MAPS).await.0, 200);
    drop(first);
    // The place is free when the server has noticed.
    while administrator.request_stream(watch()).await.is_err() {}
}

#[tokio::test]
async fn there_are_only_so_many_requests_and_connections() {
    let limits = Limits {
        requests: 1,
        connections: 2,
        ..Limits::default()
    };
    let setup = setup(limits).await;
    let mut slow = setup.connect().await;
    let body = config_map("a").to_string();
    let start = format!(
        "POST {MAPS} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
        setup.token(),
        body.len()
    );
    slow.write_all(start.as_bytes()).await.unwrap();
    slow.flush().await.unwrap();
    let administrator = setup.client(None).await;
    // The first request has its place once the server has read its head.
    let refused = loop {
        match get(&administrator, MAPS).await {
            (200, _) => {}
            refused => break refused,
        }
    };
    assert_eq!(
        (refused.0, &refused.1["reason"]),
        (429, &json!("TooManyRequests"))
    );
    let mut third = TcpStream::connect(setup.served.address()).await.unwrap();
    assert_eq!(third.read(&mut [0]).await.unwrap_or(0), 0);
    slow.write_all(body.as_bytes()).await.unwrap();
    slow.flush().await.unwrap();
    let mut answer = [0; 12];
    slow.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 201");
    // The place is free when the server has noticed that the answer was read.
    while get(&administrator, MAPS).await.0 != 200 {}
}

#[tokio::test]
async fn who_does_not_read_is_cut_off() {
    let limits = Limits {
        watches: 1,
        stalled_time: Duration::from_millis(200),
        ..Limits::default()
    };
    let setup = setup(limits).await;
    let mut idle = setup.connect().await;
    let request = format!(
        "GET {MAPS}?watch=true HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\r\n",
        setup.token()
    );
    idle.write_all(request.as_bytes()).await.unwrap();
    idle.flush().await.unwrap();
    let client = setup.server.client();
    let administrator = setup.client(None).await;
    let watch = || {
        Request::get(format!("{MAPS}?watch=true"))
            .body(Vec::new())
            .unwrap()
    };
    let mut number = 0;
    // More and more is to be read, until it fits no buffer and the place is taken away.
    loop {
        let mut big = config_map(&format!("big-{number}"));
        big["data"]["x"] = json!("x".repeat(500_000));
        assert_eq!(post(&client, MAPS, big).await.0, 201);
        number += 1;
        if number > 2 && administrator.request_stream(watch()).await.is_ok() {
            break;
        }
    }
}

#[tokio::test]
async fn who_says_nothing_is_cut_off() {
    let limits = Limits {
        idle_time: Duration::from_millis(100),
        ..Limits::default()
    };
    let setup = setup(limits).await;
    let mut silent = TcpStream::connect(setup.served.address()).await.unwrap();
    assert_eq!(silent.read(&mut [0]).await.unwrap_or(0), 0);
    // In the middle of a request, and between two.
    for (said, answered) in [
        ("GET /version HTTP/1.1\r\nhost: loc", 0),
        ("GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n", 1),
    ] {
        let mut slow = setup.connect().await;
        slow.write_all(said.as_bytes()).await.unwrap();
        slow.flush().await.unwrap();
        let mut answer = Vec::new();
        let _ = slow.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert_eq!(answer.matches("HTTP/1.1 200").count(), answered, "{answer}");
    }
}

#[tokio::test]
async fn half_sent_requests_of_one_address_keep_no_other_out() {
    let limits = Limits {
        connections: 4,
        ..Limits::default()
    };
    let setup = setup(limits).await;
    let mut held = Vec::new();
    for _ in 0..6 {
        // Not even a greeting.
        let mut slow = TcpStream::connect(setup.served.address()).await.unwrap();
        let _ = slow.write_all(&[22]).await;
        held.push(slow);
    }
    for _ in 0..2 {
        let mut other = setup.connect_from([127, 0, 0, 2]).await;
        let request = b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n";
        other.write_all(request).await.unwrap();
        other.flush().await.unwrap();
        let mut answer = [0; 12];
        other.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        held.push(other.into_inner().0);
    }
}

#[tokio::test]
async fn a_body_that_never_ends_is_given_up() {
    let limits = Limits {
        request_time: Duration::from_millis(200),
        ..Limits::default()
    };
    let setup = setup(limits).await;
    let mut slow = setup.connect().await;
    let request = format!(
        "POST {MAPS} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-length: 100\r\n\r\n{{",
        setup.token()
    );
    slow.write_all(request.as_bytes()).await.unwrap();
    slow.flush().await.unwrap();
    let mut answer = [0; 12];
    slow.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 504");
}
