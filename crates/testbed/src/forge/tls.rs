//! TLS for servers of tests: a generated certificate authority, a certificate of it for loopback, and a
//! TLS listener.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::serve::Listener;
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Error;

/// The number of certificate authorities so far.
static AUTHORITIES: AtomicU64 = AtomicU64::new(0);

/// A certificate for loopback and the authority that issued it.
pub(crate) struct IssuedCertificate {
    authority: Certificate,
    certificate: Certificate,
    key: KeyPair,
}

impl IssuedCertificate {
    pub(crate) fn new() -> Result<Self, rcgen::Error> {
        let authority_key = KeyPair::generate()?;
        let mut parameters = CertificateParams::new(Vec::new())?;
        // OpenSSL confuses authorities of one name in one bundle.
        let number = AUTHORITIES.fetch_add(1, Ordering::Relaxed);
        let name = format!("authority {} {number}", std::process::id());
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = parameters.self_signed(&authority_key)?;
        let key = KeyPair::generate()?;
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let issuer = Issuer::new(parameters, authority_key);
        let certificate = CertificateParams::new(names)?.signed_by(&key, &issuer)?;
        Ok(Self {
            authority,
            certificate,
            key,
        })
    }

    pub(crate) fn authority_pem(&self) -> String {
        self.authority.pem()
    }

    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    pub(crate) fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }
}

pub(crate) struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

/// The TLS listener, and its certificate authority as PEM.
pub(crate) fn wrap(listener: TcpListener) -> Result<(TlsListener, String), Error> {
    let failed = |error: &dyn std::fmt::Display| Error::new("generate certificates", error);
    let issued = IssuedCertificate::new().map_err(|error| failed(&error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(issued.key.serialize_der()));
    let settings = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(vec![issued.certificate.der().clone()], private)
        })
        .map_err(|error| failed(&error))?;
    let acceptor = TlsAcceptor::from(Arc::new(settings));
    Ok((TlsListener { listener, acceptor }, issued.authority_pem()))
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            // A failed handshake must not stop the listener.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
