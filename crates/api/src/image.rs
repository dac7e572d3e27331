//! Container image references: `registry/name:tag@digest`.

/// The registry that a name without one means.
const DEFAULT_REGISTRY: &str = "docker.io";

/// An image reference taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    name: String,
    tag: Option<String>,
    digest: Option<String>,
}

impl Image {
    /// Takes a reference apart; nothing when it has no name.
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, digest) = match text.trim().split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text.trim(), None),
        };
        // A colon before the last slash belongs to the registry's port.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        Self::new(name, tag, digest)
    }

    /// Puts a reference together; nothing when it has no name.
    pub fn new(name: &str, tag: Option<&str>, digest: Option<&str>) -> Option<Self> {
        let given = |part: Option<&str>| part.filter(|part| !part.is_empty()).map(str::to_owned);
        let name = name.to_owned();
        (!name.is_empty()).then(|| Self {
            name,
            tag: given(tag),
            digest: given(digest),
        })
    }

    /// The name, with the registry if one was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tag.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest with its algorithm.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// What tells versions of the image apart: the tag, else the digest, else the tag that a bare
    /// name means.
    pub fn version(&self) -> &str {
        self.tag().or(self.digest()).unwrap_or("latest")
    }

    /// What is compared between environments: the digest where it is known, else the version.
    pub fn revision(&self) -> &str {
        self.digest().unwrap_or(self.version())
    }

    /// The revision for people, with tag and digest where it has both.
    pub fn shown_revision(&self) -> String {
        crate::revision::shown(self.revision(), Some(self.version()))
    }

    /// Whether both are the same revision: by their digests where both have one, else by version.
    pub fn is_at_revision_of(&self, other: &Self) -> bool {
        match (self.digest(), other.digest()) {
            (Some(own), Some(other)) => own == other,
            _ => self.version() == other.version(),
        }
    }

    /// Whether this is the image of a name. A name without registry also means the same path in
    /// any registry, since clusters pull through mirrors.
    pub fn is(&self, name: &str) -> bool {
        let own = full_name(&self.name);
        own == full_name(name)
            || own
                .strip_suffix(name)
                .is_some_and(|rest| rest.ends_with('/'))
    }
}

/// The one revision that images run, in the reference that says most; nothing where there are no
/// images. Two that differ are the error.
pub fn common_revision(images: &[Image]) -> Result<Option<&Image>, [&Image; 2]> {
    let named = images.iter().find(|image| image.digest().is_some());
    let Some(first) = named.or(images.first()) else {
        return Ok(None);
    };
    match images.iter().find(|image| !first.is_at_revision_of(image)) {
        None => Ok(Some(first)),
        Some(other) => Err([first, other]),
    }
}

fn full_name(name: &str) -> String {
    match name.split_once('/') {
        None => format!("{DEFAULT_REGISTRY}/library/{name}"),
        Some((first, _)) if is_registry(first) => name.to_owned(),
        Some(_) => format!("{DEFAULT_REGISTRY}/{name}"),
    }
}

fn is_registry(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, name: &str, tag: &str, digest: &str) {
        let image = Image::parse(text).unwrap();
        let parts = (
            image.name(),
            image.tag().unwrap_or("-"),
            image.digest().unwrap_or("-"),
        );
        assert_eq!(parts, (name, tag, digest), "{text}");
    }

    #[test]
    fn takes_references_apart() {
        check("nginx", "nginx", "-", "-");
        check("nginx:1.25", "nginx", "1.25", "-");
        check("ghcr.io/acme/shop:v2", "ghcr.io/acme/shop", "v2", "-");
        check("host:5000/shop", "host:5000/shop", "-", "-");
        check(
            "host:5000/shop:v2@sha256:ab",
            "host:5000/shop",
            "v2",
            "sha256:ab",
        );
        check("shop@sha256:ab", "shop", "-", "sha256:ab");
        check("shop:", "shop", "-", "-");
        assert_eq!(Image::parse(""), None);
        assert_eq!(Image::parse(":v1"), None);
        assert_eq!(Image::parse("@sha256:ab"), None);
    }

    #[test]
    fn always_has_a_version() {
        assert_eq!(Image::parse("shop:v2@sha256:ab").unwrap().version(), "v2");
        assert_eq!(
            Image::parse("shop@sha256:ab").unwrap().version(),
            "sha256:ab"
        );
        assert_eq!(Image::parse("shop").unwrap().version(), "latest");
    }

    #[test]
    fn one_revision_is_told_from_several() {
        let common = |images: &[&str]| {
            let images: Vec<Image> = images.iter().filter_map(|it| Image::parse(it)).collect();
            match common_revision(&images) {
                Ok(image) => image.map_or("-", Image::revision).to_owned(),
                Err([one, other]) => format!("{} or {}", one.revision(), other.revision()),
            }
        };
        assert_eq!(common(&[]), "-");
        assert_eq!(common(&["shop:1", "shop:1"]), "1");
        assert_eq!(common(&["shop:1.10.0", "shop:1.9.0"]), "1.10.0 or 1.9.0");
        assert_eq!(common(&["shop:1", "shop:1@sha256:a"]), "sha256:a");
        assert_eq!(common(&["shop@sha256:a", "shop:2@sha256:a"]), "sha256:a");
        assert_eq!(
            common(&["shop:1@sha256:a", "shop:1@sha256:b"]),
            "sha256:a or sha256:b"
        );
    }

    #[test]
    fn is_found_by_name() {
        let is = |image: &str, name: &str| Image::parse(image).unwrap().is(name);
        assert!(is("nginx:1", "nginx"));
        assert!(is("docker.io/library/nginx:1", "nginx"));
        assert!(is("nginx:1", "docker.io/library/nginx"));
        assert!(is("acme/shop:1", "docker.io/acme/shop"));
        assert!(is("mirror.local:5000/acme/shop:1", "acme/shop"));
        assert!(is("localhost/shop", "localhost/shop"));
        assert!(!is("acme/workshop:1", "shop"));
        assert!(!is("acme/shop-db:1", "acme/shop"));
        assert!(!is("ghcr.io/acme/shop:1", "quay.io/acme/shop"));
        assert!(!is("nginx", ""));
    }
}
