//! Promotions without markers, in the layouts that Flux's documentation shows, with real git.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::support::*;
use git::edit::EditedFile;
use git::manifest::{ManifestIdentity, OtherDeployment, PinnedVersion, VersionField, WantedField};
use git::mirror::Mirror;
use git::paths::PathLimits;
use git::propose::{self, Proposal, ProposalResult, RequestedEdit, preview};
use tempfile::TempDir;
use testbed::forge::{Forge, Repository};

/// The files of a layout, sorted by path.
fn layout(name: &str) -> Vec<(String, String)> {
    fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                collect(root, &path, files);
                continue;
            }
            let name = path.strip_prefix(root).expect("it is below");
            let content = std::fs::read_to_string(&path).expect("text");
            files.push((name.display().to_string(), content));
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    let mut files = Vec::new();
    collect(&root, &root, &mut files);
    files.sort();
    files
}

/// A layout in a repository, and our mirror of it.
struct World {
    _forge: Forge,
    repository: Repository,
    mirror: Arc<Mirror>,
    _folder: TempDir,
    files: Vec<(String, String)>,
}

impl World {
    async fn of(files: Vec<(String, String)>) -> Self {
        let forge = Forge::start().await.expect("a forge");
        let texts: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        let repository = forge.create_repository("team/config", &texts).await;
        let repository = repository.expect("a repository");
        let folder = TempDir::new().expect("a folder");
        let login = credentials(&[("username", "git"), ("password", forge.token())]);
        let mirror = mirrors(folder.path()).open(&url(&repository.url()), &login);
        Self {
            _forge: forge,
            repository,
            mirror,
            _folder: folder,
            files,
        }
    }

    fn preview(&self, proposal: &Proposal) -> Result<BTreeMap<String, EditedFile>, propose::Error> {
        let files = self.files.iter().cloned();
        let files = files
            .map(|(path, text)| (path, text.into_bytes()))
            .collect();
        preview(&files, &self.repository.url(), proposal)
    }

    /// Proposes, and wants exactly these lines of one file to differ on the branch.
    async fn check(&self, wanted: WantedField, changed: &str, lines: &[(&str, &str)]) {
        let proposed = propose(&self.mirror, &found(wanted.clone())).await;
        assert_eq!(proposed.files, [changed]);
        for (path, before) in &self.files {
            let mut expected = before.clone();
            for (old, new) in lines.iter().filter(|_| path == changed) {
                assert_eq!(expected.matches(old).count(), 1, "{old:?} in {path}");
                expected = expected.replace(old, new);
            }
            let after = self.repository.read(BRANCH, path).await.expect("the file");
            assert_eq!(String::from_utf8(after).expect("text"), expected, "{path}");
        }
        // A preview of the same files says the same.
        let preview = self.preview(&found(wanted.clone()));
        let preview = preview.expect("something to change");
        assert_eq!(preview.keys().collect::<Vec<_>>(), [changed]);
        let after = self.repository.read(BRANCH, changed).await;
        assert_eq!(Some(&preview[changed].content), after.as_ref());
        // Once more ends in the same place.
        let again = propose(&self.mirror, &found(wanted)).await;
        assert_eq!((again.commit, again.pushed), (proposed.commit, false));
    }
}

fn found(wanted: WantedField) -> Proposal {
    let value = wanted.pin.clone();
    let mut proposal = proposal(&value.version);
    proposal.edit = RequestedEdit::MarkedOrFoundFields {
        marker: MARKER.to_owned(),
        value,
        wanted: vec![wanted],
    };
    proposal
}

fn wanted(kind: &str, name: &str, field: VersionField, directories: [&str; 2]) -> WantedField {
    let group = match kind {
        "HelmRelease" => "helm.toolkit.fluxcd.io",
        "Kustomization" => "kustomize.toolkit.fluxcd.io",
        _ => "apps",
    };
    let [own, other] = directories.map(str::to_owned);
    WantedField {
        identity: ManifestIdentity {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
        },
        field,
        pin: PinnedVersion {
            version: "6.5.0".to_owned(),
            digest: None,
            commit: None,
        },
        directories: vec![own],
        others: vec![OtherDeployment {
            name: other.clone(),
            namespace: "podinfo".to_owned(),
            directories: Some(vec![other]),
        }]
        .into_iter()
        .filter(|other| !other.name.is_empty())
        .collect(),
    }
}

const PRODUCTION: [&str; 2] = ["./apps/production", "./apps/staging"];

#[tokio::test]
async fn a_monorepo_with_overlays() {
    let world = World::of(layout("monorepo")).await;
    let chart = wanted("HelmRelease", "checkout", VersionField::Chart, PRODUCTION);
    let line = [("\"6.4.1\"   # follows", "\"6.5.0\"   # follows")];
    world
        .check(chart, "apps/production/checkout-patch.yaml", &line)
        .await;
    // From the cluster's own directory the same is found.
    let clusters = ["./clusters/production", "./clusters/staging"];
    let chart = wanted("HelmRelease", "checkout", VersionField::Chart, clusters);
    world
        .check(chart, "apps/production/checkout-patch.yaml", &line)
        .await;
}

#[tokio::test]
async fn an_image_in_a_monorepo() {
    let world = World::of(layout("monorepo")).await;
    let name = "registry.example/catalog".to_owned();
    let mut image = wanted(
        "Deployment",
        "catalog",
        VersionField::Image { name },
        PRODUCTION,
    );
    image.pin.version = "1.4.0".to_owned();
    let line = [("newTag: 1.3.2 # moved", "newTag: 1.4.0 # moved")];
    world
        .check(image, "apps/production/kustomization.yaml", &line)
        .await;
}

#[tokio::test]
async fn what_clusters_share_is_refused() {
    let world = World::of(layout("monorepo")).await;
    let clusters = ["clusters/production", "clusters/staging"];
    let mut shared = wanted("HelmRelease", "ingress", VersionField::Chart, clusters);
    shared.identity.namespace = "ingress".to_owned();
    let error = refusal(&world.mirror, &found(shared.clone())).await;
    assert_eq!(
        (error.reason(), error.remedy()),
        ("SharedManifest", net::Remedy::Edit)
    );
    assert!(
        error.to_string().contains("infrastructure/ingress.yaml:11"),
        "{error}"
    );
    assert_eq!(world.mirror.remote_requests().pushes, 0);
    // Also where nothing but the directories of the others leads to what they share.
    let mut files = layout("monorepo");
    files.push((
        "kustomization.yaml".to_owned(),
        "resources: []\n".to_owned(),
    ));
    let world = World::of(files).await;
    let error = refusal(&world.mirror, &found(shared.clone())).await;
    assert_eq!(error.reason(), "SharedManifest");
    // What is not known yet may be known soon.
    shared.others[0].directories = None;
    let error = refusal(&world.mirror, &found(shared)).await;
    assert_eq!(
        (error.reason(), error.remedy()),
        ("NotObserved", net::Remedy::RETRY)
    );
}

#[tokio::test]
async fn a_repository_per_environment() {
    let world = World::of(layout("per-environment")).await;
    let chart = wanted("HelmRelease", "checkout", VersionField::Chart, [".", ""]);
    let line = [(
        "checkout\n  ref:\n    tag: 6.4.1",
        "checkout\n  ref:\n    tag: 6.5.0",
    )];
    world.check(chart, "shop/sources.yaml", &line).await;
}

#[tokio::test]
async fn a_repository_per_team() {
    let world = World::of(layout("per-team")).await;
    let directories = ["deploy/production", "deploy/staging"];
    let mut source = wanted(
        "Kustomization",
        "checkout",
        VersionField::Source,
        directories,
    );
    source.identity.namespace = "checkout".to_owned();
    source.pin.version = "v1.9.0".to_owned();
    let line = [("'v1.8.3'", "'v1.9.0'")];
    world
        .check(source, "deploy/production/pin.yaml", &line)
        .await;
}

#[tokio::test]
async fn a_marker_counts_before_what_is_found() {
    let mut files = layout("monorepo");
    files.push(("apps/production/marked.yaml".to_owned(), manifest("1.0.0")));
    let world = World::of(files).await;
    let chart = wanted("HelmRelease", "checkout", VersionField::Chart, PRODUCTION);
    let line = [("version: 1.0.0", "version: 6.5.0")];
    world
        .check(chart, "apps/production/marked.yaml", &line)
        .await;
}

#[tokio::test]
async fn paths_limit_what_is_found_too() {
    let world = World::of(layout("monorepo")).await;
    let mut proposal = found(wanted(
        "HelmRelease",
        "checkout",
        VersionField::Chart,
        PRODUCTION,
    ));
    proposal.paths = PathLimits::new(["apps/staging"]).expect("patterns");
    let error = refusal(&world.mirror, &proposal).await;
    assert_eq!(error.reason(), "InvalidPath");
    assert!(
        error
            .to_string()
            .contains("apps/production/checkout-patch.yaml"),
        "{error}"
    );
}

#[tokio::test]
async fn what_is_there_already_needs_no_branch() {
    let world = World::of(layout("monorepo")).await;
    let mut chart = wanted("HelmRelease", "checkout", VersionField::Chart, PRODUCTION);
    chart.pin.version = "6.4.1".to_owned();
    let outcome = world.mirror.propose(&found(chart.clone()), &|_| true).await;
    assert!(matches!(
        outcome,
        Ok(ProposalResult::NothingToChange { .. })
    ));
    let preview = world.preview(&found(chart)).expect("nothing is wrong");
    assert_eq!(preview.len(), 0);
}

#[test]
fn a_preview_of_a_whole_file_is_that_file_unless_it_is_there_already() {
    let mut proposal = proposal("2.0.0");
    let content = b"kind: Pipeline\n".to_vec();
    proposal.edit = RequestedEdit::WholeFile {
        path: "a.yaml".to_owned(),
        content: content.clone(),
    };
    for (before, expected) in [
        (None, 1),
        (Some(b"old".to_vec()), 1),
        (Some(content.clone()), 0),
    ] {
        let files = before.map(|before| ("a.yaml".to_owned(), before));
        let files = files.into_iter().collect();
        let preview = preview(&files, "https://git.example/a/b", &proposal).expect("a preview");
        let written: Vec<_> = preview.values().map(|it| it.content.clone()).collect();
        assert_eq!(written, vec![content.clone(); expected]);
    }
}

#[tokio::test]
async fn a_marker_outside_the_paths_is_not_replaced_by_what_is_found() {
    let mut files = layout("monorepo");
    files.push(("elsewhere/marked.yaml".to_owned(), manifest("1.0.0")));
    let world = World::of(files).await;
    let chart = wanted("HelmRelease", "checkout", VersionField::Chart, PRODUCTION);
    let mut proposal = found(chart);
    proposal.paths = PathLimits::new(["apps"]).expect("patterns");
    let expected = "elsewhere/marked.yaml";
    let error = refusal(&world.mirror, &proposal).await;
    assert_eq!(error.reason(), "NoMarker");
    assert!(error.to_string().contains(expected), "{error}");
    let error = world.preview(&proposal).expect_err("as in the repository");
    assert_eq!(error.reason(), "NoMarker");
    assert!(error.to_string().contains(expected), "{error}");
}
