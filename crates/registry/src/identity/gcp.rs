//! Google: the metadata service answers with an access token of the pod's service account.

use http::{HeaderName, HeaderValue, Method};
use net::HttpRequest;

use super::{WorkloadIdentity, fixed_url, text};
use crate::{Credentials, Error};

/// The host of the metadata service.
const METADATA: &str = "metadata.google.internal";
/// The path of the token.
const PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
/// The user name that goes with an access token.
const USER: &str = "oauth2accesstoken";
/// The header without which the metadata service does not answer.
const FLAVOR: (HeaderName, HeaderValue) = (
    HeaderName::from_static("metadata-flavor"),
    HeaderValue::from_static("Google"),
);

pub(super) fn is_registry(host: &str) -> bool {
    host == "gcr.io" || host.ends_with(".gcr.io") || host.ends_with("-docker.pkg.dev")
}

pub(super) async fn credentials(identity: &WorkloadIdentity) -> Result<Credentials, Error> {
    let url = fixed_url(&format!("http://{METADATA}{PATH}"))?;
    let request = HttpRequest::new(Method::GET, url).header(FLAVOR.0, FLAVOR.1);
    let answer = identity.ask(request).await?;
    let token = text(&answer, "/access_token", METADATA)?;
    Ok(Credentials::password(USER, &token))
}
