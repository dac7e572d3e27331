//! The TLS certificate of a server, which can be replaced while connections are open.

use std::sync::Arc;

use parking_lot::RwLock;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use tokio_rustls::TlsAcceptor;

/// A certificate chain with its key. Connections accepted after a replacement use the new one.
pub struct TlsCertificate(RwLock<TlsAcceptor>);

impl TlsCertificate {
    /// Fails if the key does not belong to the certificate.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, rustls::Error> {
        Ok(Self(RwLock::new(acceptor(chain, key)?)))
    }

    /// Replaces the certificate; where this fails, the old one stays in use.
    pub fn replace(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<(), rustls::Error> {
        *self.0.write() = acceptor(chain, key)?;
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.0.read().clone()
    }
}

fn acceptor(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<TlsAcceptor, rustls::Error> {
    let provider = rustls::crypto::ring::default_provider();
    let mut config = ServerConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
