//! Amazon: the token that the cluster mounts is exchanged for a role's credentials, and with those ECR is
//! asked for a password.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderName, HeaderValue, Method, header};
use jiff::Timestamp;
use net::HttpRequest;

use super::{
    WorkloadIdentity, fixed_url, form, identity_error,
    signature::{RequestSigningKey, Signature},
    text,
};
use crate::{Credentials, Error, credentials::sensitive};

/// The operation that is asked for.
const TARGET: &str = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken";
const CONTENT_TYPE: &str = "application/x-amz-json-1.1";

/// The region of a registry: `ACCOUNT.dkr.ecr.REGION.amazonaws.com`.
pub(super) fn region(host: &str) -> Option<&str> {
    let rest = host
        .strip_suffix(".amazonaws.com")
        .or_else(|| host.strip_suffix(".amazonaws.com.cn"))?;
    let (account, rest) = rest.split_once(".dkr.")?;
    let region = rest
        .strip_prefix("ecr.")
        .or_else(|| rest.strip_prefix("ecr-fips."))?;
    let is_account = account.len() == 12 && account.bytes().all(|it| it.is_ascii_digit());
    let is_word = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
    (is_account && !region.is_empty() && region.bytes().all(is_word)).then_some(region)
}

/// The credentials of a role.
struct Role {
    id: String,
    secret: String,
    session: String,
}

pub(super) async fn credentials(
    identity: &WorkloadIdentity,
    host: &str,
) -> Result<Credentials, Error> {
    let region = region(host).unwrap_or_default();
    let domain = match host.ends_with(".cn") {
        true => "amazonaws.com.cn",
        false => "amazonaws.com",
    };
    let role = assume_role(identity, region, domain).await?;
    let url = fixed_url(&format!("https://api.ecr.{region}.{domain}/"))?;
    let asked = url.host_str().unwrap_or_default().to_owned();
    let request = signed(HttpRequest::new(Method::POST, url), &role, region);
    let answer = identity.ask(request?).await?;
    let encoded = text(&answer, "/authorizationData/0/authorizationToken", &asked)?;
    let decoded = STANDARD
        .decode(encoded)
        .ok()
        .and_then(|it| String::from_utf8(it).ok());
    let (user, password) = decoded
        .as_deref()
        .and_then(|it| it.split_once(':'))
        .ok_or(Error::NoToken { host: asked })?;
    Ok(Credentials::password(user, password))
}

async fn assume_role(
    identity: &WorkloadIdentity,
    region: &str,
    domain: &str,
) -> Result<Role, Error> {
    let role = identity.required("AWS_ROLE_ARN")?;
    let mounted = identity.mounted_token("AWS_WEB_IDENTITY_TOKEN_FILE")?;
    let url = fixed_url(&format!("https://sts.{region}.{domain}/"))?;
    let host = url.host_str().unwrap_or_default().to_owned();
    let fields = [
        ("Action", "AssumeRoleWithWebIdentity"),
        ("Version", "2011-06-15"),
        ("RoleArn", role.as_str()),
        ("RoleSessionName", "sluice"),
        ("WebIdentityToken", mounted.as_str()),
    ];
    let answer = identity.ask(form(url, &fields)).await?;
    let start = "/AssumeRoleWithWebIdentityResponse/AssumeRoleWithWebIdentityResult/Credentials";
    let field = |name: &str| text(&answer, &format!("{start}/{name}"), &host);
    Ok(Role {
        id: field("AccessKeyId")?,
        secret: field("SecretAccessKey")?,
        session: field("SessionToken")?,
    })
}

/// The request to ECR with its signature.
fn signed(mut request: HttpRequest, role: &Role, region: &str) -> Result<HttpRequest, Error> {
    request.body = b"{}".to_vec();
    let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let host = request.host().to_owned();
    let headers = [
        ("content-type", CONTENT_TYPE),
        ("host", host.as_str()),
        ("x-amz-date", time.as_str()),
        ("x-amz-security-token", role.session.as_str()),
        ("x-amz-target", TARGET),
    ];
    let key = RequestSigningKey::new(&role.secret, &time, region, "ecr");
    let signature = Signature {
        method: "POST",
        query: "",
        headers: &headers,
        body: &request.body,
    };
    let unusable = || identity_error("the role's credentials cannot be sent".to_owned());
    let authorization = signature.authorization(&key, &role.id, &time);
    let authorization = sensitive(&authorization).ok_or_else(unusable)?;
    let session = sensitive(&role.session).ok_or_else(unusable)?;
    let time = HeaderValue::from_str(&time).map_err(|_| unusable())?;
    Ok(request
        .header(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE))
        .header(HeaderName::from_static("x-amz-date"), time)
        .header(HeaderName::from_static("x-amz-security-token"), session)
        .header(
            HeaderName::from_static("x-amz-target"),
            HeaderValue::from_static(TARGET),
        )
        .header(header::AUTHORIZATION, authorization))
}
