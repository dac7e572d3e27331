//! Names of objects that come from requests. They become parts of API paths, so that only valid names
//! are used.

use api::names::{is_dns_label, is_dns_subdomain};
use runtime::ObjectKey;

/// The key that a request names; nothing if no object can have such a name.
pub(crate) fn parse_key(namespace: &str, name: &str) -> Option<ObjectKey> {
    let key = ObjectKey::new(namespace, name);
    is_valid_key(&key).then_some(key)
}

/// Whether an object can have this name.
pub(crate) fn is_valid_key(key: &ObjectKey) -> bool {
    is_dns_label(&key.namespace) && is_dns_subdomain(&key.name)
}
