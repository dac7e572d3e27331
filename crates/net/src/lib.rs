//! Outbound HTTP for all crates: one address policy, proxies, time and size limits, redaction.
//!
//! Every request goes through [`HttpClient`]: it never follows redirects, never connects to an address
//! that the [`AddressPolicy`] forbids, and is bounded in time and size. The network itself is behind
//! [`HttpTransport`], which a simulation replaces. No Kubernetes, no forges.
#![warn(missing_docs)]

mod address;
mod client;
mod host_patterns;
mod proxy;
mod rate_limit;
mod remedy;
mod reqwest_transport;
mod secret;
mod transport;
mod url;

pub use self::url::{is_plain_name, parse_url, parse_url_with_login};
pub use address::{AddressError, AddressPolicy, is_internal};
pub use client::{HttpClient, OutboundHttp};
pub use host_patterns::{HostPatterns, InvalidHostPattern};
pub use proxy::Proxy;
pub use rate_limit::RateLimiter;
pub use remedy::Remedy;
pub use secret::{SecretValue, redact};
pub use transport::{HttpError, HttpRequest, HttpResponse, HttpTransport, TransportError};
