//! `sluice install`: everything that has to be applied to a cluster, as YAML.

use std::io::Write;

use anyhow::bail;

use crate::crds;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The namespace that Sluice runs in
    #[arg(long, short, value_name = "NAME", default_value = NAMESPACE)]
    namespace: String,
    /// The image to run
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    image: String,
}

const NAMESPACE: &str = "pipeline-system";
const IMAGE: &str = concat!("sluice:", env!("CARGO_PKG_VERSION"));

/// In the order in which they can be applied.
const MANIFESTS: [(&str, &str); 5] = [
    (
        "namespace.yaml",
        include_str!("../../../../deploy/manifests/namespace.yaml"),
    ),
    (
        "access.yaml",
        include_str!("../../../../deploy/manifests/access.yaml"),
    ),
    (
        "roles.yaml",
        include_str!("../../../../deploy/manifests/roles.yaml"),
    ),
    (
        "policy.yaml",
        include_str!("../../../../deploy/manifests/policy.yaml"),
    ),
    (
        "controller.yaml",
        include_str!("../../../../deploy/manifests/controller.yaml"),
    ),
];

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let Arguments { namespace, image } = arguments;
    if !is_name(namespace) {
        bail!(
            "{namespace:?} is not the name of a namespace: use lower-case letters, digits and dashes"
        );
    }
    if image.is_empty() || image.contains(|c: char| c.is_whitespace() || c.is_control()) {
        bail!("{image:?} is not an image");
    }
    crds::print(out)?;
    for (_, manifest) in MANIFESTS {
        let text = manifest.replace(NAMESPACE, namespace);
        let text = text.replace(&format!("image: {IMAGE}"), &format!("image: {image:?}"));
        write!(out, "---\n{text}")?;
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    let is_end = |byte: Option<u8>| {
        byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let bytes = || text.bytes();
    text.len() <= 63
        && is_end(bytes().next())
        && is_end(bytes().next_back())
        && bytes().all(is_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn print(namespace: &str, image: &str) -> String {
        let mut out = Vec::new();
        let (namespace, image) = (namespace.to_owned(), image.to_owned());
        run(&Arguments { namespace, image }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_manifest_is_part_of_it() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/manifests");
        let files = std::fs::read_dir(folder).unwrap();
        let files: BTreeSet<String> = files
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".yaml"))
            .collect();
        let ours: BTreeSet<String> = MANIFESTS.map(|(name, _)| name.to_owned()).into();
        assert_eq!(ours, files);
    }

    #[test]
    fn namespace_and_image_change_everywhere() {
        let text = print("flux-system", "registry.example.com/sluice:1");
        assert!(
            !text.contains(NAMESPACE),
            "the old namespace is still there"
        );
        assert!(text.contains("system:serviceaccount:flux-system:pipeline-controller"));
        assert!(text.contains("image: \"registry.example.com/sluice:1\""));
        assert!(!text.contains(IMAGE));
        assert!(print(NAMESPACE, IMAGE).contains("image: \"sluice:"));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let mut out = Vec::new();
        for namespace in ["", "A", "a_b", "-a", "a\nb", "a'b"] {
            let (namespace, image) = (namespace.to_owned(), IMAGE.to_owned());
            assert!(run(&Arguments { namespace, image }, &mut out).is_err());
        }
    }
}
