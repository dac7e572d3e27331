//! The certificate: read from files, and read again when they change.

use std::{path::Path, sync::Arc, time::Duration};

use listener::TlsCertificate;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio::{fs, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::{Error, settings::TlsFiles};

/// How often the files are read again. cert-manager and the kubelet replace them long before the old
/// certificate expires.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

/// Reads the files now, and in the background whenever they change until `stop`.
pub(crate) async fn load_certificate(
    files: TlsFiles,
    stop: &CancellationToken,
) -> Result<Arc<TlsCertificate>, Error> {
    let contents = read(&files).await?;
    let (chain, key) = parse(&files, &contents)?;
    let certificate = TlsCertificate::new(chain, key);
    let certificate = certificate.map_err(|error| unusable(&files.certificate, error))?;
    let certificate = Arc::new(certificate);
    let reloading = reload(certificate.clone(), files, contents);
    runtime::spawn(stop.clone().run_until_cancelled_owned(reloading));
    Ok(certificate)
}

async fn reload(certificate: Arc<TlsCertificate>, files: TlsFiles, mut contents: [Vec<u8>; 2]) {
    loop {
        sleep(RELOAD_INTERVAL).await;
        // The files may change one after the other: the old ones stay in use until the new ones
        // belong together.
        let replaced = async {
            let fresh = read(&files).await?;
            if fresh == contents {
                return Ok(None);
            }
            let (chain, key) = parse(&files, &fresh)?;
            let replaced = certificate.replace(chain, key);
            replaced.map_err(|error| unusable(&files.certificate, error))?;
            Ok::<_, Error>(Some(fresh))
        };
        match replaced.await {
            Ok(None) => {}
            Ok(Some(fresh)) => {
                contents = fresh;
                info!(file = %files.certificate.display(), "replaced the certificate");
            }
            Err(error) => {
                error!(%error, "could not replace the certificate; the old one stays in use")
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

/// The certificate chain and its key.
fn parse(
    files: &TlsFiles,
    [certificate, key]: &[Vec<u8>; 2],
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
    let chain = CertificateDer::pem_slice_iter(certificate);
    let chain = chain.collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| unusable(&files.certificate, error))?;
    let key = PrivateKeyDer::from_pem_slice(key);
    // The error must not show any part of the key.
    let key = key.map_err(|_| unusable(&files.key, "it holds no PEM key"))?;
    Ok((chain, key))
}

fn unusable(file: &Path, why: impl ToString) -> Error {
    Error::Certificate {
        file: file.to_owned(),
        why: why.to_string(),
    }
}
