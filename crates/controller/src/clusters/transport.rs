//! The HTTP client for leaf clusters: the layers of kube's own client, and two checks.
//!
//! Each connection is refused if the host name resolves to an internal address. The body of an error
//! response is passed on only if it is a Kubernetes `Status`: messages are shown in statuses, whose
//! readers must not see the responses of other servers.

use std::{net::SocketAddr, vec};

use axum::body::{Body as AnyBody, Bytes, HttpBody};
use http::{Response, header};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{
        Client as HttpClient,
        connect::{HttpConnector, dns::Name},
    },
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt, retry::RetryPolicy},
};
use net::{AddressError, AddressPolicy};
use serde_json::{Value, json};
use tower::{BoxError, ServiceBuilder, retry::RetryLayer, service_fn};
use tower_http::decompression::DecompressionLayer;

use super::kubeconfig::refusal;

/// The longest body of an error that is read.
const LONGEST_ERROR: usize = 64 << 10;

/// A client that connects only where the policy allows.
pub(super) fn client(config: Config, policy: AddressPolicy) -> Result<Client, kube::Error> {
    let resolver = service_fn(move |name: Name| resolve(name, policy));
    let mut connector = HttpConnector::new_with_resolver(resolver);
    connector.enforce_http(false);
    // Requests are small, and a status waits for each.
    connector.set_nodelay(true);
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let mut connector = TimeoutConnector::new(connector);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .and_then(with_status_only)
        .layer(config.base_uri_layer())
        .layer(DecompressionLayer::new().gzip(!config.disable_compression))
        .layer(RetryLayer::new(RetryPolicy::server_retry()))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}

async fn resolve(name: Name, policy: AddressPolicy) -> Result<vec::IntoIter<SocketAddr>, BoxError> {
    match policy.resolve(name.as_str(), 0).await {
        Ok(addresses) => Ok(addresses.into_iter()),
        // To the caller a name that does not resolve is a host that cannot be reached.
        Err(AddressError::Unresolvable { source, .. }) => Err(source.into()),
        Err(refused) => Err(refusal(&refused).into()),
    }
}

/// Replaces the body of an error that is not a Kubernetes `Status`.
async fn with_status_only<B>(response: Response<B>) -> Result<Response<AnyBody>, BoxError>
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (mut parts, body) = response.into_parts();
    let body = AnyBody::new(body);
    if !parts.status.is_client_error() && !parts.status.is_server_error() {
        return Ok(Response::from_parts(parts, body));
    }
    let body = axum::body::to_bytes(body, LONGEST_ERROR).await;
    let body = body.ok().filter(|body| is_status(body));
    let body = body.unwrap_or_else(|| no_status(parts.status.as_u16()));
    parts.headers.remove(header::CONTENT_LENGTH);
    Ok(Response::from_parts(parts, AnyBody::from(body)))
}

fn is_status(body: &[u8]) -> bool {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    value["kind"] == "Status" && value["apiVersion"] == "v1"
}

fn no_status(code: u16) -> Bytes {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "message": "the answer is not a Kubernetes Status",
    });
    status.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn passed_on(code: u16, body: &str) -> String {
        let response = Response::builder().status(code);
        let response = response.body(AnyBody::from(body.to_owned())).unwrap();
        let response = with_status_only(response).await.unwrap();
        assert_eq!(response.status().as_u16(), code);
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await;
        String::from_utf8(body.unwrap().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn only_the_body_of_a_status_is_passed_on() {
        let status = r#"{"kind":"Status","apiVersion":"v1","message":"pods is forbidden"}"#;
        assert_eq!(passed_on(403, status).await, status);
        // Successful responses are not read here.
        assert_eq!(passed_on(200, "anything").await, "anything");
        let long = format!(
            r#"{{"kind":"Status","apiVersion":"v1","message":"hunter22{}"}}"#,
            "x".repeat(LONGEST_ERROR)
        );
        for body in [
            "hunter22",
            r#"{"message":"hunter22"}"#,
            r#"{"kind":"Status","message":"hunter22"}"#,
            r#"[{"kind":"Status","apiVersion":"v1","message":"hunter22"}]"#,
            &long,
        ] {
            let passed_on = passed_on(500, body).await;
            assert!(passed_on.contains("not a Kubernetes Status"), "{passed_on}");
            assert!(!passed_on.contains("hunter22"), "{passed_on}");
        }
    }
}
