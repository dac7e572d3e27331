//! TLS for the forge: a generated certificate authority and a TLS listener.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::serve::Listener;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Error;

pub(super) struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

/// The TLS listener, and its certificate authority as PEM.
pub(super) fn wrap(listener: TcpListener) -> Result<(TlsListener, String), Error> {
    let failed = |error: &dyn std::fmt::Display| Error::new("generate certificates", error);
    let authority_key = KeyPair::generate().map_err(|error| failed(&error))?;
    let mut authority = CertificateParams::new(Vec::new()).map_err(|error| failed(&error))?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_certificate = authority
        .self_signed(&authority_key)
        .map_err(|error| failed(&error))?;
    let key = KeyPair::generate().map_err(|error| failed(&error))?;
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let server = CertificateParams::new(names).map_err(|error| failed(&error))?;
    let issuer = Issuer::new(authority, authority_key);
    let certificate = server
        .signed_by(&key, &issuer)
        .map_err(|error| failed(&error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let settings = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(vec![certificate.der().clone()], private)
        })
        .map_err(|error| failed(&error))?;
    let acceptor = TlsAcceptor::from(Arc::new(settings));
    Ok((
        TlsListener { listener, acceptor },
        authority_certificate.pem(),
    ))
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
