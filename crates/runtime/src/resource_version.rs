//! Compares the resourceVersions of two states of an object.

/// The resourceVersion of an object: a number on every known API server. One that is not a number is
/// neither older nor newer than any other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceVersion {
    /// Grows with each write.
    Number(u64),
    /// Only equal or not.
    Opaque(Option<Box<str>>),
}

impl ResourceVersion {
    /// The version of a stored object.
    pub fn of(metadata: &kube::core::ObjectMeta) -> Self {
        let version = metadata.resource_version.as_deref();
        match version.and_then(|version| version.parse().ok()) {
            Some(number) => Self::Number(number),
            None => Self::Opaque(version.map(Box::from)),
        }
    }

    /// Whether this is certainly a newer state than the other.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(this), Self::Number(other)) => this > other,
            _ => false,
        }
    }
}
