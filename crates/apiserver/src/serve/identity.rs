//! The identity of a server: its certificate authority, certificate and administrator token.

use std::{
    fs,
    io::{self, Write},
    net::SocketAddr,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use listener::TlsCertificate;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};

use super::ServeError;

/// Stored as JSON. No `Debug`: it holds secrets.
#[derive(Serialize, Deserialize)]
pub(super) struct Identity {
    /// The names the certificate is for.
    names: Vec<String>,
    /// The certificate of the authority, as PEM.
    authority: String,
    /// The certificate and key of the server, as base64 of DER.
    certificate: String,
    key: String,
    token: String,
}

impl Identity {
    /// The identity in a folder, or a new one if there is none for these names.
    pub(super) fn in_folder(folder: &Path, names: &[String]) -> Result<Self, ServeError> {
        let path = folder.join("identity.json");
        let failed = |source| ServeError::System {
            attempted: format!("storing the identity of the server in {}", path.display()),
            source,
        };
        let stored = match fs::read(&path) {
            Ok(text) => Some(serde_json::from_slice::<Self>(&text).map_err(|error| {
                ServeError::Identity {
                    path: path.clone(),
                    why: error.to_string(),
                }
            })?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let token = match stored {
            Some(stored) if stored.names == names => return Ok(stored),
            Some(stored) => stored.token,
            None => new_token().map_err(failed)?,
        };
        let identity = Self::new(names, token)?;
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed)?;
        let text = serde_json::to_vec_pretty(&identity).map_err(|error| failed(error.into()))?;
        write_private(&path, &text).map_err(failed)?;
        Ok(identity)
    }

    fn new(names: &[String], token: String) -> Result<Self, ServeError> {
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::new([])?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let name = &mut parameters.distinguished_name;
        name.push(DnType::CommonName, "sluice authority");
        let authority = parameters.self_signed(&key)?.pem();
        // The key of the authority is dropped here: it signs nothing else.
        let issuer = Issuer::new(parameters, key);
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::new(names.to_vec())?;
        let name = &mut parameters.distinguished_name;
        name.push(DnType::CommonName, "sluice");
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let certificate = parameters.signed_by(&key, &issuer)?;
        Ok(Self {
            names: names.to_vec(),
            authority,
            certificate: STANDARD.encode(certificate.der()),
            key: STANDARD.encode(key.serialize_der()),
            token,
        })
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// The certificate for TLS.
    pub(super) fn certificate(&self) -> Result<TlsCertificate, rustls::Error> {
        let unreadable = |_| rustls::Error::General("the stored identity is not base64".to_owned());
        let certificate = STANDARD.decode(&self.certificate).map_err(unreadable)?;
        let key = STANDARD.decode(&self.key).map_err(unreadable)?;
        TlsCertificate::new(
            vec![CertificateDer::from(certificate)],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key)),
        )
    }

    /// Writes the kubeconfig of the administrator.
    pub(super) fn write_kubeconfig(
        &self,
        folder: &Path,
        address: SocketAddr,
    ) -> Result<PathBuf, ServeError> {
        let path = folder.join("kubeconfig");
        let authority = STANDARD.encode(&self.authority);
        let token = &self.token;
        let server = match address.ip().is_unspecified() {
            true => format!("https://localhost:{}", address.port()),
            false => format!("https://{address}"),
        };
        let text = format!(
            "apiVersion: v1\n\
             kind: Config\n\
             current-context: sluice\n\
             clusters:\n\
             - name: sluice\n\
             \x20 cluster:\n\
             \x20   server: \"{server}\"\n\
             \x20   certificate-authority-data: {authority}\n\
             users:\n\
             - name: admin\n\
             \x20 user: {{token: {token}}}\n\
             contexts:\n\
             - name: sluice\n\
             \x20 context: {{cluster: sluice, user: admin, namespace: default}}\n"
        );
        write_private(&path, text.as_bytes()).map_err(|source| ServeError::System {
            attempted: format!("writing {}", path.display()),
            source,
        })?;
        Ok(path)
    }
}

fn new_token() -> io::Result<String> {
    let mut bytes = [0; 32];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the operating system gives no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes a file atomically that only its owner may read.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let temporary = PathBuf::from(name);
    // Left over from a crash; it may have other permissions.
    let _ = fs::remove_file(&temporary);
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}
