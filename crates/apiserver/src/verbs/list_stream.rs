//! Streams the response to a list, so that the server holds only one chunk of its text at a time.

use std::{convert::Infallible, sync::Arc, vec};

use axum::{body::Body, response::Response};
use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};

use super::{ObjectRequest, json_response};
use crate::{
    Server,
    representation::{Representation, partial_metadata},
    resource::Resource,
    store::{StoreKey, StoredObject},
    table,
};

/// The minimum size of a chunk; it ends with the object that reaches it.
const CHUNK_SIZE: usize = 64 * 1024;

/// The response to a list, in the representation that the client accepts.
pub(super) fn response(
    request: &ObjectRequest<'_>,
    metadata: &Value,
    objects: Vec<(StoreKey, Arc<StoredObject>)>,
) -> Response {
    let mut stream = ListStream {
        server: request.server.clone(),
        resource: request.target.resource.clone(),
        representation: request.representation(),
        now: request.server.now(),
        objects: objects.into_iter(),
        start: head(request, metadata),
        is_over: false,
    };
    let first = stream.next().unwrap_or_default();
    if stream.is_over {
        return json_response(first);
    }
    let chunks = std::iter::once(first)
        .chain(stream)
        .map(Ok::<_, Infallible>);
    json_response(Body::from_stream(futures::stream::iter(chunks)))
}

/// The text before the first object.
fn head(request: &ObjectRequest<'_>, metadata: &Value) -> String {
    let resource = request.resource();
    let open = |mut list: Value, items: &str| {
        list["metadata"] = metadata.clone();
        let mut text = list.to_string();
        text.pop();
        text + &format!(",\"{items}\":[")
    };
    match request.representation() {
        Representation::Table(_) => open(
            json!({
                "apiVersion": "meta.k8s.io/v1",
                "kind": "Table",
                "columnDefinitions": table::columns(resource),
            }),
            "rows",
        ),
        Representation::Metadata => open(
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList"}),
            "items",
        ),
        Representation::Whole => open(
            json!({"apiVersion": resource.api_version(), "kind": resource.list_kind}),
            "items",
        ),
    }
}

/// Writes a list chunk by chunk.
struct ListStream {
    server: Server,
    resource: Arc<Resource>,
    representation: Representation,
    now: String,
    objects: vec::IntoIter<(StoreKey, Arc<StoredObject>)>,
    /// The text before the next object.
    start: String,
    is_over: bool,
}

impl Iterator for ListStream {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        let mut chunk = BytesMut::with_capacity(CHUNK_SIZE + CHUNK_SIZE / 8);
        while chunk.len() < CHUNK_SIZE {
            let Some((_, stored)) = self.objects.next() else {
                chunk.put_slice(self.start.trim_end_matches(',').as_bytes());
                chunk.put_slice(b"]}");
                self.is_over = true;
                break;
            };
            chunk.put_slice(self.start.as_bytes());
            chunk.put_slice(&self.item(&stored));
            ",".clone_into(&mut self.start);
        }
        Some(chunk.freeze())
    }
}

impl ListStream {
    fn item(&self, stored: &StoredObject) -> Bytes {
        let resource = &*self.resource;
        let is_custom = resource.schema.is_some();
        let item = match self.representation {
            Representation::Whole if is_custom => {
                return self.representation.encode(&self.server, resource, stored);
            }
            Representation::Whole => {
                // Items of built-in kinds have no kind and apiVersion.
                let mut object = resource.read_with_managed_fields(stored);
                super::remove(&mut object, "kind");
                super::remove(&mut object, "apiVersion");
                object
            }
            Representation::Metadata => {
                partial_metadata(&resource.read_with_managed_fields(stored))
            }
            Representation::Table(included) => table::row(
                resource,
                &resource.read_with_managed_fields(stored),
                included,
                &self.now,
            ),
        };
        item.to_string().into()
    }
}
