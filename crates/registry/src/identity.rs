//! Credentials of the cloud that this process runs in, for the registries of that cloud.
//!
//! By workload identity, as Flux's sources use it: a token that the cluster mounts or the metadata service
//! answers with is exchanged for credentials that last for minutes. They are issued only for hosts of the
//! provider's own registries, so that no URL in a Pipeline can lead them elsewhere.

mod aws;
mod azure;
mod gcp;
mod signature;

use http::{HeaderValue, Method, header};
use net::{AddressPolicy, HttpRequest, OutboundHttp, parse_url};
use serde_json::Value;
use url::{Url, form_urlencoded};

use crate::{
    Credentials, Error, Repository,
    client::{check_status, unanswered},
};

/// How much of an answer is read.
const LONGEST_ANSWER: usize = 256 << 10;

/// A cloud whose workload identity is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloudProvider {
    /// Amazon's ECR.
    Aws,
    /// Azure's ACR.
    Azure,
    /// Google's Artifact Registry and Container Registry.
    Gcp,
}

impl CloudProvider {
    fn name(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::Azure => "azure",
            Self::Gcp => "gcp",
        }
    }

    fn has_registry(self, host: &str) -> bool {
        match self {
            Self::Aws => aws::region(host).is_some(),
            Self::Azure => azure::is_registry(host),
            Self::Gcp => gcp::is_registry(host),
        }
    }
}

/// Reads an environment variable by its name.
type ReadVariable = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The workload identity of this process.
pub struct WorkloadIdentity {
    http: OutboundHttp,
    variable: ReadVariable,
}

impl WorkloadIdentity {
    /// An identity that is described by environment variables, which the clouds' webhooks set.
    pub fn new(variable: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self {
            // The addresses are those of the cloud and of this process's environment, not of users; the
            // metadata service is an internal address without TLS.
            http: OutboundHttp::new(AddressPolicy::UNRESTRICTED),
            variable: Box::new(variable),
        }
    }

    /// The same with other settings for HTTP, such as a proxy.
    pub fn with_http(mut self, http: OutboundHttp) -> Self {
        self.http = http;
        self
    }

    /// Credentials for a repository of the provider.
    pub async fn credentials(
        &self,
        provider: CloudProvider,
        repository: &Repository,
    ) -> Result<Credentials, Error> {
        let host = repository.host();
        if !provider.has_registry(host) {
            let provider = provider.name();
            return Err(identity_error(format!(
                "{host} is no registry of {provider}"
            )));
        }
        match provider {
            CloudProvider::Aws => aws::credentials(self, host).await,
            CloudProvider::Azure => azure::credentials(self, host).await,
            CloudProvider::Gcp => gcp::credentials(self).await,
        }
    }

    /// A variable that must be set.
    fn required(&self, name: &str) -> Result<String, Error> {
        let value = (self.variable)(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| {
            let text = format!("{name} is not set; give the pod a workload identity");
            identity_error(text)
        })
    }

    /// The token in the file that a variable names.
    fn mounted_token(&self, name: &str) -> Result<String, Error> {
        let path = self.required(name)?;
        let token = std::fs::read_to_string(&path);
        let token =
            token.map_err(|_| identity_error(format!("the file in {name} is not readable")))?;
        Ok(token.trim().to_owned())
    }

    /// Sends a request and reads its answer as JSON.
    async fn ask(&self, request: HttpRequest) -> Result<Value, Error> {
        let host = request.host().to_owned();
        let client = self.http.client(&host, None);
        let client = client.map_err(|source| Error::Address {
            host: host.clone(),
            source,
        })?;
        let response = client.send(request).await;
        let response = response.map_err(|source| unanswered(&host, source))?;
        let response = check_status(&host, response).await?;
        let body = response.read_body(LONGEST_ANSWER).await;
        let body = body.map_err(|source| unanswered(&host, source))?;
        serde_json::from_slice(&body).map_err(|_| Error::NoToken { host })
    }
}

/// A POST of a form whose answer is to be JSON.
fn form(url: Url, fields: &[(&str, &str)]) -> HttpRequest {
    let mut request = HttpRequest::new(Method::POST, url);
    let body = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish();
    request.body = body.into_bytes();
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    request
        .header(header::CONTENT_TYPE, kind)
        .header(header::ACCEPT, HeaderValue::from_static("application/json"))
}

/// An address of the provider.
fn fixed_url(text: &str) -> Result<Url, Error> {
    parse_url(text).map_err(|because| Error::InvalidUrl { because })
}

/// A text of an answer.
fn text(answer: &Value, pointer: &str, host: &str) -> Result<String, Error> {
    let found = answer.pointer(pointer).and_then(Value::as_str);
    let found = found.filter(|it| !it.is_empty());
    found.map(str::to_owned).ok_or_else(|| Error::NoToken {
        host: host.to_owned(),
    })
}

fn identity_error(because: String) -> Error {
    Error::WorkloadIdentity { because }
}
