//! Follows redirects of downloads, without credentials.

use http::{HeaderMap, StatusCode, header};
use net::parse_url;
use url::Url;

use crate::Error;

/// How many redirects of one request are followed.
pub(crate) const MOST_REDIRECTS: usize = 5;

/// Whether an answer is a redirect.
pub(crate) fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Where an answer redirects to: over TLS, unless the registry itself is reached without.
pub(crate) fn target(from: &Url, headers: &HeaderMap, is_insecure: bool) -> Result<Url, Error> {
    let host = from.host_str().unwrap_or_default();
    let refused = |because| Error::Redirected {
        host: host.to_owned(),
        because,
    };
    let location = headers
        .get(header::LOCATION)
        .and_then(|it| it.to_str().ok());
    let location = location.ok_or_else(|| refused("it does not say where to"))?;
    let joined = from
        .join(location)
        .map_err(|_| refused("to what is not a URL"))?;
    let url = parse_url(joined.as_str()).map_err(|_| refused("to a URL that is not usable"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("to a URL with credentials"));
    }
    let is_allowed = url.scheme() == "https" || url.scheme() == "http" && is_insecure;
    match is_allowed {
        true => Ok(url),
        false => Err(refused("to a host without TLS")),
    }
}
