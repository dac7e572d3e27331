//! Real sockets: TLS with a certificate that is replaced, slow clients, the end of the process.

use std::{fs, net::SocketAddr, sync::Arc, time::Duration};

use apiserver::Server;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use server::{Metrics, Settings, settings::TlsFiles};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

/// Longer than anything here takes; what is waited for comes long before.
const BOUND: Duration = Duration::from_secs(100);

async fn serve(settings: Settings, stop: &CancellationToken) -> (SocketAddr, server::ServerHandle) {
    let anywhere = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let settings = Settings {
        hooks_address: anywhere,
        ..settings
    };
    let client = Server::in_memory().client();
    let serving = server::start(client, settings, Metrics::default(), stop.clone());
    let serving = serving.await.unwrap();
    (serving.hooks.unwrap(), serving)
}

async fn talk(address: SocketAddr, words: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(words.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = timeout(BOUND, stream.read_to_string(&mut answer)).await;
    read.expect("the connection ends").unwrap();
    answer
}

#[tokio::test]
async fn who_is_slow_is_cut_off() {
    let stop = CancellationToken::new();
    let (address, _serving) = serve(Settings::default(), &stop).await;
    let (headers, body) = tokio::join!(
        talk(address, "POST /promotion/a/b/c HTTP/1.1\r\nHost: x\r\n"),
        talk(
            address,
            "POST /promotion/a/b/c HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 10\r\n\r\n1",
        ),
    );
    assert!(!headers.contains(" 200 "), "{headers}");
    assert!(body.starts_with("HTTP/1.1 408 "), "{body}");
    let fine = talk(
        address,
        "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert!(fine.starts_with("HTTP/1.1 200 "), "{fine}");
    let long = "x".repeat(1 << 20);
    let long =
        format!("GET /healthz HTTP/1.1\r\nHost: x\r\nLong: {long}\r\nConnection: close\r\n\r\n");
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The other side may hang up before it has read everything.
    let _ = stream.write_all(long.as_bytes()).await;
    let mut answer = [0; 12];
    if stream.read_exact(&mut answer).await.is_ok() {
        assert_eq!(&answer, b"HTTP/1.1 431");
    }
}

#[tokio::test]
async fn a_taken_port_is_an_error_and_the_end_is_orderly() {
    let stop = CancellationToken::new();
    let (address, serving) = serve(Settings::default(), &stop).await;
    let settings = Settings {
        hooks_address: Some(address),
        ..Settings::default()
    };
    let client = Server::in_memory().client();
    let second = server::start(client, settings, Metrics::default(), stop.clone()).await;
    let error = second.err().unwrap().to_string();
    assert!(error.contains("for hooks"), "{error}");
    let _idle = TcpStream::connect(address).await.unwrap();
    stop.cancel();
    timeout(BOUND, serving.ended()).await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

struct Authority {
    certificate: String,
    key: String,
}

fn self_signed() -> Authority {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    Authority {
        certificate: made.cert.pem(),
        key: made.signing_key.serialize_pem(),
    }
}

/// Whether the server shows that certificate.
async fn shows(address: SocketAddr, authority: &Authority) -> bool {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap();
    roots.add(certificate).unwrap();
    let provider = rustls::crypto::ring::default_provider();
    let config = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let greeting = TlsConnector::from(Arc::new(config)).connect(name, stream);
    let Ok(mut stream) = greeting.await else {
        return false;
    };
    let words = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(words).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    answer.starts_with(b"HTTP/1.1 200 ")
}

#[tokio::test]
async fn a_replaced_certificate_is_used_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let files = TlsFiles {
        certificate: folder.path().join("tls.crt"),
        key: folder.path().join("tls.key"),
    };
    let write = |authority: &Authority| {
        fs::write(&files.key, &authority.key).unwrap();
        fs::write(&files.certificate, &authority.certificate).unwrap();
    };
    let (first, second) = (self_signed(), self_signed());
    write(&first);
    let stop = CancellationToken::new();
    let settings = Settings {
        tls: Some(files.clone()),
        ..Settings::default()
    };
    let (address, _serving) = serve(settings, &stop).await;
    assert!(shows(address, &first).await);
    assert!(!shows(address, &second).await);
    write(&second);
    let replaced = async {
        while !shows(address, &second).await {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    timeout(BOUND, replaced).await.expect("the new one is used");
    fs::write(&files.certificate, "broken").unwrap();
    assert!(shows(address, &second).await);
    let broken = Settings {
        tls: Some(files.clone()),
        ..Settings::default()
    };
    let client = Server::in_memory().client();
    let error = server::start(client, broken, Metrics::default(), stop.clone()).await;
    let error = error.err().unwrap().to_string();
    assert!(error.contains("tls.crt"), "{error}");
    stop.cancel();
}
