//! Names and labels that Sluice gives to objects and reads from them.
//!
//! Names are functions of their inputs, so that creating an object twice finds it the second time. Every
//! result is a valid name.

use sha2::{Digest, Sha256};

use crate::check_run::CheckRunSpec;

/// The key of a Secret with the token of clusters that ask for inputs.
pub const INPUTS_TOKEN: &str = "inputs-token";
/// Annotation that asks for a reconcile, as on Flux's objects: any new value starts one.
pub const RECONCILE_ANNOTATION: &str = "reconcile.fluxcd.io/requestedAt";
/// Label on apps: the pipeline they belong to. Also on every Promotion and CheckRun.
pub const PIPELINE_LABEL: &str = "pipelines.weave.works/pipeline";
/// The label with the group of the first proposal, still accepted on apps.
pub const PIPELINE_LABEL_WEGO: &str = "pipelines.wego.weave.works/pipeline";
/// Label on a Promotion: the environment it leads into.
pub const ENVIRONMENT_LABEL: &str = "pipelines.weave.works/environment";
/// Label on a Promotion: the site that it leads into, hashed where it is no label value.
pub const SITE_LABEL: &str = "pipelines.weave.works/place";
/// Annotation on a Pipeline: a request, written with kubectl.
pub const REQUEST_ANNOTATION: &str = "pipelines.weave.works/request";
/// Annotation on a Pipeline: an override for the request that it names, written with kubectl.
pub const OVERRIDE_ANNOTATION: &str = "pipelines.weave.works/override";
/// Label on a Freeze that `sluice freeze` or the dashboard created.
pub const STOP_LABEL: &str = "pipelines.weave.works/stop";
/// Annotation on such a Freeze: who created or last changed it.
pub const AUTHOR_ANNOTATION: &str = "pipelines.weave.works/author";
/// Label on a Pipeline that is kept equal to one of another API group: that group.
pub const ADOPTED_LABEL: &str = "pipelines.weave.works/adopted-from";
/// Annotation on such a Pipeline: the suspension and requests of both when they were last equal, to
/// find out which of them was edited since.
pub const ADOPTED_ANNOTATION: &str = "pipelines.weave.works/adopted";
/// Annotation on a GitopsCluster: the namespaces whose pipelines may use it, comma-separated.
pub const ALLOWED_NAMESPACES_ANNOTATION: &str = "pipelines.weave.works/allowed-namespaces";
/// The annotation of a Secret with the host that checks may send it to.
pub const HOST_ANNOTATION: &str = "pipelines.weave.works/host";
/// The annotation of a CronJob whose template checks may run.
pub const CHECK_ANNOTATION: &str = "pipelines.weave.works/check";
/// Label on a run: the trigger that started it.
pub const RUN_TRIGGER_LABEL: &str = "pipeline.jquad.rocks/pipelinetrigger";
/// Label on a run for a GitRepository: the branch or other reference.
pub const RUN_GIT_BRANCH_LABEL: &str = "pipeline.jquad.rocks/git.repository.branch.name";
/// Label on a run for a GitRepository: the commit.
pub const RUN_GIT_COMMIT_LABEL: &str = "pipeline.jquad.rocks/git.repository.branch.commit";
/// Label on a run for an ImagePolicy: the last part of the image's name.
pub const RUN_IMAGE_NAME_LABEL: &str = "pipeline.jquad.rocks/ip.image.name";
/// Label on a run for an ImagePolicy: the tag.
pub const RUN_IMAGE_VERSION_LABEL: &str = "pipeline.jquad.rocks/ip.image.version";
/// Label on a run for a PullRequest: the branch.
pub const RUN_REQUEST_BRANCH_LABEL: &str = "pipeline.jquad.rocks/pr.branch.name";
/// Label on a run for a PullRequest: the commit.
pub const RUN_REQUEST_COMMIT_LABEL: &str = "pipeline.jquad.rocks/pr.branch.commit";

/// Annotation on a run: the event it was started for.
pub const RUN_EVENT_ANNOTATION: &str = "pipeline.jquad.rocks/event";
/// Annotation on a run: how many runs for the same event failed before it.
pub const RUN_RETRY_ANNOTATION: &str = "pipeline.jquad.rocks/retry";
/// Annotation on a PipelineTrigger: each new value starts a run for what the source has now.
pub const RUN_REQUEST_ANNOTATION: &str = "pipeline.jquad.rocks/requestedAt";

const PIPELINE_PART: usize = 30;
const ENVIRONMENT_PART: usize = 15;
const LABEL_VALUE: usize = 63;
const DNS_LABEL: usize = 63;
const DNS_SUBDOMAIN: usize = 253;
const HASH_DIGITS: usize = 12;

/// What a promotion leads into: an environment, or one target of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PromotionSite {
    /// The environment's name.
    pub environment: String,
    /// The cluster, if any, and the namespace of the target.
    pub target: Option<(Option<String>, String)>,
}

impl PromotionSite {
    /// A whole environment.
    pub fn environment(environment: &str) -> Self {
        Self {
            environment: environment.to_owned(),
            target: None,
        }
    }

    /// One target of an environment.
    pub fn target(environment: &str, cluster: Option<&str>, namespace: &str) -> Self {
        let target = (cluster.map(str::to_owned), namespace.to_owned());
        Self {
            environment: environment.to_owned(),
            target: Some(target),
        }
    }

    /// The site as one string: the environment, or `environment/cluster or -/namespace` as in
    /// the keys of reports.
    pub fn key(&self) -> String {
        match &self.target {
            None => self.environment.clone(),
            Some((cluster, namespace)) => {
                let cluster = cluster.as_deref().unwrap_or("-");
                format!("{}/{cluster}/{namespace}", self.environment)
            }
        }
    }
}

/// The name of the Promotion that brings a revision into a site. The ordinal distinguishes repeated
/// attempts.
pub fn promotion_name(
    pipeline: &str,
    site: &PromotionSite,
    revision: &str,
    ordinal: i64,
) -> String {
    let hash = short_hash(&[pipeline, &site.key(), revision, &ordinal.to_string()]);
    let pipeline = slug(pipeline, PIPELINE_PART, "pipeline");
    let environment = slug(&site.environment, ENVIRONMENT_PART, "environment");
    format!("{pipeline}-{environment}-{hash}")
}

/// The name of the CheckRun of a check. A check that is defined differently is another one.
pub fn check_run_name(run: &CheckRunSpec) -> String {
    let definition = serde_json::to_string(&run.check).unwrap_or_default();
    let (cause, attempt) = (run.cause.word(), run.attempt.to_string());
    let what = [&run.pipeline, &run.environment, cause, &definition];
    let hash = short_hash(&[&what[..], &[&run.revision, &attempt]].concat());
    let pipeline = slug(&run.pipeline, PIPELINE_PART, "pipeline");
    let check = slug(&run.check.name, ENVIRONMENT_PART, "check");
    format!("{pipeline}-{check}-{hash}")
}

/// The name of the Freeze that stops a pipeline, or all of a namespace, in these environments.
pub fn stop_name(pipeline: Option<&str>, environments: &[String]) -> String {
    let all = [pipeline.unwrap_or("all")].into_iter();
    let parts: Vec<_> = all.chain(environments.iter().map(String::as_str)).collect();
    let readable = slug(&parts.join("-"), PIPELINE_PART + ENVIRONMENT_PART, "stop");
    format!("stop-{readable}-{}", short_hash(&parts))
}

/// The name of the Change that proposes this file: the same file and content are the same Change.
pub fn change_name(readable: &str, path: &str, content: &str) -> String {
    format!("{readable}-{}", short_hash(&[path, content]))
}

/// The text itself where it is a label value, else a recognisable, hashed form of it.
pub fn label_value(text: &str) -> String {
    if is_label_value(text) {
        return text.to_owned();
    }
    let readable = slug(text, LABEL_VALUE - HASH_DIGITS - 1, "x");
    format!("{readable}-{}", short_hash(&[text]))
}

fn is_label_value(text: &str) -> bool {
    let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends_well = is_end(text.bytes().next()) && is_end(text.bytes().next_back());
    text.is_empty() || text.len() <= LABEL_VALUE && ends_well && text.bytes().all(is_inner)
}

/// Whether a text is a DNS label, as the names of namespaces are.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= DNS_LABEL && has_label_characters(text)
}

/// Whether a text is a DNS subdomain, as the names of most objects are.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= DNS_SUBDOMAIN && text.split('.').all(has_label_characters)
}

/// Lower-case letters, digits and inner dashes.
fn has_label_characters(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_end = |byte: Option<u8>| byte.is_some_and(|byte| is_inner(byte) && byte != b'-');
    let ends_well = is_end(text.bytes().next()) && is_end(text.bytes().next_back());
    ends_well && text.bytes().all(is_inner)
}

/// A readable part of an object name: lower-case letters, digits and single inner dashes.
pub fn slug(text: &str, limit: usize, if_nothing_is_left: &str) -> String {
    let mut slug = String::new();
    for c in text.chars().map(|c| c.to_ascii_lowercase()) {
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() == limit {
            break;
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() {
        if_nothing_is_left.to_owned()
    } else {
        slug.to_owned()
    }
}

/// Hex digits that differ where any part differs. Each part goes in with its length, so that text
/// cannot move from one part to the next unnoticed.
pub fn short_hash(parts: &[&str]) -> String {
    sha256(parts)[..HASH_DIGITS].to_owned()
}

/// The SHA-256 of the parts and their lengths, in hexadecimal digits.
pub fn sha256(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let bytes = hash.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_object_name(name: &str) -> bool {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let end = |byte: Option<u8>| byte.is_some_and(|byte| inner(byte) && byte != b'-');
        name.len() <= 63
            && name.bytes().all(inner)
            && end(name.bytes().next())
            && end(name.bytes().next_back())
    }

    const HOSTILE: &[&str] = &[
        "",
        "-",
        "---",
        "a",
        "UPPER",
        "with space",
        "slash/and/slash",
        "dots.in.name",
        "ümläut",
        "日本語",
        "a-very-long-name-that-goes-on-and-on-and-on-and-on-and-on-and-on-and-on-until-it-ends",
        "trailing-",
        "-leading",
        "under_score",
        "\u{0}\n\t",
        "exactly-thirty-characters-here-",
        "fifteen-chars--",
        "🚀",
        "İ",
        "K", // change length, or become ASCII, when lower-cased
    ];

    #[test]
    fn names_of_namespaces_and_objects_are_told_from_other_text() {
        for label in ["a", "0", "team-a", "a--b", &"x".repeat(63)] {
            assert!(is_dns_label(label) && is_dns_subdomain(label), "{label}");
        }
        let dotted = format!("{}.b", "x".repeat(64));
        for subdomain in ["a.b", "1.2.3", &dotted, &"x".repeat(253)] {
            assert!(!is_dns_label(subdomain), "{subdomain}");
            assert!(is_dns_subdomain(subdomain), "{subdomain}");
        }
        let long = "x".repeat(254);
        for neither in [
            "", ".", "..", "a.", ".a", "a..b", "-a", "a-", "A", "ä", "a/b", "a?", "a%2f",
        ]
        .into_iter()
        .chain(["a\nb", "a\u{1b}", "a b", "a_b", "a:b", &long])
        {
            assert!(
                !is_dns_label(neither) && !is_dns_subdomain(neither),
                "{neither:?}"
            );
        }
    }

    #[test]
    fn promotion_names_are_valid_for_any_input() {
        for pipeline in HOSTILE {
            for environment in HOSTILE {
                let site = PromotionSite::target(environment, Some(pipeline), environment);
                let name = promotion_name(pipeline, &site, environment, 7);
                assert!(
                    is_object_name(&name),
                    "{pipeline:?} {environment:?} gave {name:?}"
                );
            }
        }
    }

    #[test]
    fn promotion_names_read_like_their_inputs() {
        let name = promotion_name(
            "podinfo",
            &PromotionSite::environment("Staging EU"),
            "6.1.6",
            0,
        );
        assert_eq!(name.rsplit_once('-').unwrap().0, "podinfo-staging-eu");
        assert_eq!(
            name,
            promotion_name(
                "podinfo",
                &PromotionSite::environment("Staging EU"),
                "6.1.6",
                0
            )
        );
    }

    #[test]
    fn promotion_names_differ_where_any_input_differs() {
        let dev = PromotionSite::environment("dev");
        let names = [
            promotion_name("a", &dev, "1", 0),
            promotion_name("b", &dev, "1", 0),
            promotion_name("a", &PromotionSite::environment("Dev"), "1", 0),
            promotion_name("a", &PromotionSite::target("dev", None, "x"), "1", 0),
            promotion_name("a", &PromotionSite::target("dev", Some("c"), "x"), "1", 0),
            promotion_name("a", &dev, "2", 0),
            promotion_name("a", &dev, "1", 1),
            promotion_name("a", &dev, "11", 0),
            promotion_name("a", &dev, "", 11),
        ];
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn check_run_names_differ_where_any_input_differs() {
        let first = CheckRunSpec {
            pipeline: "shop".to_owned(),
            environment: "staging".to_owned(),
            revision: "1.0.0".to_owned(),
            ..CheckRunSpec::default()
        };
        let mut others = vec![first.clone(); 6];
        others[0].pipeline = "other".to_owned();
        others[1].environment = "prod".to_owned();
        others[2].revision = "1.0.1".to_owned();
        others[3].attempt = 1;
        others[4].cause = crate::check_run::CheckCause::Promotion;
        others[5].check.name = "smoke".to_owned();
        let mut all: Vec<_> = others.iter().map(check_run_name).collect();
        all.push(check_run_name(&first));
        assert!(all.iter().all(|name| is_object_name(name)));
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        // The result and the version do not matter.
        let mut reported = first.clone();
        reported.result = Some(crate::check_run::CheckResult::default());
        reported.version = "v1".to_owned();
        assert_eq!(check_run_name(&reported), check_run_name(&first));
    }

    #[test]
    fn long_names_keep_their_hash() {
        let name = promotion_name(
            &"p".repeat(253),
            &PromotionSite::environment(&"e".repeat(500)),
            "1",
            0,
        );
        assert_eq!(name.len(), 30 + 1 + 15 + 1 + 12);
    }

    #[test]
    fn label_values_are_valid_for_any_input() {
        for text in HOSTILE {
            let value = label_value(text);
            assert!(is_label_value(&value), "{text:?} gave {value:?}");
        }
        assert_eq!(label_value("feature_1.x"), "feature_1.x");
        assert_eq!(label_value(""), "");
        assert_ne!(label_value("feature/x"), label_value("feature-x"));
        assert_ne!(label_value("Ä"), label_value("Ö"));
    }
}
