//! Browser sessions: a bearer token in an encrypted cookie.
//!
//! The encryption key is in a Secret, so that every replica can read the cookies of the others. The
//! token is authenticated with each request like any other: a session ends when its token expires,
//! after eight hours, or on all replicas when its owner signs out. Neither the key nor a token is ever
//! logged or shown.

mod revoked;

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderValue, header};
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client, api::PostParams};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use runtime::Clock;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::sync::OnceCell;

use crate::random;
use revoked::RevokedSessions;

/// The Secret with the key, in the namespace that Sluice runs in.
const SECRET: &str = "sluice-sessions";
const ENTRY: &str = "key";
/// How long a session lasts.
const LIFETIME: Duration = Duration::from_secs(8 * 60 * 60);
/// The cookie of a session.
const SESSION_COOKIE: &str = "sluice-session";
/// The cookie of the message that the next page shows.
const FLASH_COOKIE: &str = "sluice-flash";
/// The longest cookie that every browser stores.
const MAX_COOKIE_LENGTH: usize = 3800;

/// Why a session could not be read, created or ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot read or create the Secret {namespace}/{SECRET} with the session key")]
    Secret {
        namespace: String,
        source: kube::Error,
    },
    #[error(
        "you are still signed in: cannot revoke the session in the Secret {namespace}/{SECRET}; try again"
    )]
    SignOut {
        namespace: String,
        source: kube::Error,
    },
    #[error(
        "the Secret {namespace}/{SECRET} contains no key of 32 bytes; delete it to get a new one"
    )]
    Key { namespace: String },
    #[error("the token is too long for a cookie; use a shorter one, such as a service account's")]
    TooLong,
}

/// Creates and reads the cookies of sessions.
pub(crate) struct Sessions {
    client: Client,
    clock: Clock,
    key: OnceCell<LessSafeKey>,
    revoked: RevokedSessions,
}

/// The session of a browser.
#[derive(Serialize, Deserialize, Clone)]
pub(crate) struct Session {
    /// The bearer token; nothing before signing in.
    pub(crate) token: Option<String>,
    /// The CSRF token that each form must carry.
    pub(crate) csrf: String,
    /// When it ends, in seconds since 1970.
    pub(crate) ends: i64,
}

impl Session {
    fn new(token: Option<String>, now: Timestamp) -> Self {
        let seconds = i64::try_from(LIFETIME.as_secs()).unwrap_or_default();
        Self {
            token,
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
            client,
            clock,
            key: OnceCell::new(),
            revoked: RevokedSessions::default(),
        }
    }

    /// A new session; without a token before signing in.
    pub(crate) fn start(&self, token: Option<String>) -> Session {
        Session::new(token, self.clock.now())
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
        if session.token.is_none() {
            return Ok(true);
        }
        let is_revoked = self.revoked.contains(&self.secrets(), session).await;
        Ok(!is_revoked.map_err(|source| self.secret_error(source))?)
    }

    /// Ends a session on all replicas.
    pub(crate) async fn revoke(&self, session: &Session) -> Result<(), Error> {
        let added = self
            .revoked
            .add(&self.secrets(), session, self.clock.now())
            .await;
        added.map_err(|source| Error::SignOut {
            namespace: self.client.default_namespace().to_owned(),
            source,
        })
    }

    fn secrets(&self) -> Api<Secret> {
        Api::default_namespaced(self.client.clone())
    }

    fn secret_error(&self, source: kube::Error) -> Error {
        Error::Secret {
            namespace: self.client.default_namespace().to_owned(),
            source,
        }
    }

    /// The `Set-Cookie` header of a session.
    pub(crate) async fn session_cookie(
        &self,
        session: &Session,
        is_secure: bool,
    ) -> Result<HeaderValue, Error> {
        let age = (session.ends - self.clock.now().as_second()).max(0);
        self.encrypt_cookie(SESSION_COOKIE, session, (age, is_secure))
            .await
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
        self.key()
            .await?
            .seal_in_place_append_tag(
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
        let opened = self.key().await?.open_in_place(nonce, aad, &mut sealed);
        Ok(opened
            .ok()
            .and_then(|bytes| serde_json::from_slice(bytes).ok()))
    }

    async fn key(&self) -> Result<&LessSafeKey, Error> {
        self.key.get_or_try_init(|| self.find_key()).await
    }

    /// The key in the Secret, which the first replica creates.
    async fn find_key(&self) -> Result<LessSafeKey, Error> {
        let namespace = self.client.default_namespace().to_owned();
        let secrets = self.secrets();
        let failed = |source| self.secret_error(source);
        let secret = match secrets.get_opt(SECRET).await.map_err(failed)? {
            Some(secret) => secret,
            None => match secrets.create(&PostParams::default(), &new_secret()).await {
                Ok(secret) => secret,
                Err(kube::Error::Api(refusal)) if refusal.code == 409 => {
                    secrets.get(SECRET).await.map_err(failed)?
                }
                Err(error) => return Err(failed(error)),
            },
        };
        let bytes = secret.data.and_then(|mut data| data.remove(ENTRY));
        let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes.unwrap_or_default().0);
        key.map(LessSafeKey::new)
            .map_err(|_| Error::Key { namespace })
    }
}

/// A message that is shown once, on the page after an action.
#[derive(Serialize, Deserialize, Clone)]
pub(crate) struct FlashMessage {
    pub(crate) is_success: bool,
    pub(crate) text: String,
}

/// The `Set-Cookie` header that deletes the session.
pub(crate) fn clear_session_cookie() -> HeaderValue {
    HeaderValue::from_static("sluice-session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax")
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

fn new_secret() -> Secret {
    let mut key = [0; 32];
    random::fill(&mut key);
    let mut secret = Secret::default();
    secret.metadata.name = Some(SECRET.to_owned());
    secret.data = Some(BTreeMap::from([(
        ENTRY.to_owned(),
        ByteString(key.to_vec()),
    )]));
    secret
}
