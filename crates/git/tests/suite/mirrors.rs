//! Mirrors: what they fetch, what they remember, what they forget.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use git::mirror::MirrorRetention;
use git::paths::PathLimits;
use git::propose::RequestedEdit;
use tempfile::TempDir;

use crate::support::*;

/// A bare repository on this disk with one commit on `main`.
fn remote(folder: &Path, script: &str) -> String {
    let path = folder.join("remote.git");
    run(
        folder,
        &[
            "init",
            "--quiet",
            "--bare",
            "--initial-branch=main",
            "remote.git",
        ],
        "",
    );
    run(&path, &["fast-import", "--quiet"], script);
    format!("file://{}", path.display())
}

fn run(folder: &Path, arguments: &[&str], input: &str) -> String {
    use std::io::Write;
    let mut child = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("git runs");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(input.as_bytes())
        .expect("it reads");
    let output = child.wait_with_output().expect("git ends");
    assert!(output.status.success(), "git {arguments:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn commit(files: &[(&str, &str, &str)]) -> String {
    let mut script =
        "commit refs/heads/main\ncommitter A <a@b> 1700000000 +0000\ndata 1\nx\n".to_owned();
    for (mode, path, content) in files {
        script.push_str(&format!(
            "M {mode} inline {path}\ndata {}\n{content}\n",
            content.len()
        ));
    }
    script
}

#[tokio::test]
async fn links_are_never_followed_nor_edited() {
    let folder = TempDir::new().expect("a folder");
    let target = manifest("1.0.0");
    let script = commit(&[
        ("120000", "linked.yaml", "../../etc/passwd.yaml"),
        ("120000", "marked.yaml", &target),
        ("120000", "elsewhere", "/tmp"),
        ("100755", "real.yaml", &target),
    ]);
    let remote = remote(folder.path(), &script);
    let mirror = mirrors(folder.path()).open(&url(&remote), &credentials(&[]));
    let proposed = propose(&mirror, &proposal("2.0.0")).await;
    assert_eq!(proposed.files, ["real.yaml"]);
    let listed = run(
        &folder.path().join("remote.git"),
        &["ls-tree", BRANCH, "real.yaml"],
        "",
    );
    assert!(listed.starts_with("100755 "), "the mode is kept: {listed}");
    for path in ["elsewhere/x.yaml", "linked.yaml"] {
        let mut wanted = proposal("x");
        wanted.edit = RequestedEdit::WholeFile {
            path: path.to_owned(),
            content: b"x".to_vec(),
        };
        assert_eq!(
            refusal(&mirror, &wanted).await.reason(),
            "InvalidPath",
            "{path}"
        );
    }
    // A file keeps its mode also where it is written as a whole.
    let mut wanted = proposal("x");
    wanted.edit = RequestedEdit::WholeFile {
        path: "real.yaml".to_owned(),
        content: b"x".to_vec(),
    };
    let proposed = propose(&mirror, &wanted).await;
    assert_eq!(proposed.files, ["real.yaml"]);
    let written = run(
        &folder.path().join("remote.git"),
        &["ls-tree", BRANCH, "real.yaml"],
        "",
    );
    assert!(
        written.starts_with("100755 ") && written != listed,
        "{written}"
    );
}

#[tokio::test]
async fn the_commit_says_who_and_what_for() {
    let folder = TempDir::new().expect("a folder");
    let remote = remote(
        folder.path(),
        &commit(&[("100644", "a.yaml", &manifest("1.0.0"))]),
    );
    let mirror = mirrors(folder.path()).open(&url(&remote), &credentials(&[]));
    propose(&mirror, &proposal("2.0.0")).await;
    let format = "--format=%an <%ae> %cn <%ce> %cI%n%B";
    let shown = run(
        &folder.path().join("remote.git"),
        &["log", "-1", format, BRANCH],
        "",
    );
    let us = "Sluice <sluice@noreply.invalid>";
    let expected = format!(
        "{us} {us} 2026-11-15T08:00:00+00:00\nPromote team/app in prod to 2.0.0\n\n\
         Sluice-Promotion: uid-of-2.0.0\nSluice-Owner: team/app/prod\n"
    );
    assert_eq!(shown.trim_end(), expected.trim_end());
}

#[tokio::test]
async fn the_branches_of_the_older_controller_are_taken_over() {
    let folder = TempDir::new().expect("a folder");
    let mut script = commit(&[("100644", "a.yaml", &manifest("1.0.0"))]);
    script.push_str(&format!(
        "commit refs/heads/{BRANCH}\ncommitter Promotion Server <> 1700000000 +0000\n\
         data 17\npromoting version\nfrom refs/heads/main\nM 100644 inline b\ndata 1\nb\n"
    ));
    let remote = remote(folder.path(), &script);
    let mirror = mirrors(folder.path()).open(&url(&remote), &credentials(&[]));
    assert_eq!(
        propose(&mirror, &proposal("2.0.0")).await.branch.as_str(),
        BRANCH
    );
}

#[tokio::test]
async fn a_push_that_the_remote_refuses_waits_for_an_edit() {
    let folder = TempDir::new().expect("a folder");
    let remote = remote(
        folder.path(),
        &commit(&[("100644", "a.yaml", &manifest("1.0.0"))]),
    );
    let hook = folder.path().join("remote.git/hooks/pre-receive");
    std::fs::create_dir_all(hook.parent().expect("a folder")).expect("a folder");
    std::fs::write(&hook, "#!/bin/sh\necho 'only on weekdays' >&2\nexit 1\n").expect("a hook");
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).expect("a hook");
    let mirror = mirrors(folder.path()).open(&url(&remote), &credentials(&[]));
    let error = refusal(&mirror, &proposal("2.0.0")).await;
    assert_eq!(
        (error.reason(), error.remedy()),
        ("PushRefused", net::Remedy::Edit)
    );
    assert!(error.to_string().contains("only on weekdays"), "{error}");
}

/// Somebody else's commit on top of a branch, which is there at once.
fn somebody_pushes(remote: &Path, from: &str, to: &str) {
    let script = format!(
        "commit refs/heads/{to}\ncommitter B <b@b> 1700000001 +0000\ndata 6\ntheirs\n\
         from refs/heads/{from}^0\nM 100644 inline theirs.txt\ndata 1\nx\n"
    );
    run(remote, &["fast-import", "--quiet"], &script);
}

#[tokio::test]
async fn a_push_between_our_look_and_our_push_is_never_overwritten() {
    for (name, target, is_there, from) in [
        ("straight onto the base", "main", true, "main"),
        ("onto a branch that is ours", BRANCH, true, BRANCH),
        ("onto a branch that was not there", BRANCH, false, "main"),
    ] {
        let folder = TempDir::new().expect("a folder");
        let files = [("100644", "a.yaml", manifest("1.0.0"))];
        let files = files
            .each_ref()
            .map(|(mode, path, text)| (*mode, *path, text.as_str()));
        let url_of_remote = remote(folder.path(), &commit(&files));
        let path = folder.path().join("remote.git");
        let mirror = mirrors(folder.path()).open(&url(&url_of_remote), &credentials(&[]));
        if is_there && target == BRANCH {
            propose(&mirror, &proposal("2.0.0")).await;
        }
        let mut wanted = proposal("3.0.0");
        wanted.branch = branch(target);
        let meanwhile = |_: Duration| {
            somebody_pushes(&path, from, target);
            true
        };
        let error = mirror.propose(&wanted, &meanwhile).await.expect_err(name);
        assert_eq!(
            (error.reason(), error.remedy()),
            ("BranchMoved", net::Remedy::RETRY),
            "{name}"
        );
        let last = run(&path, &["log", "-1", "--format=%s", target], "");
        assert_eq!(last.trim(), "theirs", "{name}");
        if target == "main" {
            propose(&mirror, &wanted).await;
            let log = run(&path, &["log", "--format=%s", "main"], "");
            let ours = "Promote team/app in prod to 3.0.0";
            assert_eq!(log.lines().collect::<Vec<_>>(), [ours, "theirs", "x"]);
        } else {
            let error = refusal(&mirror, &wanted).await;
            assert_eq!(error.reason(), "BranchChangedByOthers", "{name}");
        }
    }
}

#[tokio::test]
async fn a_thousand_commits_cost_one_commit() {
    let folder = TempDir::new().expect("a folder");
    let mut script = String::new();
    for number in 0..1000 {
        script.push_str(&commit(&[(
            "100644",
            "a.yaml",
            &format!("{}# {number}\n", manifest("1.0.0")),
        )]));
    }
    let remote = remote(folder.path(), &script);
    let all = mirrors(folder.path());
    let mirror = all.open(&url(&remote), &credentials(&[]));
    let proposed = propose(&mirror, &proposal("2.0.0")).await;
    let count = run(
        &folder.path().join("remote.git"),
        &["rev-list", "--count", BRANCH],
        "",
    );
    assert_eq!(count.trim(), "1001", "the remote has the whole history");
    let name = std::fs::read_dir(folder.path().join("mirrors")).expect("a folder");
    let here = name
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.is_dir())
        .expect("a mirror");
    let count = run(
        &here,
        &["rev-list", "--count", proposed.commit.as_str()],
        "",
    );
    assert_eq!(count.trim(), "2", "we have the tip and our commit");
}

#[tokio::test]
async fn old_and_large_mirrors_are_removed_and_come_back() {
    let folder = TempDir::new().expect("a folder");
    let remote = remote(
        folder.path(),
        &commit(&[("100644", "a.yaml", &manifest("1.0.0"))]),
    );
    for keep in [
        MirrorRetention {
            bytes: u64::MAX,
            age: Duration::ZERO,
        },
        MirrorRetention {
            bytes: 0,
            age: Duration::from_secs(3600),
        },
    ] {
        let all = mirrors_with(runner(folder.path()), folder.path(), keep);
        let mirror = all.open(&url(&remote), &credentials(&[]));
        propose(&mirror, &proposal("2.0.0")).await;
        all.remove_unused().await;
        let left = std::fs::read_dir(folder.path().join("mirrors"))
            .expect("a folder")
            .flatten();
        assert_eq!(left.filter(|entry| entry.path().is_dir()).count(), 0);
        let again = all.open(&url(&remote), &credentials(&[]));
        assert!(Arc::ptr_eq(&again, &mirror), "two would disturb each other");
        propose(&mirror, &proposal("2.0.0")).await;
    }
}

#[tokio::test]
async fn mirrors_that_fit_stay() {
    let folder = TempDir::new().expect("a folder");
    let remote = remote(
        folder.path(),
        &commit(&[("100644", "a.yaml", &manifest("1.0.0"))]),
    );
    let all = mirrors(folder.path());
    let mirror = all.open(&url(&remote), &credentials(&[]));
    propose(&mirror, &proposal("2.0.0")).await;
    all.remove_unused().await;
    propose(&mirror, &proposal("2.0.0")).await;
    assert_eq!(mirror.remote_requests().fetches, 1);
}

#[tokio::test]
async fn a_mirror_is_shared_by_credential_only() {
    let folder = TempDir::new().expect("a folder");
    let all = mirrors(folder.path());
    let address = url("https://example.com/a/b");
    let [one, same, other] = ["x-token", "x-token", "y-token"]
        .map(|token| all.open(&address, &credentials(&[("token", token)])));
    assert!(Arc::ptr_eq(&one, &same));
    assert!(!Arc::ptr_eq(&one, &other));
}

#[tokio::test]
async fn locks_left_by_a_killed_git_do_not_last() {
    let folder = TempDir::new().expect("a folder");
    let remote = remote(
        folder.path(),
        &commit(&[("100644", "a.yaml", &manifest("1.0.0"))]),
    );
    let mirror = mirrors(folder.path()).open(&url(&remote), &credentials(&[]));
    propose(&mirror, &proposal("2.0.0")).await;
    let entries = std::fs::read_dir(folder.path().join("mirrors")).expect("a folder");
    let here = entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.is_dir())
        .expect("a mirror");
    std::fs::write(here.join("shallow.lock"), "").expect("a lock");
    let next = commit(&[("100644", "b", "b")])
        .replace("\ndata 1\nx\n", "\ndata 1\nx\nfrom refs/heads/main^0\n");
    run(
        &folder.path().join("remote.git"),
        &["fast-import", "--quiet"],
        &next,
    );
    let again = mirrors(folder.path()).open(&url(&remote), &credentials(&[]));
    propose(&again, &proposal("2.0.0")).await;
}

/// The names of the folders of mirrors.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder.join("mirrors")).expect("a folder");
    let folders = entries.flatten().filter(|entry| entry.path().is_dir());
    let names = folders.map(|entry| entry.file_name().into_string().expect("text"));
    names.collect()
}

#[tokio::test]
async fn the_next_process_uses_the_same_mirrors() {
    let folder = TempDir::new().expect("a folder");
    let files = commit(&[("100644", "a.yaml", &manifest("1.0.0"))]);
    let remote = remote(folder.path(), &files);
    for _ in 0..2 {
        let mirror = mirrors(folder.path()).open(&url(&remote), &credentials(&[]));
        propose(&mirror, &proposal("2.0.0")).await;
        assert_eq!(names(folder.path()).len(), 1);
    }
}

/// Who reads the names of the folders cannot try passwords until one leads to such a name.
#[tokio::test]
async fn the_name_of_a_mirror_tells_nothing_about_the_password() {
    let folders = [(); 3].map(|()| TempDir::new().expect("a folder"));
    let files = commit(&[("100644", "a.yaml", &manifest("1.0.0"))]);
    let remote = remote(folders[0].path(), &files);
    let mut seen = Vec::new();
    for folder in &folders {
        // As after a full disk: what is there is too short to hide anything.
        let salt = folder.path().join("mirrors/salt");
        std::fs::create_dir_all(folder.path().join("mirrors")).expect("a folder");
        std::fs::write(&salt, "short").expect("written");
        let login = credentials(&[("token", "x-token")]);
        let mirror = mirrors(folder.path()).open(&url(&remote), &login);
        propose(&mirror, &proposal("2.0.0")).await;
        seen.extend(names(folder.path()));
        assert_eq!(std::fs::read(&salt).expect("a salt").len(), 32);
    }
    seen.sort();
    seen.dedup();
    assert_eq!(
        seen.len(),
        3,
        "the same password, and another name in each folder"
    );
}

#[tokio::test]
async fn only_as_many_mirrors_are_removed_as_must_be() {
    let folder = TempDir::new().expect("a folder");
    let files = commit(&[("100644", "a.yaml", &manifest("1.0.0"))]);
    let remote = remote(folder.path(), &files);
    let use_mirrors = async |bytes| {
        let age = Duration::from_secs(3600);
        let keep = MirrorRetention { bytes, age };
        let all = mirrors_with(runner(folder.path()), folder.path(), keep);
        for token in ["1", "2", "3"] {
            let mirror = all.open(&url(&remote), &credentials(&[("token", token)]));
            mirror.edits(&proposal("2.0.0")).await.expect("edits");
        }
        all.remove_unused().await;
        names(folder.path()).len()
    };
    assert_eq!(use_mirrors(u64::MAX).await, 3);
    let one = size_of(&folder.path().join("mirrors").join(&names(folder.path())[0]));
    assert_eq!(use_mirrors(one * 3 / 2).await, 1);
    assert_eq!(use_mirrors(one * 5 / 2).await, 2);
}

fn size_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let sizes = entries.map(|entry| match entry.path().is_dir() {
        true => size_of(&entry.path()),
        false => entry.metadata().expect("a file").len(),
    });
    sizes.sum()
}

#[tokio::test]
async fn a_file_that_is_too_large_is_not_edited() {
    let folder = TempDir::new().expect("a folder");
    let padded = |length: usize| {
        let mut text = format!("{}# ", manifest("1.0.0"));
        text.push_str(&"x".repeat(length - text.len()));
        text
    };
    let files = commit(&[
        ("100644", "large.yaml", &padded((1 << 20) + 1)),
        ("100644", "limit.yaml", &padded(1 << 20)),
    ]);
    let remote = remote(folder.path(), &files);
    let mirror = mirrors(folder.path()).open(&url(&remote), &credentials(&[]));
    let proposed = propose(&mirror, &proposal("2.0.0")).await;
    assert_eq!(proposed.files, ["limit.yaml"]);
}

#[tokio::test]
async fn an_edit_of_very_many_files_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let names =
        (0..501).map(|number| format!("{}/{number}.yaml", if number == 0 { "b" } else { "a" }));
    let names: Vec<String> = names.collect();
    let text = manifest("1.0.0");
    let files = names
        .iter()
        .map(|name| ("100644", name.as_str(), text.as_str()));
    let remote = remote(folder.path(), &commit(&files.collect::<Vec<_>>()));
    let mirror = mirrors(folder.path()).open(&url(&remote), &credentials(&[]));
    let mut wanted = proposal("2.0.0");
    let error = refusal(&mirror, &wanted).await;
    assert_eq!(error.to_string(), "the edit touches more than 500 files");
    wanted.paths = PathLimits::new(["a"]).expect("paths");
    assert_eq!(propose(&mirror, &wanted).await.files.len(), 500);
}
