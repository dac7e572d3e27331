//! Signed commits, made by git and verified by git.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use futures::future::BoxFuture;
use git::mirror::MirrorRetention;
use git::runner::{GitExecutionError, GitExecutor, GitInvocation, GitOutput};
use net::Remedy;
use tempfile::TempDir;
use testbed::forge::{Forge, Repository};

use crate::support::{
    credentials, manifest, mirrors, mirrors_with, proposal, propose, refusal, runner, url,
    whole_story,
};

fn run(command: &mut Command) -> Output {
    let output = command
        .output()
        .expect("ssh-keygen, gpg and git are installed");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    output
}

/// An SSH key and the file that says whose it is.
fn ssh_key(folder: &Path, kind: &str) -> (String, String) {
    let key = folder.join("id");
    let mut generate = Command::new("ssh-keygen");
    generate.args(["-q", "-t", kind, "-N", "", "-f"]);
    run(generate.arg(&key));
    let read = |path: &Path| std::fs::read_to_string(path).expect("a key");
    let public = read(&folder.join("id.pub"));
    let signers = format!("sluice@noreply.invalid {public}");
    std::fs::write(folder.join("signers"), &signers).expect("written");
    (read(&key), signers)
}

fn gpg(home: &Path) -> Command {
    let mut gpg = Command::new("gpg");
    gpg.env("GNUPGHOME", home);
    gpg.args(["--batch", "--quiet", "--pinentry-mode", "loopback"]);
    gpg
}

/// An OpenPGP key in a home of its own.
fn openpgp_key(home: &Path, passphrase: &str) -> String {
    std::fs::create_dir(home).expect("a folder");
    let mut generate = gpg(home);
    generate.args(["--passphrase", passphrase, "--quick-generate-key"]);
    run(generate.args(["Bot <bot@example.com>", "ed25519", "sign", "never"]));
    let mut export = gpg(home);
    export.args([
        "--passphrase",
        passphrase,
        "--armor",
        "--export-secret-keys",
    ]);
    String::from_utf8(run(&mut export).stdout).expect("text")
}

async fn repository(forge: &Forge) -> Repository {
    let files = [("prod/app.yaml", manifest("1.0.0"))];
    let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
    let made = forge.create_repository("team/config", &files).await;
    made.expect("a repository")
}

/// Everything below a folder, to look for what was left behind.
fn files_below(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        if entry.path().is_dir() {
            all.extend(files_below(&entry.path()));
        }
        all.push(entry.path().display().to_string());
    }
    all
}

#[tokio::test]
async fn a_commit_is_signed_with_an_ssh_key_and_git_verifies_it() {
    let (forge, folder) = (
        Forge::start().await.expect("a forge"),
        TempDir::new().expect("temp"),
    );
    let repository = repository(&forge).await;
    let keys = TempDir::new().expect("temp");
    let (key, _) = ssh_key(keys.path(), "ed25519");
    let login = credentials(&[("token", forge.token()), ("signingKey", &key)]);
    let mirrors = mirrors(folder.path());
    let mirror = mirrors.open(&url(&repository.url()), &login);
    mirror.check_push().await.expect("it can sign");
    let proposed = propose(&mirror, &proposal("1.1.0")).await;
    let mut verify = Command::new("git");
    verify.current_dir(repository.folder());
    let signers = keys.path().join("signers");
    verify.arg("-c");
    verify.arg(format!("gpg.ssh.allowedSignersFile={}", signers.display()));
    run(verify.args(["verify-commit", proposed.commit.as_str()]));
    // The same again is the same commit.
    let again = propose(&mirror, &proposal("1.1.0")).await;
    assert_eq!((again.commit, again.pushed), (proposed.commit, false));
    let home = files_below(&folder.path().join("home"));
    assert!(!home.iter().any(|path| path.contains("sign-")), "{home:?}");
}

#[tokio::test]
async fn a_signature_that_differs_each_time_makes_no_other_commit() {
    let (forge, folder) = (
        Forge::start().await.expect("a forge"),
        TempDir::new().expect("temp"),
    );
    let repository = repository(&forge).await;
    let keys = TempDir::new().expect("temp");
    let (key, _) = ssh_key(keys.path(), "ecdsa");
    let mirrors = mirrors(folder.path());
    let unsigned = credentials(&[("token", forge.token())]);
    let signed = credentials(&[("token", forge.token()), ("signingKey", &key)]);
    let open = |login| mirrors.open(&url(&repository.url()), login);
    let first = propose(&open(&unsigned), &proposal("1.1.0")).await;
    let signed = open(&signed);
    let second = propose(&signed, &proposal("1.1.0")).await;
    assert_ne!(second.commit, first.commit, "it was not signed");
    for _ in 0..2 {
        let again = propose(&signed, &proposal("1.1.0")).await;
        assert_eq!((again.commit, again.pushed), (second.commit.clone(), false));
    }
}

#[tokio::test]
async fn a_commit_is_signed_with_an_openpgp_key_and_git_verifies_it() {
    let (forge, folder) = (
        Forge::start().await.expect("a forge"),
        TempDir::new().expect("temp"),
    );
    let repository = repository(&forge).await;
    let keys = TempDir::new().expect("temp");
    let home = keys.path().join("gnupg");
    let key = openpgp_key(&home, "");
    let login = credentials(&[
        ("token", forge.token()),
        ("signingKey", &key),
        ("committerName", "Release Bot"),
        ("committerEmail", "bot@example.com"),
    ]);
    let mirrors = mirrors(folder.path());
    let mirror = mirrors.open(&url(&repository.url()), &login);
    let proposed = propose(&mirror, &proposal("1.1.0")).await;
    let mut verify = Command::new("git");
    verify
        .current_dir(repository.folder())
        .env("GNUPGHOME", &home);
    let commit = proposed.commit.as_str();
    let verified = run(verify.args(["verify-commit", "--raw", commit]));
    let text = String::from_utf8_lossy(&verified.stderr);
    assert!(text.contains("GOODSIG"), "{text}");
    let mut show = Command::new("git");
    show.current_dir(repository.folder());
    let shown = run(show.args(["log", "-1", "--format=%an <%ae>, %cn <%ce>", commit]));
    let shown = String::from_utf8_lossy(&shown.stdout);
    let expected = "Sluice <sluice@noreply.invalid>, Release Bot <bot@example.com>\n";
    assert_eq!(shown, expected);
    // Signatures of gpg differ each time, and the branch stays the same all the same.
    let again = propose(&mirror, &proposal("1.1.0")).await;
    assert_eq!((again.commit, again.pushed), (proposed.commit, false));
    // Another promotion replaces the commit, which is recognised as ours.
    let next = propose(&mirror, &proposal("1.2.0")).await;
    assert!(next.pushed);
    let left = files_below(&folder.path().join("home"));
    assert!(!left.iter().any(|path| path.contains("sign-")), "{left:?}");
}

#[tokio::test]
async fn a_key_with_a_passphrase_is_refused_and_not_in_the_message() {
    let (forge, folder) = (
        Forge::start().await.expect("a forge"),
        TempDir::new().expect("temp"),
    );
    let repository = repository(&forge).await;
    let keys = TempDir::new().expect("temp");
    let key = openpgp_key(&keys.path().join("gnupg"), "secret");
    let login = credentials(&[("token", forge.token()), ("signingKey", &key)]);
    let mirrors = mirrors(folder.path());
    let mirror = mirrors.open(&url(&repository.url()), &login);
    let error = mirror.check_push().await.expect_err("it is checked");
    assert_eq!(error.reason(), "SigningFailed");
    let error = refusal(&mirror, &proposal("1.1.0")).await;
    assert_eq!(
        (error.reason(), error.remedy()),
        ("SigningFailed", Remedy::Edit)
    );
    let story = whole_story(&error);
    assert!(
        story.contains("must be valid and have no passphrase"),
        "{story}"
    );
    let lines = key.lines().filter(|line| line.len() > 20);
    assert!(
        lines.into_iter().all(|line| !story.contains(line)),
        "{story}"
    );
    assert_eq!(repository.tip(crate::support::BRANCH).await, None);
    let left = files_below(&folder.path().join("home"));
    assert!(!left.iter().any(|path| path.contains("sign-")), "{left:?}");
}

/// A machine without gpg.
#[derive(Debug)]
struct WithoutGpg;

impl GitExecutor for WithoutGpg {
    fn execute(
        &self,
        invocation: GitInvocation,
    ) -> BoxFuture<'_, Result<GitOutput, GitExecutionError>> {
        Box::pin(async move {
            if invocation.program.is_some() {
                return Err(std::io::Error::from(std::io::ErrorKind::NotFound).into());
            }
            let mut git = tokio::process::Command::new("git");
            git.env_clear().envs(invocation.environment);
            git.args(invocation.arguments);
            git.current_dir(invocation.working_directory);
            git.stdin(std::process::Stdio::piped());
            git.stdout(std::process::Stdio::piped());
            git.stderr(std::process::Stdio::piped());
            let mut child = git.spawn()?;
            let mut stdin = child.stdin.take().expect("it is piped");
            tokio::io::AsyncWriteExt::write_all(&mut stdin, &invocation.input).await?;
            drop(stdin);
            let output = child.wait_with_output().await?;
            Ok(GitOutput {
                success: output.status.success(),
                stdout: output.stdout,
                stderr: output.stderr,
            })
        })
    }
}

#[tokio::test]
async fn without_gpg_the_error_says_what_to_install() {
    let (forge, folder) = (
        Forge::start().await.expect("a forge"),
        TempDir::new().expect("temp"),
    );
    let repository = repository(&forge).await;
    let key =
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nAAAA\n-----END PGP PRIVATE KEY BLOCK-----\n";
    let login = credentials(&[("token", forge.token()), ("signingKey", key)]);
    let runner = runner(folder.path()).with_executor(Arc::new(WithoutGpg));
    let mirrors = mirrors_with(runner, folder.path(), MirrorRetention::default());
    let mirror = mirrors.open(&url(&repository.url()), &login);
    let error = refusal(&mirror, &proposal("1.1.0")).await;
    assert_eq!(
        (error.reason(), error.remedy()),
        ("SigningFailed", Remedy::Edit)
    );
    let expected = "cannot sign the commit: gpg is not installed; install it beside git, or use an SSH \
                    key in the entry \"signingKey\"";
    assert!(whole_story(&error).contains(expected), "{error}");
}
