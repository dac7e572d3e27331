//! The client that makes the load: HTTP/1.1 over TLS, a connection for each worker, and as little
//! else as possible, because it shares the cores with the server. The same for every server.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use kube::{
    client::ConfigExt,
    config::{KubeConfigOptions, Kubeconfig},
};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Connects to a server.
#[derive(Clone)]
pub(crate) struct BenchConnector {
    authority: String,
    host: String,
    tls: TlsConnector,
    headers: HeaderMap,
    /// For what the load is not about.
    pub(crate) client: kube::Client,
}

impl BenchConnector {
    /// A connector for the server of a kubeconfig.
    pub(crate) async fn of(kubeconfig: Kubeconfig) -> Self {
        let text = serde_json::to_value(&kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options);
        let config = config.await.unwrap();
        let mut tls = config.rustls_client_config().unwrap();
        tls.alpn_protocols.clear();
        let authority = config.cluster_url.authority().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, authority.as_str().parse().unwrap());
        headers.insert(header::USER_AGENT, HeaderValue::from_static("bench"));
        if let Some(token) = text["users"][0]["user"]["token"].as_str() {
            let bearer = format!("Bearer {token}").parse().unwrap();
            headers.insert(header::AUTHORIZATION, bearer);
        }
        Self {
            authority: authority.to_string(),
            host: authority.host().to_owned(),
            tls: TlsConnector::from(Arc::new(tls)),
            headers,
            client: kube::Client::try_from(config).unwrap(),
        }
    }

    pub(crate) async fn connect(&self) -> Connection {
        let stream = TcpStream::connect(&self.authority).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let name = ServerName::try_from(self.host.clone()).unwrap();
        let stream = self.tls.connect(name, stream).await.unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Connection {
            sender,
            headers: self.headers.clone(),
        }
    }
}

/// One request of the load.
pub(crate) struct BenchRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Bytes,
}

impl BenchRequest {
    pub(crate) fn new(method: Method, path: String, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        Self { method, path, body }
    }

    /// What the body is in.
    pub(crate) fn content_type(&self) -> &'static str {
        match self.method {
            Method::PATCH if self.path.contains("fieldManager=") => "application/apply-patch+yaml",
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        }
    }
}

/// One connection to a server, for one request at a time.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    headers: HeaderMap,
}

impl Connection {
    /// Sends a request and returns the body of the response, which must be a success.
    pub(crate) async fn send(&mut self, bench_request: BenchRequest) -> Bytes {
        let media_type = HeaderValue::from_static(bench_request.content_type());
        let what = (bench_request.method.clone(), bench_request.path.clone());
        let mut request = Request::new(Full::new(bench_request.body));
        *request.method_mut() = bench_request.method;
        *request.uri_mut() = bench_request.path.parse().unwrap();
        *request.headers_mut() = self.headers.clone();
        request
            .headers_mut()
            .insert(header::CONTENT_TYPE, media_type);
        self.sender.ready().await.unwrap();
        let response = self.sender.send_request(request).await.unwrap();
        let code = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = || String::from_utf8_lossy(&bytes).into_owned();
        assert!(code.is_success(), "{what:?}: {code} {}", text());
        bytes
    }
}
