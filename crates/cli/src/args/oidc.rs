//! Flags for sign-in to the dashboard with an OpenID Connect provider.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use net::{AddressPolicy, Proxy};
use server::settings::{OIDC_CALLBACK, OidcSettings, SESSION_LIFETIME, SigningAlgorithm};

const OIDC: &str = "Sign-in with OpenID Connect (flags of kube-apiserver mean the same here)";

/// Either none of these flags is set, or issuer and client id are.
#[derive(Debug, Args)]
pub(crate) struct OidcFlags {
    /// URL of the provider, exactly as its tokens name it, such as `https://dex.example.com`; needs
    /// --dashboard-url [default: none; people sign in with a token]
    #[arg(long, env = "SLUICE_OIDC_ISSUER_URL", value_name = "URL", help_heading = OIDC)]
    pub(crate) oidc_issuer_url: Option<String>,

    /// Id of Sluice at the provider; its redirect URI there is the --dashboard-url followed by
    /// `/login/oidc/callback`
    #[arg(long, env = "SLUICE_OIDC_CLIENT_ID", value_name = "ID", help_heading = OIDC)]
    pub(crate) oidc_client_id: Option<String>,

    /// File with the client secret, read at each sign-in [default: none; a public client]
    #[arg(long, env = "SLUICE_OIDC_CLIENT_SECRET_FILE", value_name = "FILE", help_heading = OIDC)]
    pub(crate) oidc_client_secret_file: Option<PathBuf>,

    /// PEM certificate authorities of the provider, trusted beside the system's
    #[arg(long, env = "SLUICE_OIDC_CA_FILE", value_name = "FILE", help_heading = OIDC)]
    pub(crate) oidc_ca_file: Option<PathBuf>,

    /// Scopes to ask for beside `openid`, separated by commas
    #[arg(long, env = "SLUICE_OIDC_SCOPES", value_name = "SCOPES", value_delimiter = ',', default_value = "profile,email", help_heading = OIDC)]
    pub(crate) oidc_scopes: Vec<String>,

    /// Claim with the user name. `email` counts only if `email_verified` is true
    #[arg(long, env = "SLUICE_OIDC_USERNAME_CLAIM", value_name = "CLAIM", default_value = "sub", help_heading = OIDC)]
    pub(crate) oidc_username_claim: String,

    /// Prefix of user names; `-` for none [default: none for `email`, else the issuer URL and `#`]
    #[arg(long, env = "SLUICE_OIDC_USERNAME_PREFIX", value_name = "PREFIX", help_heading = OIDC)]
    pub(crate) oidc_username_prefix: Option<String>,

    /// Claim with the groups of the user: a string or a list of strings [default: none; no groups]
    #[arg(long, env = "SLUICE_OIDC_GROUPS_CLAIM", value_name = "CLAIM", help_heading = OIDC)]
    pub(crate) oidc_groups_claim: Option<String>,

    /// Prefix of groups
    #[arg(long, env = "SLUICE_OIDC_GROUPS_PREFIX", value_name = "PREFIX", default_value = "", help_heading = OIDC)]
    pub(crate) oidc_groups_prefix: String,

    /// Claims that an ID token must have, as CLAIM=VALUE, separated by commas
    #[arg(long, env = "SLUICE_OIDC_REQUIRED_CLAIM", value_name = "CLAIMS", value_delimiter = ',', help_heading = OIDC)]
    pub(crate) oidc_required_claim: Vec<String>,

    /// Algorithms that ID tokens may be signed with: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384
    #[arg(long, env = "SLUICE_OIDC_SIGNING_ALGS", value_name = "ALGORITHMS", value_delimiter = ',', default_value = "RS256", help_heading = OIDC)]
    pub(crate) oidc_signing_algs: Vec<SigningAlgorithm>,

    /// How long a session lasts, at most 8h; people who leave a group keep its permissions until then
    #[arg(long, env = "SLUICE_OIDC_SESSION_DURATION", value_name = "DURATION", default_value = "1h", help_heading = OIDC)]
    pub(crate) oidc_session_duration: api::Duration,
}

impl OidcFlags {
    /// Validates the flags.
    pub(crate) fn check(
        &self,
        dashboard_url: Option<&str>,
        allow_internal: bool,
        proxy: Option<Proxy>,
    ) -> anyhow::Result<Option<OidcSettings>> {
        let client_id = text(self.oidc_client_id.as_ref());
        let Some(issuer_url) = text(self.oidc_issuer_url.as_ref()) else {
            ensure!(
                client_id.is_none(),
                "--oidc-client-id needs --oidc-issuer-url"
            );
            return Ok(None);
        };
        let client_id = client_id.context("--oidc-issuer-url needs --oidc-client-id")?;
        check_issuer(&issuer_url)?;
        let dashboard_url = dashboard_url.context(
            "--oidc-issuer-url needs --dashboard-url: the provider sends browsers back there",
        )?;
        Ok(Some(OidcSettings {
            redirect_url: format!("{}{OIDC_CALLBACK}", dashboard_url.trim_end_matches('/')),
            issuer_url,
            client_id,
            client_secret_file: file(self.oidc_client_secret_file.as_ref()),
            ca_file: file(self.oidc_ca_file.as_ref()),
            scopes: texts(&self.oidc_scopes),
            username_claim: self.oidc_username_claim.clone(),
            username_prefix: self.oidc_username_prefix.clone(),
            groups_claim: text(self.oidc_groups_claim.as_ref()),
            groups_prefix: self.oidc_groups_prefix.clone(),
            required_claims: self.required_claims()?,
            signing_algorithms: self.oidc_signing_algs.clone(),
            session_duration: self.session_duration()?,
            address_policy: AddressPolicy {
                allow_internal,
                allow_insecure: false,
            },
            proxy,
        }))
    }

    fn required_claims(&self) -> anyhow::Result<Vec<(String, String)>> {
        let claims = texts(&self.oidc_required_claim).into_iter().map(|claim| {
            let (name, value) = claim.split_once('=').with_context(|| {
                format!("--oidc-required-claim: `{claim}` is not of the form CLAIM=VALUE")
            })?;
            Ok((name.to_owned(), value.to_owned()))
        });
        claims.collect()
    }

    fn session_duration(&self) -> anyhow::Result<Duration> {
        let duration = self.oidc_session_duration.length();
        ensure!(
            (Duration::from_secs(60)..=SESSION_LIFETIME).contains(&duration),
            "--oidc-session-duration must be between 1m and 8h"
        );
        Ok(duration)
    }
}

/// Tokens repeat the issuer byte by byte, so that it is checked but used as it was written.
fn check_issuer(issuer_url: &str) -> anyhow::Result<()> {
    const REQUIRED: &str = "--oidc-issuer-url must be a URL that begins with https://";
    let url = net::parse_url(issuer_url).map_err(|because| anyhow!("{REQUIRED}: {because}"))?;
    ensure!(url.scheme() == "https", REQUIRED);
    ensure!(
        url.query().is_none() && url.fragment().is_none() && url.username().is_empty(),
        "--oidc-issuer-url must have neither a query, a fragment nor a user"
    );
    Ok(())
}

fn text(typed: Option<&String>) -> Option<String> {
    typed.filter(|text| !text.is_empty()).cloned()
}

fn texts(typed: &[String]) -> Vec<String> {
    let texts = typed.iter().map(|text| text.trim().to_owned());
    texts.filter(|text| !text.is_empty()).collect()
}

fn file(typed: Option<&PathBuf>) -> Option<PathBuf> {
    typed.filter(|path| !path.as_os_str().is_empty()).cloned()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{self, Command};

    const ISSUER: &str = "--oidc-issuer-url=https://dex.example.com";
    const CLIENT: &str = "--oidc-client-id=sluice";

    fn checked(flags: &[&str]) -> anyhow::Result<Option<OidcSettings>> {
        let words = ["sluice", "controller"].iter().chain(flags);
        match args::Arguments::try_parse_from(words)?.command {
            Command::Controller(arguments) => {
                let dashboard = Some("https://sluice.example.com/");
                arguments.oidc.check(dashboard, false, None)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn defaults_are_those_of_kube_apiserver() {
        assert!(checked(&[]).unwrap().is_none());
        let settings = checked(&[ISSUER, CLIENT]).unwrap().unwrap();
        assert_eq!(settings.issuer_url, "https://dex.example.com");
        let redirect_url = "https://sluice.example.com/login/oidc/callback";
        assert_eq!(settings.redirect_url, redirect_url);
        assert_eq!(settings.username_claim, "sub");
        assert_eq!(settings.username_prefix, None);
        assert_eq!(settings.groups_claim, None);
        assert_eq!(settings.signing_algorithms, [SigningAlgorithm::Rs256]);
        assert!(!settings.address_policy.allow_insecure);
    }

    #[test]
    fn lists_are_separated_by_commas() {
        let flags = [
            ISSUER,
            CLIENT,
            "--oidc-scopes=email, groups,",
            "--oidc-required-claim=hd=shop.example,tier=a=b",
            "--oidc-signing-algs=RS256,ES256",
        ];
        let settings = checked(&flags).unwrap().unwrap();
        assert_eq!(settings.scopes, ["email", "groups"]);
        let claims = settings.required_claims.iter();
        let claims: Vec<_> = claims
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        assert_eq!(claims, ["hd: shop.example", "tier: a=b"]);
        assert_eq!(settings.signing_algorithms.len(), 2);
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        for (flags, because) in [
            (&[ISSUER][..], "--oidc-issuer-url needs --oidc-client-id"),
            (&[CLIENT], "--oidc-client-id needs --oidc-issuer-url"),
            (
                &["--oidc-issuer-url=http://dex.example.com", CLIENT],
                "https://",
            ),
            (
                &["--oidc-issuer-url=https://dex.example.com?a=b", CLIENT],
                "a query",
            ),
            (&[ISSUER, CLIENT, "--oidc-required-claim=hd"], "CLAIM=VALUE"),
            (&[ISSUER, CLIENT, "--oidc-signing-algs=HS256"], "RS256"),
            (&[ISSUER, CLIENT, "--oidc-signing-algs=none"], "RS256"),
            (
                &[ISSUER, CLIENT, "--oidc-session-duration=9h"],
                "between 1m and 8h",
            ),
        ] {
            let error = checked(flags).unwrap_err().to_string();
            assert!(error.contains(because), "{flags:?}: {error}");
        }
    }
}
