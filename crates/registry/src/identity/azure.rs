//! Azure: the token that the cluster mounts is exchanged for one of Entra ID, and that for a refresh token
//! of the registry.

use super::{WorkloadIdentity, fixed_url, form, text};
use crate::{Credentials, Error};

/// The usual address of Entra ID.
const AUTHORITY: &str = "https://login.microsoftonline.com/";
/// What the token of Entra ID is for.
const SCOPE: &str = "https://containerregistry.azure.net/.default";
/// The kind of the mounted token.
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

pub(super) fn is_registry(host: &str) -> bool {
    [".azurecr.io", ".azurecr.cn", ".azurecr.us"]
        .iter()
        .any(|suffix| host.ends_with(suffix))
}

pub(super) async fn credentials(
    identity: &WorkloadIdentity,
    host: &str,
) -> Result<Credentials, Error> {
    let (tenant, client) = (
        identity.required("AZURE_TENANT_ID")?,
        identity.required("AZURE_CLIENT_ID")?,
    );
    let mounted = identity.mounted_token("AZURE_FEDERATED_TOKEN_FILE")?;
    let authority = (identity.variable)("AZURE_AUTHORITY_HOST");
    let authority = authority.filter(|authority| !authority.is_empty());
    let mut url = fixed_url(authority.as_deref().unwrap_or(AUTHORITY))?;
    url.set_path(&format!("/{tenant}/oauth2/v2.0/token"));
    let authority = url.host_str().unwrap_or_default().to_owned();
    let fields = [
        ("grant_type", "client_credentials"),
        ("client_id", client.as_str()),
        ("client_assertion_type", ASSERTION),
        ("client_assertion", mounted.as_str()),
        ("scope", SCOPE),
    ];
    let answer = identity.ask(form(url, &fields)).await?;
    let token = text(&answer, "/access_token", &authority)?;
    let url = fixed_url(&format!("https://{host}/oauth2/exchange"))?;
    let fields = [
        ("grant_type", "access_token"),
        ("service", host),
        ("tenant", tenant.as_str()),
        ("access_token", token.as_str()),
    ];
    let answer = identity.ask(form(url, &fields)).await?;
    let token = text(&answer, "/refresh_token", host)?;
    Ok(Credentials::identity_token(&token))
}
