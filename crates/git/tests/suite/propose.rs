//! From a marker to a merged pull request, with real git and real HTTP on loopback.

use std::sync::Arc;
use std::time::Duration;

use crate::support::*;
use git::forge::{
    self, ForgeProduct, MergeMethod, MergeOptions, MergeResult, NewPullRequest, PullRequestState,
    PullRequestUpdate,
};
use git::mirror::{Mirror, MirrorRetention};
use git::names::ObjectId;
use git::paths::PathLimits;
use git::propose::{ProposalResult, ProposedEdit, RequestedEdit};
use git::runner::{GitLimits, GitRunner};
use net::{OutboundHttp, Remedy};
use tempfile::TempDir;
use testbed::forge::{Forge, PullState, Repository};

/// A forge with one repository, and our mirror of it.
struct World {
    forge: Forge,
    repository: Repository,
    mirror: Arc<Mirror>,
    folder: TempDir,
}

impl World {
    async fn new(files: &[(&str, &str)]) -> Self {
        let forge = Forge::start().await.expect("a forge");
        let repository = forge
            .create_repository("team/config", files)
            .await
            .expect("a repository");
        let folder = TempDir::new().expect("a folder");
        let login = credentials(&[("username", "git"), ("password", forge.token())]);
        let mirror = mirrors(folder.path()).open(&url(&repository.url()), &login);
        Self {
            forge,
            repository,
            mirror,
            folder,
        }
    }

    async fn with_manifest() -> Self {
        Self::new(&[
            ("apps/prod.yaml", &manifest("1.0.0")),
            ("README.md", "hello\n"),
        ])
        .await
    }

    async fn file(&self, branch: &str) -> String {
        let content = self
            .repository
            .read(branch, "apps/prod.yaml")
            .await
            .expect("the manifest");
        String::from_utf8(content).expect("text")
    }
}

#[tokio::test]
async fn a_marker_becomes_a_merged_pull_request() {
    let world = World::with_manifest().await;
    let proposed = propose(&world.mirror, &proposal("2.0.0")).await;
    assert_eq!(proposed.files, ["apps/prod.yaml"]);

    let http = Arc::new(OutboundHttp::new(ANY_ADDRESS));
    let login = credentials(&[("token", world.forge.token())]);
    let forge = forge::open(
        ForgeProduct::Gitea,
        &http,
        &url(&world.repository.url()),
        &login,
    )
    .expect("a forge");
    let new = NewPullRequest {
        head: proposed.branch.clone(),
        base: branch("main"),
        title: "Promote team/app in prod to 2.0.0".into(),
        body: OWNER.into(),
        draft: false,
    };
    let opened = forge.create(&new).await.expect("a pull request");
    assert_eq!(opened.head_commit.as_ref(), Some(&proposed.commit));
    let again = forge.create(&new).await.expect_err("there is one already");
    assert_eq!(again.reason(), "AlreadyExists");

    let merge = MergeOptions {
        head: proposed.commit,
        method: MergeMethod::Merge,
    };
    assert_eq!(
        forge.merge(opened.number, &merge).await.expect("merged"),
        MergeResult::Merged
    );
    assert_eq!(
        forge
            .merge(opened.number, &merge)
            .await
            .expect("merged before"),
        MergeResult::Merged
    );
    assert_eq!(world.file("main").await, manifest("2.0.0"));
    let found = forge.find(&branch(BRANCH)).await.expect("it can be found");
    assert_eq!(
        found.iter().map(|pull| pull.state).collect::<Vec<_>>(),
        [PullRequestState::Merged]
    );
}

#[tokio::test]
async fn a_private_authority_and_another_base_work() {
    let forge = Forge::start_with_tls().await.expect("a forge");
    let repository = forge
        .create_repository("team/config", &[("a.yml", &manifest("1.0.0"))])
        .await;
    let repository = repository.expect("a repository");
    repository
        .commit("production", "Branch off", &[("b.txt", "b")])
        .await
        .expect("a branch");
    let authority = forge.certificate_authority().expect("an authority");
    let login = credentials(&[
        ("username", "git"),
        ("password", forge.token()),
        ("token", forge.token()),
        ("caFile", authority),
    ]);
    let folder = TempDir::new().expect("a folder");
    let mirror = mirrors(folder.path()).open(&url(&repository.url()), &login);
    let mut wanted = proposal("2.0.0");
    wanted.base = branch("production");
    propose(&mirror, &wanted).await;

    let http = Arc::new(OutboundHttp::new(ANY_ADDRESS));
    let api =
        forge::open(ForgeProduct::Gitea, &http, &url(&repository.url()), &login).expect("a forge");
    let new = NewPullRequest {
        head: branch(BRANCH),
        base: branch("production"),
        title: "t".into(),
        body: OWNER.into(),
        draft: true,
    };
    let opened = api.create(&new).await.expect("a pull request");
    assert_eq!(
        (opened.base.as_str(), opened.draft, opened.title.as_str()),
        ("production", true, "t")
    );
    let changes = PullRequestUpdate {
        title: Some("u".into()),
        ..PullRequestUpdate::default()
    };
    let changed = api.update(opened.number, &changes).await.expect("changed");
    assert_eq!(
        (changed.draft, changed.title.as_str()),
        (true, "u"),
        "a draft stays one"
    );
}

#[tokio::test]
async fn without_the_authority_the_host_is_not_trusted() {
    let forge = Forge::start_with_tls().await.expect("a forge");
    let repository = forge
        .create_repository("team/config", &[])
        .await
        .expect("a repository");
    let folder = TempDir::new().expect("a folder");
    let login = credentials(&[("username", "git"), ("password", forge.token())]);
    let mirror = mirrors(folder.path()).open(&url(&repository.url()), &login);
    let error = refusal(&mirror, &proposal("2.0.0")).await;
    assert_eq!(
        (error.reason(), error.remedy()),
        ("UnknownHost", Remedy::Edit)
    );
}

#[tokio::test]
async fn doing_it_twice_ends_in_the_same_place() {
    let world = World::with_manifest().await;
    let first = propose(&world.mirror, &proposal("2.0.0")).await;
    let second = propose(&world.mirror, &proposal("2.0.0")).await;
    assert!(first.pushed && !second.pushed);
    assert_eq!(first.commit, second.commit);
    let traffic = world.mirror.remote_requests();
    assert_eq!((traffic.fetches, traffic.pushes), (1, 1));
}

#[tokio::test]
async fn another_process_ends_in_the_same_place_too() {
    let world = World::with_manifest().await;
    let first = propose(&world.mirror, &proposal("2.0.0")).await;
    let folder = TempDir::new().expect("a folder");
    let login = credentials(&[("username", "git"), ("password", world.forge.token())]);
    let mirror = mirrors(folder.path()).open(&url(&world.repository.url()), &login);
    let second = propose(&mirror, &proposal("2.0.0")).await;
    assert_eq!((second.commit, second.pushed), (first.commit, false));
}

// Defect 14 of the older controller: branches grew on what they once began with.
#[tokio::test]
async fn the_branch_is_rebuilt_on_the_current_base() {
    let world = World::with_manifest().await;
    propose(&world.mirror, &proposal("2.0.0")).await;
    world
        .repository
        .commit("main", "Something else", &[("other.txt", "x")])
        .await
        .expect("a commit");
    propose(&world.mirror, &proposal("3.0.0")).await;
    let log = world.repository.log(BRANCH).await.expect("a log");
    assert_eq!(
        log,
        [
            "Promote team/app in prod to 3.0.0",
            "Something else",
            "First commit"
        ]
    );
    assert_eq!(world.file(BRANCH).await, manifest("3.0.0"));
}

#[tokio::test]
async fn a_branch_that_others_changed_is_left_alone() {
    let world = World::with_manifest().await;
    propose(&world.mirror, &proposal("2.0.0")).await;
    let theirs = world
        .repository
        .commit(BRANCH, "A fix", &[("fix.txt", "x")])
        .await
        .expect("a commit");
    let error = refusal(&world.mirror, &proposal("3.0.0")).await;
    assert_eq!(
        (error.reason(), error.remedy()),
        ("BranchChangedByOthers", Remedy::Edit)
    );
    assert_eq!(world.repository.tip(BRANCH).await, Some(theirs));
}

#[tokio::test]
async fn what_others_pushed_is_replaced_once_it_may_be() {
    let world = World::with_manifest().await;
    propose(&world.mirror, &proposal("2.0.0")).await;
    let theirs = world
        .repository
        .commit(BRANCH, "A fix", &[("fix.txt", "x")])
        .await
        .expect("a commit");
    let theirs = ObjectId::new(theirs).expect("a commit's name");
    let mut over = proposal("3.0.0");
    over.replaceable = Some(ObjectId::new("1".repeat(40)).expect("a name"));
    let error = refusal(&world.mirror, &over).await;
    assert_eq!(
        error.reason(),
        "BranchChangedByOthers",
        "it is another commit"
    );
    over.replaceable = Some(theirs.clone());
    let proposed = propose(&world.mirror, &over).await;
    assert_eq!(proposed.replaced, Some(theirs));
}

#[tokio::test]
async fn tips_tell_of_every_push_and_deletion() {
    let world = World::with_manifest().await;
    let (main, own) = (branch("main"), branch(BRANCH));
    let tips = async || world.mirror.tips(&[&main, &own]).await.expect("tips");
    let first = tips().await;
    assert_eq!(first.keys().collect::<Vec<_>>(), [&main]);
    let proposed = propose(&world.mirror, &proposal("2.0.0")).await;
    let second = tips().await;
    assert_eq!(second.get(&own), Some(&proposed.commit));
    assert_eq!(second.get(&main), first.get(&main));
    world
        .repository
        .delete_branch(BRANCH)
        .await
        .expect("it goes");
    assert_eq!(tips().await, first);
}

#[tokio::test]
async fn a_branch_of_another_owner_is_stepped_around() {
    let world = World::with_manifest().await;
    let mut other = proposal("9.0.0");
    other.message.owner = "team-app/x/prod".to_owned();
    propose(&world.mirror, &other).await;
    let ours = propose(&world.mirror, &proposal("2.0.0")).await;
    assert!(
        ours.branch.as_str().starts_with(&format!("{BRANCH}-")),
        "{}",
        ours.branch
    );
    assert_eq!(ours.branch.as_str().len(), BRANCH.len() + 9);
    assert_eq!(world.file(BRANCH).await, manifest("9.0.0"));
    let again = propose(&world.mirror, &proposal("2.0.0")).await;
    assert_eq!((again.branch, again.pushed), (ours.branch, false));
}

#[tokio::test]
async fn a_merged_branch_that_was_not_deleted_is_used_again() {
    let world = World::with_manifest().await;
    let first = propose(&world.mirror, &proposal("2.0.0")).await;
    let main = world
        .repository
        .commit(
            "main",
            "Squashed",
            &[("apps/prod.yaml", &manifest("2.0.0"))],
        )
        .await;
    assert_ne!(main.expect("a commit"), first.commit.as_str());
    let second = propose(&world.mirror, &proposal("3.0.0")).await;
    assert_eq!(second.branch.as_str(), BRANCH);
    assert_eq!(world.repository.log(BRANCH).await.expect("a log").len(), 3);
}

#[tokio::test]
async fn what_the_base_holds_already_is_not_proposed() {
    let world = World::with_manifest().await;
    let outcome = world
        .mirror
        .propose(&proposal("1.0.0"), &|_| true)
        .await
        .expect("it is looked at");
    assert!(matches!(outcome, ProposalResult::NothingToChange { .. }));
    assert_eq!(world.repository.tip(BRANCH).await, None);
}

#[tokio::test]
async fn edits_are_read_without_a_push() {
    let world = World::with_manifest().await;
    let read = || async { world.mirror.edits(&proposal("2.0.0")).await };
    let edits = read().await.expect("they can be read");
    let [edit] = edits.as_slice() else {
        panic!("one value changes: {edits:?}");
    };
    assert_eq!(
        (edit.file.as_str(), edit.edit.path.as_str()),
        ("apps/prod.yaml", "spec.version")
    );
    assert_eq!(
        (edit.edit.old.as_deref(), edit.edit.new.as_str()),
        (Some("1.0.0"), "2.0.0")
    );
    assert_eq!(world.repository.tip(BRANCH).await, None);
    assert_eq!(world.mirror.remote_requests().pushes, 0);

    let neighbour = world
        .repository
        .commit("main", "Other", &[("README.md", "bye\n")]);
    neighbour.await.expect("a commit");
    assert_eq!(read().await.expect("they can be read"), edits);
    assert_eq!(
        propose(&world.mirror, &proposal("2.0.0")).await.edits,
        edits
    );

    let edited = [("apps/prod.yaml", manifest("1.5.0"))];
    let edited = edited.each_ref().map(|(path, text)| (*path, text.as_str()));
    world
        .repository
        .commit("main", "Edit", &edited)
        .await
        .expect("a commit");
    assert_ne!(read().await.expect("they can be read"), edits);
    assert_eq!(
        world.mirror.edits(&proposal("1.5.0")).await.expect("read"),
        []
    );
}

#[tokio::test]
async fn edits_that_are_not_accepted_are_not_pushed() {
    let world = World::with_manifest().await;
    let replaces = |value: &'static str| {
        move |edits: &[ProposedEdit]| edits.iter().all(|it| it.edit.old.as_deref() == Some(value))
    };
    let (old, current) = (replaces("0.9.0"), replaces("1.0.0"));
    let proposal = proposal("2.0.0");
    let outcome = world.mirror.propose_if(&proposal, &old, &|_| true);
    let outcome = outcome.await.expect("it is looked at");
    assert!(matches!(outcome, ProposalResult::NotAccepted { edits } if edits.len() == 1));
    assert_eq!(world.repository.tip(BRANCH).await, None);
    let outcome = world.mirror.propose_if(&proposal, &current, &|_| true);
    assert!(matches!(outcome.await, Ok(ProposalResult::Proposed(_))));
    assert!(world.repository.tip(BRANCH).await.is_some());
}

#[tokio::test]
async fn only_files_within_the_paths_change() {
    let files = [
        ("apps/prod.yaml", manifest("1.0.0")),
        ("other/prod.yaml", manifest("1.0.0")),
    ];
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (*path, text.as_str()))
        .collect();
    let world = World::new(&files).await;
    let mut wanted = proposal("2.0.0");
    wanted.paths = PathLimits::new(["apps"]).expect("paths");
    assert_eq!(
        propose(&world.mirror, &wanted).await.files,
        ["apps/prod.yaml"]
    );
    wanted.paths = PathLimits::new(["nowhere"]).expect("paths");
    let error = refusal(&world.mirror, &wanted).await;
    assert_eq!(error.reason(), "NoMarker");
    assert!(error.to_string().contains("other/prod.yaml"), "{error}");
}

#[tokio::test]
async fn what_forges_run_is_never_changed() {
    for path in [
        ".github/workflows/release.yaml",
        ".gitlab-ci.yml",
        "bitbucket-pipelines.yml",
    ] {
        let text = manifest("1.0.0");
        let files = [("apps/prod.yaml", text.as_str()), (path, text.as_str())];
        let world = World::new(&files).await;
        let error = refusal(&world.mirror, &proposal("2.0.0")).await;
        assert_eq!(error.reason(), "InvalidPath");
        assert!(error.to_string().contains(path), "{error}");
        // Outside the paths that may change it is in nobody's way.
        let mut wanted = proposal("2.0.0");
        wanted.paths = PathLimits::new(["apps"]).expect("paths");
        let proposed = propose(&world.mirror, &wanted).await;
        assert_eq!(proposed.files, ["apps/prod.yaml"]);
    }
}

#[tokio::test]
async fn files_that_are_no_yaml_are_skipped_and_named() {
    let broken = format!("a: [\n{}", manifest("1.0.0"));
    let world = World::new(&[("broken.yaml", &broken), ("notes.txt", &manifest("1.0.0"))]).await;
    let error = refusal(&world.mirror, &proposal("2.0.0")).await;
    assert_eq!((error.reason(), error.remedy()), ("NoMarker", Remedy::Edit));
    assert!(error.to_string().contains("broken.yaml"), "{error}");
}

#[tokio::test]
async fn a_missing_base_is_named() {
    let world = World::with_manifest().await;
    let mut wanted = proposal("2.0.0");
    wanted.base = branch("production");
    assert_eq!(
        refusal(&world.mirror, &wanted).await.to_string(),
        "the repository has no branch production"
    );
}

#[tokio::test]
async fn wrong_passwords_are_a_matter_of_editing_and_never_shown() {
    let world = World::with_manifest().await;
    let folder = TempDir::new().expect("a folder");
    let login = credentials(&[("username", "git"), ("password", "hunter22hunter22")]);
    let mirror = mirrors(folder.path()).open(&url(&world.repository.url()), &login);
    let error = refusal(&mirror, &proposal("2.0.0")).await;
    assert_eq!(
        (error.reason(), error.remedy()),
        ("Unauthorized", Remedy::Edit)
    );
    assert!(
        !whole_story(&error).contains("hunter22"),
        "{}",
        whole_story(&error)
    );
    let error = mirror.check_push().await.expect_err("it may not push");
    assert_eq!(error.reason(), "Unauthorized");
    world.mirror.check_push().await.expect("it may push");
}

/// What is wrong with the files is not wrong with the mirror.
#[tokio::test]
async fn a_marker_of_another_app_is_none_of_ours() {
    let world = World::with_manifest().await;
    let mut other = proposal("2.0.0");
    other.edit = RequestedEdit::MarkedFields {
        marker: "team:app:dev".to_owned(),
        value: "2.0.0".into(),
    };
    assert_eq!(refusal(&world.mirror, &other).await.reason(), "NoMarker");
    propose(&world.mirror, &proposal("2.0.0")).await;
    assert_eq!(world.mirror.remote_requests().fetches, 1);
}

/// The name of the base is not stepped around, whoever committed to it last.
#[tokio::test]
async fn straight_commits_of_several_owners_go_onto_the_base() {
    let world = World::with_manifest().await;
    for (version, owner) in [("2.0.0", OWNER), ("3.0.0", "team/app/other")] {
        let mut wanted = proposal(version);
        wanted.branch = branch("main");
        wanted.message.owner = owner.to_owned();
        let proposed = propose(&world.mirror, &wanted).await;
        assert_eq!(proposed.branch.as_str(), "main");
        assert_eq!(world.file("main").await, manifest(version));
    }
}

#[tokio::test]
async fn a_repository_that_is_not_there_is_a_matter_of_editing() {
    let world = World::with_manifest().await;
    let folder = TempDir::new().expect("a folder");
    let login = credentials(&[("username", "git"), ("password", world.forge.token())]);
    let missing = format!("{}/team/nothing.git", world.forge.origin());
    let mirror = mirrors(folder.path()).open(&url(&missing), &login);
    let error = refusal(&mirror, &proposal("2.0.0")).await;
    assert_eq!(
        (error.reason(), error.remedy()),
        ("RepositoryNotFound", Remedy::Edit)
    );
}

#[tokio::test]
async fn a_forge_that_is_down_is_asked_again() {
    let world = World::with_manifest().await;
    world.forge.set_available(false);
    let error = refusal(&world.mirror, &proposal("2.0.0")).await;
    assert_eq!(
        (error.reason(), error.remedy()),
        ("Unreachable", Remedy::RETRY)
    );
    world.forge.set_available(true);
    propose(&world.mirror, &proposal("2.0.0")).await;
}

#[tokio::test]
async fn straight_commits_race_and_none_is_lost() {
    let marked = |app: usize| format!("v: 1 # {{\"$promotion\": \"team:app{app}:prod\"}}\n");
    let files: Vec<(String, String)> = (0..6)
        .map(|app| (format!("{app}.yaml"), marked(app)))
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(p, c)| (p.as_str(), c.as_str()))
        .collect();
    let world = World::new(&files).await;
    let one = |app: usize| {
        let mut wanted = proposal("2.0.0");
        wanted.branch = branch("main");
        wanted.message.title = format!("app {app}");
        let marker = format!("team:app{app}:prod");
        wanted.edit = RequestedEdit::MarkedFields {
            marker,
            value: "2.0.0".into(),
        };
        let mirror = world.mirror.clone();
        async move {
            loop {
                match mirror.propose(&wanted, &|_| true).await {
                    Ok(outcome) => return outcome,
                    Err(error) => assert_eq!(error.reason(), "BranchMoved", "{error}"),
                }
            }
        }
    };
    futures::future::join_all((0..6).map(one)).await;
    let log = world.repository.log("main").await.expect("a log");
    assert_eq!(
        log.len(),
        7,
        "one commit each, on top of one another: {log:?}"
    );
    for app in 0..6 {
        let file = world
            .repository
            .read("main", &format!("{app}.yaml"))
            .await
            .expect("a file");
        assert!(file.starts_with(b"v: 2.0.0 #"));
    }
}

#[tokio::test]
async fn a_whole_file_can_be_proposed() {
    let world = World::with_manifest().await;
    let mut wanted = proposal("x");
    let file = |path: &str| RequestedEdit::WholeFile {
        path: path.to_owned(),
        content: b"kind: Pipeline\n".to_vec(),
    };
    wanted.edit = file("pipelines/new.yaml");
    propose(&world.mirror, &wanted).await;
    let content = world.repository.read(BRANCH, "pipelines/new.yaml").await;
    assert_eq!(content.as_deref(), Some(b"kind: Pipeline\n".as_slice()));
    let sized = |size: usize| RequestedEdit::WholeFile {
        path: "pipelines/new.yaml".to_owned(),
        content: vec![b'x'; size],
    };
    wanted.edit = sized(1 << 20);
    propose(&world.mirror, &wanted).await;
    wanted.edit = sized((1 << 20) + 1);
    let error = refusal(&world.mirror, &wanted).await;
    let expected = "cannot write pipelines/new.yaml: it is too large";
    assert_eq!(error.to_string(), expected);
    for path in ["../x", ".git/hooks/x", "/etc/x", "apps", "README.md/x"] {
        wanted.edit = file(path);
        assert_eq!(
            refusal(&world.mirror, &wanted).await.reason(),
            "InvalidPath",
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_person_merging_meanwhile_leaves_nothing_to_do() {
    let world = World::with_manifest().await;
    let proposed = propose(&world.mirror, &proposal("2.0.0")).await;
    let http = Arc::new(OutboundHttp::new(ANY_ADDRESS));
    let login = credentials(&[("token", world.forge.token())]);
    let api = forge::open(
        ForgeProduct::Gitea,
        &http,
        &url(&world.repository.url()),
        &login,
    )
    .expect("a forge");
    let new = NewPullRequest {
        head: proposed.branch,
        base: branch("main"),
        title: "t".into(),
        body: String::new(),
        draft: false,
    };
    let opened = api.create(&new).await.expect("a pull request");
    world
        .repository
        .merge(opened.number)
        .await
        .expect("a person merges");
    assert_eq!(
        world.repository.pull_requests().await[0].state,
        PullState::Merged
    );
    let outcome = world
        .mirror
        .propose(&proposal("2.0.0"), &|_| true)
        .await
        .expect("it is looked at");
    assert!(matches!(outcome, ProposalResult::NothingToChange { .. }));
}

#[tokio::test]
async fn nothing_is_pushed_without_permission() {
    let world = World::with_manifest().await;
    let error = world.mirror.propose(&proposal("2.0.0"), &|_| false).await;
    let error = error.expect_err("the permission is gone");
    assert_eq!(
        (error.reason(), error.remedy()),
        ("NotPermitted", Remedy::RETRY)
    );
    assert_eq!(world.repository.tip(BRANCH).await, None);
}

#[tokio::test]
async fn permission_is_asked_for_as_long_as_a_push_may_take() {
    let world = World::with_manifest().await;
    let folder = TempDir::new().expect("a folder");
    let limits = GitLimits {
        push: Duration::from_secs(7),
        ..GitLimits::default()
    };
    let runner = GitRunner::new(folder.path(), limits, ANY_ADDRESS).expect("a runner");
    let all = mirrors_with(runner, folder.path(), MirrorRetention::default());
    let login = credentials(&[("username", "git"), ("password", world.forge.token())]);
    let mirror = all.open(&url(&world.repository.url()), &login);
    let only_seven_seconds = |needed| needed == Duration::from_secs(7);
    let wanted = proposal("2.0.0");
    let pushed = mirror.propose(&wanted, &only_seven_seconds).await;
    assert!(matches!(pushed, Ok(ProposalResult::Proposed(_))));
}

#[tokio::test]
async fn a_damaged_mirror_is_made_anew() {
    let world = World::with_manifest().await;
    propose(&world.mirror, &proposal("2.0.0")).await;
    let mirrors = std::fs::read_dir(world.folder.path().join("mirrors")).expect("a folder");
    let mut folders = mirrors.flatten().map(|entry| entry.path());
    let here = folders.find(|path| path.is_dir()).expect("a mirror");
    // Every object is gone, but the references still name them.
    std::fs::remove_dir_all(here.join("objects")).expect("damaged");
    std::fs::create_dir_all(here.join("objects/pack")).expect("damaged");
    let tip = world
        .repository
        .commit("main", "More", &[("more.txt", "x")])
        .await;
    assert!(tip.is_ok());
    let attempts = [
        world.mirror.propose(&proposal("3.0.0"), &|_| true).await,
        world.mirror.propose(&proposal("3.0.0"), &|_| true).await,
    ];
    assert!(
        matches!(attempts[1], Ok(ProposalResult::Proposed(_))),
        "the second attempt finds a new mirror: {attempts:?}"
    );
}
