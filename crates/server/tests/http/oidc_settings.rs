//! The settings of a server whose people sign in with the double of an OpenID provider.

use std::time::Duration;

use server::settings::{OidcSettings, SigningAlgorithm};
use tempfile::TempDir;
use testbed::oidc_provider::{CLIENT, CLIENT_SECRET, OidcProvider};

/// The settings, and the folder with the client secret.
pub(crate) fn oidc_settings(
    provider: &OidcProvider,
    redirect_url: String,
) -> (OidcSettings, TempDir) {
    settings_for(&provider.issuer, (CLIENT, CLIENT_SECRET), redirect_url)
}

/// The settings for any provider, and the folder with the client secret.
pub(crate) fn settings_for(
    issuer: &str,
    (client, secret): (&str, &str),
    redirect_url: String,
) -> (OidcSettings, TempDir) {
    testbed::tls::install_provider();
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("secret");
    std::fs::write(&path, format!("{secret}\n")).unwrap();
    let settings = OidcSettings {
        issuer_url: issuer.to_owned(),
        client_id: client.to_owned(),
        client_secret_file: Some(path),
        ca_file: None,
        scopes: vec!["email".to_owned(), "groups".to_owned()],
        username_claim: "email".to_owned(),
        username_prefix: None,
        groups_claim: Some("groups".to_owned()),
        groups_prefix: String::new(),
        required_claims: Vec::new(),
        signing_algorithms: vec![SigningAlgorithm::Rs256],
        redirect_url,
        session_duration: Duration::from_secs(3600),
        address_policy: net::AddressPolicy::UNRESTRICTED,
        proxy: None,
    };
    (settings, files)
}
