//! Lists, written while they are read: however long one is, the server holds no more of its text
//! than one piece.

use std::{convert::Infallible, sync::Arc, vec};

use axum::{body::Body, response::Response};
use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};

use super::{Call, json_response};
use crate::{
    Server,
    resource::Resource,
    store::{Kept, Key},
    table,
    view::{View, partial},
};

/// A piece of a list ends with the object that makes it as long as this.
const PIECE: usize = 64 * 1024;

/// The answer to a list: these objects in the form that was asked for.
pub(super) fn response(
    call: &Call<'_>,
    metadata: &Value,
    objects: Vec<(Key, Arc<Kept>)>,
) -> Response {
    let mut listing = Listing {
        server: call.server.clone(),
        resource: call.target.resource.clone(),
        view: call.view(),
        now: call.server.now(),
        objects: objects.into_iter(),
        start: head(call, metadata),
        is_over: false,
    };
    let first = listing.next().unwrap_or_default();
    if listing.is_over {
        return json_response(first);
    }
    let pieces = std::iter::once(first)
        .chain(listing)
        .map(Ok::<_, Infallible>);
    json_response(Body::from_stream(futures::stream::iter(pieces)))
}

/// Everything that comes before the first object.
fn head(call: &Call<'_>, metadata: &Value) -> String {
    let resource = call.resource();
    let open = |mut list: Value, items: &str| {
        list["metadata"] = metadata.clone();
        let mut text = list.to_string();
        text.pop();
        text + &format!(",\"{items}\":[")
    };
    match call.view() {
        View::Table(_) => open(
            json!({
                "apiVersion": "meta.k8s.io/v1",
                "kind": "Table",
                "columnDefinitions": table::columns(resource),
            }),
            "rows",
        ),
        View::Metadata => open(
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList"}),
            "items",
        ),
        View::Whole => open(
            json!({"apiVersion": resource.api_version(), "kind": resource.list_kind}),
            "items",
        ),
    }
}

/// A list on its way out, piece by piece.
struct Listing {
    server: Server,
    resource: Arc<Resource>,
    view: View,
    now: String,
    objects: vec::IntoIter<(Key, Arc<Kept>)>,
    /// What comes before the next object.
    start: String,
    is_over: bool,
}

impl Iterator for Listing {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        let mut piece = BytesMut::with_capacity(PIECE + PIECE / 8);
        while piece.len() < PIECE {
            let Some((_, stored)) = self.objects.next() else {
                piece.put_slice(self.start.trim_end_matches(',').as_bytes());
                piece.put_slice(b"]}");
                self.is_over = true;
                break;
            };
            piece.put_slice(self.start.as_bytes());
            piece.put_slice(&self.item(&stored));
            ",".clone_into(&mut self.start);
        }
        Some(piece.freeze())
    }
}

impl Listing {
    fn item(&self, stored: &Kept) -> Bytes {
        let resource = &*self.resource;
        let is_custom = resource.schema.is_some();
        let item = match self.view {
            View::Whole if is_custom => return self.view.text(&self.server, resource, stored),
            View::Whole => {
                // Built-in kinds do not repeat what they are.
                let mut object = resource.present(stored);
                super::remove(&mut object, "kind");
                super::remove(&mut object, "apiVersion");
                object
            }
            View::Metadata => partial(&resource.present(stored)),
            View::Table(included) => {
                table::row(resource, &resource.present(stored), included, &self.now)
            }
        };
        item.to_string().into()
    }
}
