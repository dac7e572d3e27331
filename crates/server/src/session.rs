//! Browser sessions: who has signed in, in an encrypted cookie.
//!
//! The encryption key is in a Secret, so that every replica can read the cookies of the others. A bearer
//! token is authenticated with each request like any other; a user of the OpenID provider was
//! authenticated when they signed in. A session ends when its token expires, when its time is over, or on
//! all replicas when its owner signs out. Neither the key nor a token is ever logged or shown.

mod secret;

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderValue, header};
use jiff::Timestamp;
use kube::Client;
use ring::aead::{Aad, NONCE_LEN, Nonce};
use runtime::Clock;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    oidc::{OidcUser, SignInAttempt},
    random,
};
use secret::{NAME, SessionSecret};

/// How long a session lasts at most.
pub const LIFETIME: Duration = Duration::from_secs(8 * 60 * 60);
/// The cookie of a session.
const SESSION_COOKIE: &str = "sluice-session";
/// The cookie of a sign-in with the OpenID provider that is under way.
const ATTEMPT_COOKIE: &str = "sluice-sign-in";
/// The cookie of the message that the next page shows.
const FLASH_COOKIE: &str = "sluice-flash";
/// The longest cookie that every browser stores.
const MAX_COOKIE_LENGTH: usize = 3800;

/// Why a session could not be read, created or ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot read or create the Secret {namespace}/{NAME} with the session key")]
    Secret {
        namespace: String,
        source: kube::Error,
    },
    #[error(
        "you are still signed in: cannot revoke the session in the Secret {namespace}/{NAME}; try again"
    )]
    SignOut {
        namespace: String,
        source: kube::Error,
    },
    #[error(
        "the Secret {namespace}/{NAME} contains no key of 32 bytes; delete it to get a new one"
    )]
    Key { namespace: String },
    #[error("the token is too long for a cookie; use a shorter one, such as a service account's")]
    TooLong,
    #[error(
        "you are in too many groups for a cookie; have the provider send only those that matter for Sluice"
    )]
    TooManyGroups,
}

/// Who has signed in.
#[derive(Serialize, Deserialize, Clone)]
pub(crate) enum Identity {
    /// Whoever the Kubernetes API says that this bearer token belongs to.
    Token(String),
    /// A user of the OpenID provider.
    User(OidcUser),
}

/// Creates and reads the cookies of sessions.
pub(crate) struct Sessions {
    clock: Clock,
    secret: SessionSecret,
}

/// The session of a browser.
#[derive(Serialize, Deserialize, Clone)]
pub(crate) struct Session {
    /// Who has signed in; nobody before.
    pub(crate) identity: Option<Identity>,
    /// The CSRF token that each form must carry.
    pub(crate) csrf: String,
    /// When it ends, in seconds since 1970.
    pub(crate) ends: i64,
}

impl Session {
    fn new(identity: Option<Identity>, lifetime: Duration, now: Timestamp) -> Self {
        let seconds = i64::try_from(lifetime.as_secs()).unwrap_or_default();
        Self {
            identity,
            csrf: random::id(),
            ends: now.as_second() + seconds,
        }
    }

    /// Whether a form carries the CSRF token of this session.
    pub(crate) fn has_csrf_token(&self, csrf: &str) -> bool {
        use sha2::{Digest, Sha256};
        Sha256::digest(csrf) == Sha256::digest(&self.csrf)
    }
}

impl Sessions {
    pub(crate) fn new(client: Client, clock: Clock) -> Self {
        Self {
            clock,
            secret: SessionSecret::new(client),
        }
    }

    /// A new session; without an identity before signing in.
    pub(crate) fn start(&self, identity: Option<Identity>) -> Session {
        Session::new(identity, LIFETIME, self.clock.now())
    }

    /// A new session that lasts no longer than this.
    pub(crate) fn start_for(&self, identity: Identity, lifetime: Duration) -> Session {
        Session::new(Some(identity), lifetime.min(LIFETIME), self.clock.now())
    }

    /// The valid session of a request, if any.
    pub(crate) async fn read(&self, headers: &HeaderMap) -> Result<Option<Session>, Error> {
        let session: Option<Session> = self.decrypt_cookie(headers, SESSION_COOKIE).await?;
        match session {
            Some(session) if self.is_valid(&session).await? => Ok(Some(session)),
            _ => Ok(None),
        }
    }

    /// Whether a session has neither expired nor been revoked.
    pub(crate) async fn is_valid(&self, session: &Session) -> Result<bool, Error> {
        if session.ends <= self.clock.now().as_second() {
            return Ok(false);
        }
        if session.identity.is_none() {
            return Ok(true);
        }
        Ok(!self.secret.is_revoked(session).await?)
    }

    /// Ends a session on all replicas.
    pub(crate) async fn revoke(&self, session: &Session) -> Result<(), Error> {
        self.secret.revoke(session, self.clock.now()).await
    }

    /// The `Set-Cookie` header of a session.
    pub(crate) async fn session_cookie(
        &self,
        session: &Session,
        is_secure: bool,
    ) -> Result<HeaderValue, Error> {
        let age = (session.ends - self.clock.now().as_second()).max(0);
        let cookie = self.encrypt_cookie(SESSION_COOKIE, session, (age, is_secure));
        cookie
            .await
            .map_err(|error| match (error, &session.identity) {
                (Error::TooLong, Some(Identity::User(_))) => Error::TooManyGroups,
                (error, _) => error,
            })
    }

    /// The `Set-Cookie` header of a sign-in that is under way.
    pub(crate) async fn attempt_cookie(
        &self,
        attempt: &SignInAttempt,
        is_secure: bool,
    ) -> Result<HeaderValue, Error> {
        self.encrypt_cookie(ATTEMPT_COOKIE, attempt, (600, is_secure))
            .await
    }

    /// The sign-in that is under way in this browser, if any.
    pub(crate) async fn sign_in_attempt(
        &self,
        headers: &HeaderMap,
    ) -> Result<Option<SignInAttempt>, Error> {
        self.decrypt_cookie(headers, ATTEMPT_COOKIE).await
    }

    /// The `Set-Cookie` header of a message for the next page.
    pub(crate) async fn flash_cookie(
        &self,
        message: &FlashMessage,
        is_secure: bool,
    ) -> Result<HeaderValue, Error> {
        self.encrypt_cookie(FLASH_COOKIE, message, (60, is_secure))
            .await
    }

    /// The message for this page, if any.
    pub(crate) async fn flash_message(&self, headers: &HeaderMap) -> Option<FlashMessage> {
        self.decrypt_cookie(headers, FLASH_COOKIE)
            .await
            .ok()
            .flatten()
    }

    async fn encrypt_cookie(
        &self,
        name: &str,
        content: &impl Serialize,
        (age, is_secure): (i64, bool),
    ) -> Result<HeaderValue, Error> {
        let mut bytes = serde_json::to_vec(content).expect("plain fields are JSON");
        let mut nonce = [0; NONCE_LEN];
        random::fill(&mut nonce);
        let key = self.secret.key().await?;
        key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(name.as_bytes()),
            &mut bytes,
        )
        .expect("a cookie is short enough to encrypt");
        let value = URL_SAFE_NO_PAD.encode([&nonce[..], &bytes].concat());
        let secure = if is_secure { "; Secure" } else { "" };
        let cookie =
            format!("{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Lax{secure}");
        if cookie.len() > MAX_COOKIE_LENGTH {
            return Err(Error::TooLong);
        }
        Ok(HeaderValue::from_str(&cookie).expect("base64 is a header value"))
    }

    /// The content of a cookie; nothing if it was not encrypted with our key.
    async fn decrypt_cookie<T: DeserializeOwned>(
        &self,
        headers: &HeaderMap,
        name: &str,
    ) -> Result<Option<T>, Error> {
        let Some(value) = cookie(headers, name) else {
            return Ok(None);
        };
        let bytes = URL_SAFE_NO_PAD.decode(value).unwrap_or_default();
        let Some((nonce, sealed)) = bytes.split_at_checked(NONCE_LEN) else {
            return Ok(None);
        };
        let nonce = Nonce::try_assume_unique_for_key(nonce);
        let nonce = nonce.expect("it was split off at its length");
        let mut sealed = sealed.to_vec();
        let aad = Aad::from(name.as_bytes());
        let key = self.secret.key().await?;
        let opened = key.open_in_place(nonce, aad, &mut sealed);
        Ok(opened
            .ok()
            .and_then(|bytes| serde_json::from_slice(bytes).ok()))
    }
}

/// A message that is shown once, on the page after an action.
#[derive(Serialize, Deserialize, Clone)]
pub(crate) struct FlashMessage {
    pub(crate) is_success: bool,
    pub(crate) text: String,
    /// The text and the address of a link to what it is about.
    #[serde(default)]
    pub(crate) link: Option<(String, String)>,
}

/// The `Set-Cookie` header that deletes the session.
pub(crate) fn clear_session_cookie() -> HeaderValue {
    HeaderValue::from_static("sluice-session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax")
}

/// The `Set-Cookie` header that deletes the sign-in that was under way.
pub(crate) fn clear_attempt_cookie() -> HeaderValue {
    HeaderValue::from_static("sluice-sign-in=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax")
}

/// The `Set-Cookie` header that deletes the message.
pub(crate) fn clear_flash_cookie() -> HeaderValue {
    HeaderValue::from_static("sluice-flash=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax")
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).iter();
    let mut pairs = all
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value.trim())
}
