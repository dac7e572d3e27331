//! The Kubernetes user that an ID token names, made with the same rules as kube-apiserver's.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Error, OidcSettings, id_token::Claims};

/// Names of Kubernetes itself, and of webhook keys that approve: no provider may give them.
const RESERVED: [&str; 2] = ["system:", "secret:"];
/// The longest name of a user or a group.
const MAX_NAME_LENGTH: usize = 256;
/// The claim with which a provider confirms an e-mail address.
const EMAIL_VERIFIED: &str = "email_verified";

/// A user whom the provider has authenticated.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(crate) struct OidcUser {
    /// With the prefix, as the Kubernetes API knows it.
    pub(crate) name: String,
    /// With the prefix.
    pub(crate) groups: Vec<String>,
    /// The provider. A session is not valid with another one.
    pub(crate) issuer: String,
}

/// The user of verified claims.
pub(super) fn user(claims: &Claims, settings: &OidcSettings) -> Result<OidcUser, Error> {
    check_required(claims, settings)?;
    let claim = &settings.username_claim;
    let name = claims.get(claim).and_then(Value::as_str);
    let name = name.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Error::MissingClaim(claim.clone()))?;
    if claim == "email" && claims.get(EMAIL_VERIFIED) != Some(&Value::Bool(true)) {
        return Err(Error::UnverifiedEmail);
    }
    let name = format!("{}{name}", username_prefix(settings));
    let groups = groups(claims, settings)?;
    for name in groups.iter().chain([&name]) {
        check_name(name)?;
    }
    Ok(OidcUser {
        name,
        groups,
        issuer: settings.issuer_url.clone(),
    })
}

/// kube-apiserver's rule: names that are no e-mail addresses are prefixed with the issuer unless the
/// operator says otherwise, and `-` means no prefix.
fn username_prefix(settings: &OidcSettings) -> String {
    match settings.username_prefix.as_deref().unwrap_or_default() {
        "-" => String::new(),
        "" if settings.username_claim == "email" => String::new(),
        "" => format!("{}#", settings.issuer_url),
        prefix => prefix.to_owned(),
    }
}

fn groups(claims: &Claims, settings: &OidcSettings) -> Result<Vec<String>, Error> {
    let Some(claim) = &settings.groups_claim else {
        return Ok(Vec::new());
    };
    let elsewhere = claims.get("_claim_names").and_then(|it| it.get(claim));
    if elsewhere.is_some() {
        return Err(Error::GroupsElsewhere(claim.clone()));
    }
    let wrong = || Error::GroupsClaim(claim.clone());
    let names = match claims.get(claim) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(name)) => vec![name.as_str()],
        Some(Value::Array(names)) => {
            let names = names.iter().map(|name| name.as_str().ok_or_else(wrong));
            names.collect::<Result<_, _>>()?
        }
        Some(_) => return Err(wrong()),
    };
    let names = names.into_iter().filter(|name| !name.is_empty());
    let mut groups: Vec<String> = names
        .map(|name| format!("{}{name}", settings.groups_prefix))
        .collect();
    groups.sort_unstable();
    groups.dedup();
    Ok(groups)
}

fn check_required(claims: &Claims, settings: &OidcSettings) -> Result<(), Error> {
    let is_met = |(name, value): &&(String, String)| {
        claims.get(name).and_then(Value::as_str) == Some(value.as_str())
    };
    match settings.required_claims.iter().find(|it| !is_met(it)) {
        Some((name, _)) => Err(Error::RequiredClaim(name.clone())),
        None => Ok(()),
    }
}

fn check_name(name: &str) -> Result<(), Error> {
    if name.len() > MAX_NAME_LENGTH || name.chars().any(char::is_control) {
        return Err(Error::UnusableName);
    }
    match RESERVED.iter().any(|prefix| name.starts_with(prefix)) {
        true => Err(Error::ReservedName(name.to_owned())),
        false => Ok(()),
    }
}
