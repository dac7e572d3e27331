//! Sign-in with an OpenID Connect provider: the authorization code flow with PKCE, state and nonce.
//!
//! The outcome is the Kubernetes user that the ID token names. What that user may do is decided by
//! SubjectAccessReviews, as for users of tokens. Codes and tokens of the provider are neither stored,
//! logged nor shown.

mod id_token;
mod keys;
mod provider;
mod user;

use std::{path::PathBuf, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use net::{AddressPolicy, HttpError, Proxy};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use url::Url;

pub use keys::SigningAlgorithm;
pub(crate) use user::OidcUser;

use crate::random;
use id_token::ExpectedToken;
use provider::{FetchedKeys, Provider};

/// The path that the provider sends browsers back to.
pub const CALLBACK: &str = "/login/oidc/callback";
/// How long signing in may take, in seconds.
const MAX_DURATION: i64 = 10 * 60;

/// The OpenID provider, and how its users are named. The flags of kube-apiserver that are called the
/// same mean the same.
#[derive(Clone, Debug)]
pub struct OidcSettings {
    /// The URL of the provider, exactly as its tokens name it.
    pub issuer_url: String,
    /// The id of Sluice at the provider.
    pub client_id: String,
    /// The file with the client secret; none for a public client.
    pub client_secret_file: Option<PathBuf>,
    /// Certificate authorities that are trusted beside those of the system.
    pub ca_file: Option<PathBuf>,
    /// The scopes to ask for beside `openid`.
    pub scopes: Vec<String>,
    /// The claim with the name of the user.
    pub username_claim: String,
    /// What is put before the name; `-` for nothing, none for kube-apiserver's default.
    pub username_prefix: Option<String>,
    /// The claim with the groups of the user, if any.
    pub groups_claim: Option<String>,
    /// What is put before each group.
    pub groups_prefix: String,
    /// Claims that a token must have, and their values.
    pub required_claims: Vec<(String, String)>,
    /// The algorithms that tokens may be signed with.
    pub signing_algorithms: Vec<SigningAlgorithm>,
    /// Where the provider sends the browser back to.
    pub redirect_url: String,
    /// How long a session lasts.
    pub session_duration: Duration,
    /// Which addresses the provider may have.
    pub address_policy: AddressPolicy,
    /// The proxy to reach the provider through, if any.
    pub proxy: Option<Proxy>,
}

/// Why a sign-in failed. The messages are shown to people, and contain neither codes nor tokens.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Error {
    #[error("The sign-in provider could not be asked for {what}. Try again later, or use a token.")]
    Unreachable {
        what: &'static str,
        source: Arc<HttpError>,
    },
    #[error("The sign-in provider refused {what}: {status} {code}. Sign in again.")]
    Refused {
        what: &'static str,
        status: u16,
        code: String,
    },
    #[error(
        "The sign-in provider answered {status} when asked for {what}. Try again later, or use a token."
    )]
    Failing { what: &'static str, status: u16 },
    #[error("The sign-in provider's answer about {what} cannot be used. See --oidc-issuer-url.")]
    Answer { what: &'static str },
    #[error("The sign-in provider calls itself {0:?}. Set --oidc-issuer-url to exactly that.")]
    OtherIssuer(String),
    #[error("The sign-in provider has an address that Sluice does not connect to: {0}.")]
    Address(String),
    #[error("The file of {flag} cannot be read.")]
    File {
        flag: &'static str,
        source: Arc<std::io::Error>,
    },
    #[error("The file of --oidc-client-secret-file holds no usable secret.")]
    ClientSecret,
    #[error(
        "This sign-in was not started in this browser, or more than ten minutes ago. Try again."
    )]
    NotStarted,
    #[error("The answer is from another sign-in provider. Try again.")]
    OtherProvider,
    #[error("The sign-in provider did not sign you in: {0}.")]
    Denied(String),
    #[error("The sign-in provider's ID token is refused: {0}.")]
    IdToken(&'static str),
    #[error("The sign-in provider's ID token is refused: it is signed with an unknown key.")]
    UnknownKey,
    #[error("The ID token has no text in the claim {0:?}, which --oidc-username-claim names.")]
    MissingClaim(String),
    #[error("The sign-in provider has not verified your e-mail address.")]
    UnverifiedEmail,
    #[error("The claim {0:?}, which --oidc-groups-claim names, is not a list of texts.")]
    GroupsClaim(String),
    #[error(
        "You are in too many groups: the ID token does not contain them. Have the provider send only \
         the groups that matter for Sluice in the claim {0:?}."
    )]
    GroupsElsewhere(String),
    #[error("The claim {0:?} does not have the value that --oidc-required-claim demands.")]
    RequiredClaim(String),
    #[error(
        "{0:?} is a name that only Kubernetes and Sluice give. Set a prefix for names of the provider."
    )]
    ReservedName(String),
    #[error(
        "The name of the user or of a group is longer than 256 bytes or has control characters."
    )]
    UnusableName,
}

impl Error {
    /// Whether the provider or our settings are at fault rather than the person who signs in.
    pub(crate) fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Failing { .. }
                | Self::Answer { .. }
                | Self::OtherIssuer(_)
                | Self::Address(_)
                | Self::File { .. }
                | Self::ClientSecret
        )
    }
}

/// A sign-in that is under way, kept in an encrypted cookie of the browser.
#[derive(Serialize, Deserialize)]
pub(crate) struct SignInAttempt {
    state: String,
    nonce: String,
    /// The PKCE secret that proves to the provider that we asked for the code.
    verifier: String,
    /// The path to go to afterwards.
    pub(crate) next: String,
    /// In seconds since 1970.
    ends: i64,
}

/// What the provider appends to the address that it sends the browser back to.
#[derive(Deserialize)]
pub(crate) struct CallbackQuery {
    #[serde(default)]
    state: String,
    code: Option<String>,
    error: Option<String>,
    iss: Option<String>,
}

/// Signs people in with the provider.
pub(crate) struct Oidc {
    pub(crate) settings: OidcSettings,
    provider: Provider,
}

impl Oidc {
    pub(crate) fn new(settings: OidcSettings) -> Self {
        Self {
            provider: Provider::new(&settings),
            settings,
        }
    }

    /// Starts a sign-in; returns the address of the provider to send the browser to.
    pub(crate) async fn start(
        &self,
        next: &str,
        now: Timestamp,
    ) -> Result<(SignInAttempt, Url), Error> {
        let metadata = self.provider.metadata(&self.settings).await?;
        let attempt = SignInAttempt {
            state: random::token(),
            nonce: random::token(),
            verifier: random::token(),
            next: next.to_owned(),
            ends: now.as_second() + MAX_DURATION,
        };
        let url = net::parse_url(&metadata.authorization_endpoint);
        let what = "its metadata";
        let mut url = url.map_err(|_| Error::Answer { what })?;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&attempt.verifier));
        let scopes =
            std::iter::once("openid").chain(self.settings.scopes.iter().map(String::as_str));
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &self.settings.redirect_url)
            .append_pair("scope", &scopes.collect::<Vec<_>>().join(" "))
            .append_pair("state", &attempt.state)
            .append_pair("nonce", &attempt.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        Ok((attempt, url))
    }

    /// The user whom the provider has signed in.
    pub(crate) async fn finish(
        &self,
        attempt: &SignInAttempt,
        callback: &CallbackQuery,
        now: Timestamp,
    ) -> Result<OidcUser, Error> {
        let is_ours = Sha256::digest(&callback.state) == Sha256::digest(&attempt.state);
        if !is_ours || attempt.ends <= now.as_second() {
            return Err(Error::NotStarted);
        }
        let issuer = callback.iss.as_ref();
        if issuer.is_some_and(|it| *it != self.settings.issuer_url) {
            return Err(Error::OtherProvider);
        }
        let Some(code) = callback.code.as_deref() else {
            let code = plain_code(callback.error.as_deref().unwrap_or("it sent no code"));
            return Err(Error::Denied(code));
        };
        let exchanged = self.provider.exchange(&self.settings, attempt, code);
        let token = exchanged.await?;
        let expected = ExpectedToken {
            issuer: &self.settings.issuer_url,
            client_id: &self.settings.client_id,
            nonce: &attempt.nonce,
            algorithms: &self.settings.signing_algorithms,
            now: now.as_second(),
        };
        let claims = self.verify(&token, &expected).await?;
        user::user(&claims, &self.settings)
    }

    /// Verifies a token. Keys that do not know it are read once more: the provider may have new ones.
    async fn verify(
        &self,
        token: &str,
        expected: &ExpectedToken<'_>,
    ) -> Result<id_token::Claims, Error> {
        let keys = self.provider.keys(&self.settings, |_| true).await?;
        match id_token::verify(token, &keys.set, expected) {
            Err(Error::UnknownKey) if keys.may_be_outdated() => {
                let is_new = |keys: &FetchedKeys| !keys.may_be_outdated();
                let keys = self.provider.keys(&self.settings, is_new).await?;
                id_token::verify(token, &keys.set, expected)
            }
            verified => verified,
        }
    }
}

/// An error code of the provider, as far as it is plain text.
fn plain_code(code: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || " _-.".contains(*c);
    code.chars().filter(is_plain).take(64).collect()
}
