//! What every hook checks before it looks at what was said: limit, method, path, size, pipeline and
//! signature, in this order. Who claims to sign is counted after that, when it is known whether they do.
//!
//! Who has signed is limited by pipeline; who has not, or wrongly, by address.

use std::{net::IpAddr, sync::Arc, time::Duration};

use api::{Pipeline, pipeline::PipelineSpec};
use axum::{
    body::Body,
    extract::{FromRequest, Request},
    response::Response,
};
use bytes::Bytes;
use futures::StreamExt;
use http::{Method, StatusCode, request::Parts};
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use planner::hook::SIGNATURE_AGE;
use tokio::time::timeout;
use tracing::warn;

use super::{
    answer::{empty, no_such_page, too_many},
    room::Room,
};
use crate::{
    Door,
    client::{Peer, bucket},
    secrets::Found,
    signature::{SIGNATURE, TIMESTAMP, digest},
    watched::ObjectKey,
};

/// The longest body that is read.
const LONGEST_BODY: usize = 1 << 20;
/// How long a body may take.
const SLOWEST_BODY: Duration = Duration::from_secs(10);

/// A route: what its path says, and which signature it asks for.
pub(super) trait Road: Sized + Send {
    /// Reads the parts of the path after the name of the route; nothing where they name nothing that
    /// can exist.
    fn read(parts: Vec<String>) -> Option<Self>;
    /// The pipeline it is about.
    fn pipeline(&self) -> ObjectKey;
    /// The signature it asks for.
    fn demand<'a>(&self, spec: &'a PipelineSpec) -> Demand<'a>;
}

/// The signature a route asks for.
pub(super) struct Demand<'a> {
    /// The Secret with the key.
    pub(super) secret: Option<&'a str>,
    /// Whether calls without a signature are turned away.
    pub(super) is_required: bool,
    /// What is signed.
    pub(super) covers: Covers,
}

/// What a signature is made from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Covers {
    /// The body.
    Body,
    /// When, method, path and body; also, where the settings allow it and no time is given, nothing
    /// at all, as the ancestor's approvals.
    WholeCall,
}

/// A call that has passed all checks.
pub(super) struct Signed<R> {
    pub(super) road: R,
    pub(super) key: ObjectKey,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) body: Bytes,
    /// The Secret whose key has signed it, and which call, if the signature says.
    pub(super) seal: Option<Seal>,
    _room: Room,
}

/// A valid signature.
pub(super) struct Seal {
    pub(super) secret: String,
    /// When it was made, and what tells the call from every other; neither where it does not cover
    /// the time.
    pub(super) call: Option<(Timestamp, String)>,
}

impl<R: Road> FromRequest<Arc<Door>> for Signed<R> {
    type Rejection = Response;

    async fn from_request(request: Request, door: &Arc<Door>) -> Result<Self, Response> {
        let (parts, body) = request.into_parts();
        let peer = parts.extensions.get::<Peer>().copied().unwrap_or_default();
        let caller = bucket(peer, &parts.headers, &door.settings.trusted_proxies);
        let count_stranger = || door.strangers.count(caller, 1);
        let claims_to_sign = parts.headers.contains_key(SIGNATURE);
        if !claims_to_sign {
            count_stranger().map_err(too_many)?;
        }
        let call = Call {
            door,
            parts,
            caller,
        };
        let checked = call.check::<R>(body).await;
        if let Ok(signed) = &checked
            && signed.seal.is_some()
        {
            let targets = targets(&signed.pipeline);
            let counted = door.signed.count(signed.key.clone(), targets);
            counted.map_err(too_many)?;
        } else if claims_to_sign {
            count_stranger().map_err(too_many)?;
        }
        checked
    }
}

/// How many targets speak for a pipeline.
fn targets(pipeline: &Pipeline) -> usize {
    let status = pipeline.status.iter();
    let environments = status.flat_map(|status| status.environments.values());
    let known = environments.map(|it| it.targets.len()).sum::<usize>();
    let named = pipeline.spec.environments.iter();
    named.map(|it| it.targets.len()).sum::<usize>().max(known)
}

struct Call<'a> {
    door: &'a Door,
    parts: Parts,
    caller: IpAddr,
}

impl Call<'_> {
    async fn check<R: Road>(&self, body: Body) -> Result<Signed<R>, Response> {
        if self.parts.method != Method::POST {
            return Err(empty(StatusCode::METHOD_NOT_ALLOWED));
        }
        let road = self.segments().and_then(R::read).ok_or_else(no_such_page)?;
        let body = timeout(SLOWEST_BODY, read(self.door.rooms.open(self.caller), body)).await;
        let body = body.unwrap_or(Err(StatusCode::REQUEST_TIMEOUT));
        let Read { bytes: body, room } = body.map_err(empty)?;
        let key = road.pipeline();
        let pipeline = self.pipeline(&key).await?;
        let demand = road.demand(&pipeline.spec);
        let seal = self.seal(&key, &demand, &body).await?;
        Ok(Signed {
            road,
            key,
            pipeline,
            body,
            seal,
            _room: room,
        })
    }

    /// The parts of the path after the first. Each is decoded by itself, so that a name may hold
    /// a slash.
    fn segments(&self) -> Option<Vec<String>> {
        let path = self.parts.uri.path();
        let segments = path.split('/').filter(|segment| !segment.is_empty());
        let decoded = segments.skip(1).map(|segment| {
            let text = percent_decode_str(segment).decode_utf8().ok()?;
            Some(text.into_owned())
        });
        decoded.collect()
    }

    async fn pipeline(&self, key: &ObjectKey) -> Result<Arc<Pipeline>, Response> {
        if let Some(known) = self.door.watched.known(key) {
            return Ok(known);
        }
        // Whoever asks for one thing after the other that is not there gets no more answers.
        let exhausted = self.door.strangers.is_exhausted(&self.caller);
        if self.parts.headers.contains_key(SIGNATURE) {
            exhausted.map_err(too_many)?;
        }
        match self.door.watched.newest(key).await {
            Ok(Some(pipeline)) => Ok(pipeline),
            Ok(None) => Err(empty(StatusCode::NOT_FOUND)),
            Err(error) => {
                warn!(pipeline = %key, %error, "cannot read the pipeline a hook is about");
                Err(empty(StatusCode::INTERNAL_SERVER_ERROR))
            }
        }
    }

    async fn seal(
        &self,
        key: &ObjectKey,
        demand: &Demand<'_>,
        body: &[u8],
    ) -> Result<Option<Seal>, Response> {
        let unauthorized = || empty(StatusCode::UNAUTHORIZED);
        let header = self.parts.headers.get(SIGNATURE);
        let (Some(secret), Some(signature)) = (demand.secret, header) else {
            return match demand.is_required {
                true => Err(unauthorized()),
                false => Ok(None),
            };
        };
        let place = ObjectKey::new(&key.namespace, secret);
        let signing = match self.door.secrets.key(&place).await {
            Found::Key(signing) => signing,
            Found::Nothing => return Err(unauthorized()),
            Found::Unknown => return Err(empty(StatusCode::INTERNAL_SERVER_ERROR)),
        };
        let signature = signature.to_str().unwrap_or_default();
        let (preamble, at) = self.preamble(demand.covers).ok_or_else(unauthorized)?;
        let is_over_nothing = demand.covers == Covers::WholeCall && at.is_none();
        let body = if is_over_nothing { b"" } else { body };
        if !signing.has_signed(&[preamble.as_bytes(), body], signature) {
            return Err(unauthorized());
        }
        let secret = secret.to_owned();
        let call = at.map(|at| (at, digest(&[preamble.as_bytes(), body])));
        Ok(Some(Seal { secret, call }))
    }

    /// What is signed before the body, and when it was; nothing where that is not acceptable.
    fn preamble(&self, covers: Covers) -> Option<(String, Option<Timestamp>)> {
        if covers == Covers::Body {
            return Some((String::new(), None));
        }
        let Some(said) = self.parts.headers.get(TIMESTAMP) else {
            let is_accepted = self.door.settings.legacy_approval_signatures;
            return is_accepted.then(|| (String::new(), None));
        };
        let said = said.to_str().ok()?;
        let at = Timestamp::from_second(said.parse().ok()?).ok()?;
        let age = Timestamp::now().as_second().abs_diff(at.as_second());
        let path = self.parts.uri.path();
        let method = &self.parts.method;
        (age <= SIGNATURE_AGE.as_secs()).then(|| (format!("{said}\n{method}\n{path}\n"), Some(at)))
    }
}

/// A body, and the room it takes until the call is answered.
struct Read {
    bytes: Bytes,
    room: Room,
}

/// Reads a body as it comes, within what all bodies together may take.
async fn read(mut room: Room, body: Body) -> Result<Read, StatusCode> {
    let mut chunks = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| StatusCode::BAD_REQUEST)?;
        if bytes.len() + chunk.len() > LONGEST_BODY {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        if !room.grow(chunk.len()).await {
            return Err(StatusCode::TOO_MANY_REQUESTS);
        }
        bytes.extend_from_slice(&chunk);
    }
    let bytes = bytes.into();
    Ok(Read { bytes, room })
}
