//! Finds tags with `${version}` of environments that follow a range of versions: the newest version wins
//! there, so that a tag could never bring an older one back.

use api::{
    Pipeline,
    flux::{followed, is_range},
};
use serde_json::Value;

use super::{
    super::{checkout::ManifestCheckout, yaml},
    Finding,
};

/// The OCIRepositories of a checkout that follow a range of the repository that is tagged.
pub(super) fn check(pipeline: &Pipeline, line: usize, checkout: &ManifestCheckout) -> Vec<Finding> {
    let spec = &pipeline.spec;
    let settings = spec
        .environments
        .iter()
        .map(|it| spec.promotion_into(&it.name));
    let tags = settings.filter_map(|settings| settings?.strategy.oci.as_ref());
    let mut urls: Vec<&str> = tags
        .filter(|to| to.tag.contains("${version}"))
        .map(|to| to.url.trim_end_matches('/'))
        .collect();
    urls.dedup();
    let mut findings = Vec::new();
    for (file, content) in &checkout.files {
        for range in ranges(content) {
            if urls
                .iter()
                .any(|url| range.starts_with(&format!("{url} (")))
            {
                let text = format!(
                    "{file} follows {range}: a tag with ${{version}} could never roll back; follow a \
                     tag that promotions move"
                );
                findings.push(Finding::error(line, text));
            }
        }
    }
    findings
}

/// What the OCIRepositories of a file follow, where that is a range.
fn ranges(content: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(content);
    if !text.contains("OCIRepository") {
        return Vec::new();
    }
    let documents = yaml::documents(&text).into_iter();
    let objects = documents.filter_map(|document| document.value.ok());
    let sources = objects.filter(|object: &Value| object["kind"] == "OCIRepository");
    sources
        .filter_map(|source| followed("OCIRepository", &source["spec"]))
        .filter(|followed| is_range(followed))
        .collect()
}
