//! The certificates and keys of one control plane.
//!
//! A generated authority signs the certificates of the server and the administrator, which are valid only
//! for this control plane.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::{Error, write_private};

/// The certificates and keys of the server and the administrator, as PEM.
pub(super) struct Certificates {
    authority: String,
    server: KeyPairPem,
    administrator: KeyPairPem,
    service_accounts: KeyPair,
}

struct KeyPairPem {
    certificate: String,
    key: String,
}

impl Certificates {
    pub(super) fn new() -> Result<Self, Error> {
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::new([])?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        parameters
            .distinguished_name
            .push(DnType::CommonName, "test authority");
        let authority = parameters.self_signed(&key)?.pem();
        let issuer = Issuer::new(parameters, key);
        Ok(Self {
            authority,
            server: server(&issuer)?,
            administrator: administrator(&issuer)?,
            service_accounts: KeyPair::generate()?,
        })
    }

    /// Writes what the API server reads into a folder.
    pub(super) fn write(&self, folder: &Path) -> Result<(), Error> {
        write_private(&folder.join("authority.crt"), &self.authority)?;
        write_private(&folder.join("server.crt"), &self.server.certificate)?;
        write_private(&folder.join("server.key"), &self.server.key)?;
        let key = self.service_accounts.serialize_pem();
        write_private(&folder.join("service-account.key"), &key)?;
        let public = self.service_accounts.public_key_pem();
        write_private(&folder.join("service-account.pub"), &public)
    }

    /// A kubeconfig for the administrator that needs no other file.
    pub(super) fn kubeconfig(&self, address: &str) -> String {
        let authority = BASE64.encode(&self.authority);
        let certificate = BASE64.encode(&self.administrator.certificate);
        let key = BASE64.encode(&self.administrator.key);
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             current-context: test\n\
             clusters:\n\
             - name: test\n\
             \x20 cluster: {{server: \"{address}\", certificate-authority-data: {authority}}}\n\
             users:\n\
             - name: administrator\n\
             \x20 user: {{client-certificate-data: {certificate}, client-key-data: {key}}}\n\
             contexts:\n\
             - name: test\n\
             \x20 context: {{cluster: test, user: administrator}}\n"
        )
    }
}

fn server(issuer: &Issuer<'_, KeyPair>) -> Result<KeyPairPem, Error> {
    let names = [
        "localhost",
        "127.0.0.1",
        "kubernetes.default.svc",
        "10.0.0.1",
    ]
    .map(String::from);
    let mut parameters = CertificateParams::new(names)?;
    parameters
        .distinguished_name
        .push(DnType::CommonName, "kube-apiserver");
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    sign(parameters, issuer)
}

/// A member of the group that role-based access control lets do everything.
fn administrator(issuer: &Issuer<'_, KeyPair>) -> Result<KeyPairPem, Error> {
    let mut parameters = CertificateParams::new([])?;
    parameters
        .distinguished_name
        .push(DnType::OrganizationName, "system:masters");
    parameters
        .distinguished_name
        .push(DnType::CommonName, "administrator");
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    sign(parameters, issuer)
}

fn sign(
    mut parameters: CertificateParams,
    issuer: &Issuer<'_, KeyPair>,
) -> Result<KeyPairPem, Error> {
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate()?;
    let certificate = parameters.signed_by(&key, issuer)?.pem();
    Ok(KeyPairPem {
        certificate,
        key: key.serialize_pem(),
    })
}
