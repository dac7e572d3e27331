//! Workload identity against simulations of three clouds that refuse what the clouds refuse. No real cloud
//! was asked.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base64::{Engine, engine::general_purpose::STANDARD};
use futures::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use net::{AddressPolicy, HttpRequest, HttpResponse, HttpTransport, OutboundHttp, TransportError};
use registry::{CloudProvider, Error, RegistryClient, Repository, Tag, WorkloadIdentity};
use serde_json::{Value, json};

/// The endpoints of the clouds, and registries behind them that accept what the clouds issued.
#[derive(Default)]
struct SimulatedCloud {
    asked: Mutex<Vec<String>>,
}

fn has(request: &HttpRequest, name: &str, value: &str) -> bool {
    request.headers.get(name).is_some_and(|it| it == value)
}

fn fields(request: &HttpRequest) -> BTreeMap<String, String> {
    let pairs = url::form_urlencoded::parse(&request.body);
    pairs
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect()
}

impl SimulatedCloud {
    fn answer(&self, request: &HttpRequest) -> (u16, Value) {
        let (host, path) = (request.host(), request.url.path());
        self.asked
            .lock()
            .unwrap()
            .push(format!("{} {host}{path}", request.method));
        let form = fields(request);
        let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        match (host, path) {
            ("sts.eu-west-1.amazonaws.com", "/")
                if field("Action") == "AssumeRoleWithWebIdentity"
                    && field("RoleArn") == "arn:aws:iam::123456789012:role/sluice"
                    && field("WebIdentityToken") == "mounted" =>
            {
                let credentials = json!({
                    "AccessKeyId": "AKID", "SecretAccessKey": "secret", "SessionToken": "session",
                });
                let result = json!({"Credentials": credentials});
                let result = json!({"AssumeRoleWithWebIdentityResult": result});
                (200, json!({"AssumeRoleWithWebIdentityResponse": result}))
            }
            ("api.ecr.eu-west-1.amazonaws.com", "/")
                if has(request, "x-amz-security-token", "session")
                    && request.headers["authorization"]
                        .to_str()
                        .unwrap()
                        .starts_with("AWS4-HMAC-SHA256 Credential=AKID/") =>
            {
                let token = STANDARD.encode("AWS:issued");
                (
                    200,
                    json!({"authorizationData": [{"authorizationToken": token}]}),
                )
            }
            ("login.microsoftonline.com", "/tenant/oauth2/v2.0/token")
                if field("client_id") == "client" && field("client_assertion") == "mounted" =>
            {
                (200, json!({"access_token": "entra"}))
            }
            ("acme.azurecr.io", "/oauth2/exchange")
                if field("access_token") == "entra" && field("service") == "acme.azurecr.io" =>
            {
                (200, json!({"refresh_token": "refresh"}))
            }
            ("acme.azurecr.io", "/oauth2/token") if field("refresh_token") == "refresh" => {
                (200, json!({"access_token": "issued"}))
            }
            ("metadata.google.internal", _) if has(request, "metadata-flavor", "Google") => {
                (200, json!({"access_token": "issued"}))
            }
            ("123456789012.dkr.ecr.eu-west-1.amazonaws.com", _)
                if has(request, "authorization", &basic("AWS:issued")) =>
            {
                (404, Value::Null)
            }
            ("europe-docker.pkg.dev", _)
                if has(request, "authorization", &basic("oauth2accesstoken:issued")) =>
            {
                (404, Value::Null)
            }
            ("acme.azurecr.io", _) if has(request, "authorization", "Bearer issued") => {
                (404, Value::Null)
            }
            _ => (401, Value::Null),
        }
    }
}

impl HttpTransport for SimulatedCloud {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, TransportError>> {
        let (status, body) = self.answer(&request);
        let mut headers = HeaderMap::new();
        let challenge = match request.host() {
            "acme.azurecr.io" => {
                "Bearer realm=\"https://acme.azurecr.io/oauth2/token\",service=\"acme.azurecr.io\""
            }
            _ => "Basic realm=\"registry\"",
        };
        headers.insert("www-authenticate", challenge.parse().unwrap());
        let status = StatusCode::from_u16(status).unwrap();
        let response = HttpResponse::with_body(status, headers, body.to_string());
        Box::pin(async move { Ok(response) })
    }
}

/// Reads a tag, which is missing, with the identity's credentials; what was asked.
async fn read(
    provider: CloudProvider,
    url: &str,
    variables: &[(&str, &str)],
) -> Result<Vec<String>, Error> {
    let cloud = Arc::new(SimulatedCloud::default());
    let http = || OutboundHttp::new(AddressPolicy::UNRESTRICTED).with_transport(cloud.clone());
    let variables: BTreeMap<String, String> = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let identity = WorkloadIdentity::new(move |name| variables.get(name).cloned());
    let identity = identity.with_http(http());
    let repository = Repository::parse(url, false).unwrap();
    let credentials = identity.credentials(provider, &repository).await?;
    let http = http();
    let client = RegistryClient::new(&http, &repository, &credentials)?;
    let tag = Tag::parse("dev").unwrap();
    let found = client.manifest(registry::Reference::Tag(&tag)).await?;
    assert!(found.is_none());
    let asked = cloud.asked.lock().unwrap().clone();
    Ok(asked)
}

#[tokio::test]
async fn each_cloud_issues_credentials_that_its_registry_accepts() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "mounted\n").unwrap();
    let token = file.path().to_str().unwrap();
    let aws = [
        ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/sluice"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token),
    ];
    let url = "oci://123456789012.dkr.ecr.eu-west-1.amazonaws.com/shop";
    let asked = read(CloudProvider::Aws, url, &aws).await.unwrap();
    assert_eq!(asked[0], "POST sts.eu-west-1.amazonaws.com/");
    let azure = [
        ("AZURE_TENANT_ID", "tenant"),
        ("AZURE_CLIENT_ID", "client"),
        ("AZURE_FEDERATED_TOKEN_FILE", token),
    ];
    read(CloudProvider::Azure, "oci://acme.azurecr.io/shop", &azure)
        .await
        .unwrap();
    let url = "oci://europe-docker.pkg.dev/project/shop";
    read(CloudProvider::Gcp, url, &[]).await.unwrap();
}

#[tokio::test]
async fn credentials_are_issued_for_registries_of_the_provider_only() {
    for (provider, url) in [
        (CloudProvider::Aws, "oci://registry.example/shop"),
        (
            CloudProvider::Aws,
            "oci://123456789012.dkr.ecr.eu-west-1.amazonaws.com.evil.example/shop",
        ),
        (
            CloudProvider::Aws,
            "oci://x.dkr.ecr.eu-west-1.amazonaws.com/shop",
        ),
        (CloudProvider::Azure, "oci://azurecr.io.evil.example/shop"),
        (CloudProvider::Gcp, "oci://evilgcr.io/shop"),
        (CloudProvider::Gcp, "oci://acme.azurecr.io/shop"),
    ] {
        let error = read(provider, url, &[]).await.unwrap_err();
        assert_eq!(error.reason(), "InvalidIdentity", "{url}");
        assert!(error.to_string().contains("is no registry of"), "{error}");
    }
}

#[tokio::test]
async fn a_missing_identity_says_what_is_missing() {
    let url = "oci://123456789012.dkr.ecr.eu-west-1.amazonaws.com/shop";
    let error = read(CloudProvider::Aws, url, &[]).await.unwrap_err();
    assert!(
        error.to_string().contains("AWS_ROLE_ARN is not set"),
        "{error}"
    );
    let error = read(CloudProvider::Azure, "oci://acme.azurecr.io/shop", &[])
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("AZURE_TENANT_ID is not set"),
        "{error}"
    );
}
