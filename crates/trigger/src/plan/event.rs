//! Reads events from a source: one for each revision or pull request branch that could start a run.
//!
//! A source without a usable revision gives a message instead of events. No object, however
//! malformed, causes a panic.

use api::{
    flux::{Bucket, GitRepository, HelmChart, ImagePolicy, OCIRepository, SourceStatus},
    image::Image,
    revision::SourceRevision,
    third_party,
    trigger::TriggerSourceKind,
};
use serde_json::{Map, Value, json};

/// The length of an abbreviated commit.
const SHORT_COMMIT: usize = 7;

/// A revision of a source that can start a run.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceEvent {
    /// The revision as the source writes it.
    pub text: String,
    /// Identifies the event: the same for every notation of the same revision.
    pub key: String,
    /// What it is about.
    pub subject: EventSubject,
    /// Where the source fetches from.
    pub source_url: Option<String>,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq)]
pub enum EventSubject {
    /// An artifact that Flux fetched: from git, an OCI registry, a bucket or a chart repository.
    Artifact {
        /// The branch, tag, other reference or version.
        reference: Option<String>,
        /// The commit or digest, without its algorithm.
        commit: Option<String>,
        /// The commit or digest with its algorithm.
        digest: Option<String>,
        /// The source object's name, from its artifact path.
        repository: String,
    },
    /// An image that an ImagePolicy selected.
    Image {
        /// The image.
        image: Image,
        /// The last part of its name.
        name: String,
        /// The part before the last.
        repository: String,
    },
    /// A branch with an open pull request.
    PullRequest {
        /// The branch.
        branch: String,
        /// Its newest commit.
        commit: String,
        /// The forge's description of the pull request, as JSON.
        details: String,
    },
}

/// The events of a source, or why there are none yet.
pub fn events_of(
    kind: TriggerSourceKind,
    name: &str,
    object: &Value,
) -> Result<Vec<SourceEvent>, String> {
    match kind {
        TriggerSourceKind::GitRepository => {
            let source: GitRepository = third_party::read(object);
            artifact(kind, name, &source.status, source.spec.url)
        }
        TriggerSourceKind::OCIRepository => {
            let source: OCIRepository = third_party::read(object);
            artifact(kind, name, &source.status, source.spec.url)
        }
        TriggerSourceKind::HelmChart => {
            let source: HelmChart = third_party::read(object);
            artifact(kind, name, &source.status, None)
        }
        TriggerSourceKind::Bucket => {
            let source: Bucket = third_party::read(object);
            artifact(kind, name, &source.status, source.spec.endpoint)
        }
        TriggerSourceKind::ImagePolicy => image(name, &third_party::read(object)),
        TriggerSourceKind::PullRequest => pull_requests(object),
    }
}

fn artifact(
    kind: TriggerSourceKind,
    name: &str,
    status: &SourceStatus,
    source_url: Option<String>,
) -> Result<Vec<SourceEvent>, String> {
    let artifact = status.artifact.clone().unwrap_or_default();
    let text = artifact.revision.unwrap_or_default().trim().to_owned();
    if text.is_empty() {
        return Err(format!("{kind:?} {name} has not fetched anything yet"));
    }
    let revision = SourceRevision::parse(&text);
    // The third part of `kind/namespace/name/file` is the object's own name.
    let path = artifact.path.unwrap_or_default();
    let repository = path
        .split('/')
        .nth(2)
        .filter(|part| !part.is_empty())
        .unwrap_or(name)
        .to_owned();
    let subject = EventSubject::Artifact {
        reference: revision.reference().map(str::to_owned),
        commit: revision.commit().map(str::to_owned),
        digest: revision.digest(),
        repository,
    };
    let key = revision.to_string();
    Ok(vec![SourceEvent {
        text,
        key,
        subject,
        source_url,
    }])
}

fn image(policy: &str, object: &ImagePolicy) -> Result<Vec<SourceEvent>, String> {
    let Some(image) = object.status.latest() else {
        return Err(format!("ImagePolicy {policy} has not chosen an image yet"));
    };
    let mut parts = image.name().rsplit('/');
    let name = parts.next().unwrap_or_default().to_owned();
    let repository = parts.next().unwrap_or_default().to_owned();
    let text = full_reference(&image);
    Ok(vec![SourceEvent {
        key: text.clone(),
        source_url: Some(image.name().to_owned()),
        text,
        subject: EventSubject::Image {
            image,
            name,
            repository,
        },
    }])
}

/// `name:tag@digest`, as far as known.
fn full_reference(image: &Image) -> String {
    let mut text = image.name().to_owned();
    if let Some(tag) = image.tag() {
        text.push(':');
        text.push_str(tag);
    }
    if let Some(digest) = image.digest() {
        text.push('@');
        text.push_str(digest);
    }
    text
}

fn pull_requests(object: &Value) -> Result<Vec<SourceEvent>, String> {
    let branches = object.pointer("/status/sourceBranches/branches");
    let branches = branches.and_then(Value::as_array);
    let events = branches.into_iter().flatten().filter_map(pull_request);
    Ok(events.collect())
}

fn pull_request(branch: &Value) -> Option<SourceEvent> {
    let text = |field: &str| branch[field].as_str().unwrap_or_default().to_owned();
    let (name, commit) = (text("name"), text("commit"));
    if name.is_empty() {
        return None;
    }
    let key = format!("{name}@{commit}");
    let subject = EventSubject::PullRequest {
        branch: name,
        commit,
        details: text("details"),
    };
    Some(SourceEvent {
        text: key.clone(),
        key,
        subject,
        source_url: None,
    })
}

impl SourceEvent {
    /// The branch or other reference; `None` if the kind of source has none.
    pub fn branch(&self) -> Option<&str> {
        match &self.subject {
            EventSubject::Artifact { reference, .. } => {
                Some(reference.as_deref().unwrap_or_default())
            }
            EventSubject::Image { .. } => None,
            EventSubject::PullRequest { branch, .. } => Some(branch),
        }
    }

    /// The commit or digest without algorithm; `None` if the kind of source has none.
    pub fn commit(&self) -> Option<&str> {
        match &self.subject {
            EventSubject::Artifact { commit, .. } => Some(commit.as_deref().unwrap_or_default()),
            EventSubject::Image { .. } => None,
            EventSubject::PullRequest { commit, .. } => Some(commit),
        }
    }

    /// The abbreviated commit.
    pub fn short_commit(&self) -> Option<&str> {
        let commit = self.commit()?;
        Some(commit.get(..SHORT_COMMIT).unwrap_or(commit))
    }

    /// The tag, if the event may be about one.
    pub fn tag(&self) -> Option<&str> {
        match &self.subject {
            EventSubject::Artifact { reference, .. } => reference.as_deref().and_then(tag_name),
            EventSubject::Image { image, .. } => image.tag(),
            EventSubject::PullRequest { .. } => None,
        }
    }

    /// The image or artifact digest with its algorithm.
    pub fn digest(&self) -> Option<&str> {
        match &self.subject {
            EventSubject::Artifact { digest, .. } => digest.as_deref(),
            EventSubject::Image { image, .. } => image.digest(),
            EventSubject::PullRequest { .. } => None,
        }
    }

    /// The branch of a pull request; `None` for other sources. Runs for different branches are
    /// independent of each other.
    pub fn pull_request_branch(&self) -> Option<&str> {
        match &self.subject {
            EventSubject::PullRequest { branch, .. } => Some(branch),
            _ => None,
        }
    }

    /// The event as the operator stored it in `details`. `None` for pull requests, whose details may
    /// be long.
    pub fn details(&self) -> Option<String> {
        let members: &[(&str, &str)] = match &self.subject {
            EventSubject::Artifact { repository, .. } => &[
                ("branchName", self.branch().unwrap_or_default()),
                ("commitId", self.commit().unwrap_or_default()),
                ("repositoryName", repository),
            ],
            EventSubject::Image {
                image,
                name,
                repository,
            } => &[
                ("repositoryName", repository),
                ("imageName", name),
                ("imageVersion", image.tag().unwrap_or_default()),
            ],
            EventSubject::PullRequest { .. } => return None,
        };
        let members = members.iter().filter(|(_, value)| !value.is_empty());
        let members: Vec<String> = members
            .map(|(name, value)| format!("\"{name}\":{}", json_text(value)))
            .collect();
        Some(format!("{{{}}}", members.join(",")))
    }

    /// The document that JSONPath parameters are evaluated in.
    pub fn document(&self, previous: Option<&str>) -> Result<Value, String> {
        if let EventSubject::PullRequest {
            details, branch, ..
        } = &self.subject
        {
            return serde_json::from_str(details).map_err(|error| {
                format!("the details of pull request branch {branch} are not JSON: {error}")
            });
        }
        let details = self.details().unwrap_or_default();
        let mut document: Map<String, Value> =
            serde_json::from_str(&details).expect("details are written as a JSON object");
        let more = [
            ("branchId", self.commit()),
            ("revision", Some(self.text.as_str())),
            ("shortCommit", self.short_commit()),
            ("image", self.image()),
            ("tag", self.tag()),
            ("digest", self.digest()),
            ("previousRevision", previous),
            ("sourceUrl", self.source_url.as_deref()),
        ];
        for (name, value) in more {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                document.insert(name.to_owned(), json!(value));
            }
        }
        Ok(Value::Object(document))
    }

    /// The whole image reference.
    pub fn image(&self) -> Option<&str> {
        matches!(self.subject, EventSubject::Image { .. }).then_some(self.text.as_str())
    }
}

/// The tag that a reference names, unless it is certain to name something else.
fn tag_name(reference: &str) -> Option<&str> {
    let tag = reference.strip_prefix("refs/tags/");
    tag.or((!reference.starts_with("refs/")).then_some(reference))
}

/// The text as JSON, escaped as Go does, which the operator was written in.
fn json_text(text: &str) -> String {
    json!(text)
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

#[cfg(test)]
mod tests;
