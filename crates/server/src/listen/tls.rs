//! The certificate: read from files, and read again when they change.

use std::{path::Path, sync::Arc, time::Duration};

use parking_lot::RwLock;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{fs, time::sleep};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::{Error, settings::TlsFiles};

/// How often the files are looked at. cert-manager and the kubelet replace them long before the old
/// certificate ends.
const AGAIN: Duration = Duration::from_secs(10);

/// How sockets speak TLS.
pub(crate) struct Tls(RwLock<TlsAcceptor>);

impl Tls {
    /// Reads the files now, and in the background whenever they change until `stop`.
    pub(crate) async fn load(
        files: TlsFiles,
        stop: &CancellationToken,
    ) -> Result<Arc<Self>, Error> {
        let contents = read(&files).await?;
        let tls = Arc::new(Self(RwLock::new(acceptor(&files, &contents)?)));
        let following = tls.clone().follow(files, contents);
        tokio::spawn(stop.clone().run_until_cancelled_owned(following));
        Ok(tls)
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.0.read().clone()
    }

    async fn follow(self: Arc<Self>, files: TlsFiles, mut contents: [Vec<u8>; 2]) {
        loop {
            sleep(AGAIN).await;
            // The files may change one after the other: until they fit, the old ones serve.
            let read = read(&files).await;
            let fresh = read.and_then(|fresh| match fresh == contents {
                true => Ok(None),
                false => Ok(Some((acceptor(&files, &fresh)?, fresh))),
            });
            match fresh {
                Ok(None) => {}
                Ok(Some((acceptor, fresh))) => {
                    *self.0.write() = acceptor;
                    contents = fresh;
                    info!(file = %files.certificate.display(), "the certificate was replaced");
                }
                Err(error) => error!(%error, "the old certificate stays in use"),
            }
        }
    }
}

async fn read(files: &TlsFiles) -> Result<[Vec<u8>; 2], Error> {
    let read = async |file: &Path| {
        let contents = fs::read(file).await;
        contents.map_err(|error| unusable(file, error))
    };
    Ok([read(&files.certificate).await?, read(&files.key).await?])
}

fn acceptor(files: &TlsFiles, [certificate, key]: &[Vec<u8>; 2]) -> Result<TlsAcceptor, Error> {
    let chain = CertificateDer::pem_slice_iter(certificate);
    let chain = chain.collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| unusable(&files.certificate, error))?;
    let key = PrivateKeyDer::from_pem_slice(key);
    // What is wrong with a key is told without any of it.
    let key = key.map_err(|_| unusable(&files.key, "it holds no PEM key"))?;
    let provider = rustls::crypto::ring::default_provider();
    let config = ServerConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key));
    let mut config = config.map_err(|error| unusable(&files.certificate, error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn unusable(file: &Path, why: impl ToString) -> Error {
    Error::Certificate {
        file: file.to_owned(),
        why: why.to_string(),
    }
}
