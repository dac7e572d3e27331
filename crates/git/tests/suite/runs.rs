//! What reaches the git process and what does not, seen by programs in git's and ssh's place.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Router;
use axum::response::Redirect;
use git::mirror::MirrorRetention;
use git::runner::{GitLimits, GitRunner};
use net::Remedy;
use tempfile::TempDir;
use testbed::forge::Forge;

use crate::support::*;

fn program(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a program");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a program");
    path
}

/// All files below a folder that hold the text.
fn holding(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if std::fs::read(&path)
            .is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text))
        {
            found.push(path);
        }
    }
    found
}

async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

#[tokio::test]
async fn passwords_are_neither_in_arguments_nor_on_disk() {
    let forge = Forge::start().await.expect("a forge");
    let repository = forge
        .create_repository("a/b", &[("a.yaml", &manifest("1.0.0"))])
        .await
        .expect("one");
    let (folder, tools) = (
        TempDir::new().expect("a folder"),
        TempDir::new().expect("a folder"),
    );
    let seen = tools.path().join("seen");
    let text = format!(
        "#!/bin/sh\necho \"$@\" >>{}\nexec git \"$@\"\n",
        seen.display()
    );
    let runner = runner(folder.path()).with_program(program(tools.path(), "recording-git", &text));
    let login = credentials(&[("username", "git"), ("password", forge.token())]);
    let all = mirrors_with(runner, folder.path(), MirrorRetention::default());
    propose(
        &all.open(&url(&repository.url()), &login),
        &proposal("2.0.0"),
    )
    .await;
    let arguments = std::fs::read_to_string(seen).expect("what was seen");
    assert!(arguments.contains("push --porcelain"), "{arguments}");
    use base64::Engine;
    let encoded =
        base64::engine::general_purpose::STANDARD.encode(format!("git:{}", forge.token()));
    for secret in [forge.token(), &encoded] {
        assert!(!arguments.contains(secret));
        assert_eq!(holding(folder.path(), secret), Vec::<PathBuf>::new());
    }
}

#[tokio::test]
async fn keys_reach_ssh_in_private_files_that_do_not_stay() {
    let (folder, tools) = (
        TempDir::new().expect("a folder"),
        TempDir::new().expect("a folder"),
    );
    let remote = tools.path().join("remote.git");
    let create = format!(
        "git init -q --bare --initial-branch=main {0} && printf '%s' \"$1\" | git -C {0} fast-import --quiet",
        remote.display()
    );
    let text = manifest("1.0.0");
    let script = format!(
        "commit refs/heads/main\ncommitter A <a@b> 1700000000 +0000\ndata 1\nx\nM 100644 inline a.yaml\ndata {}\n{text}\n",
        text.len()
    );
    let made = std::process::Command::new("sh")
        .args(["-c", &create, "sh", &script])
        .status();
    assert!(made.expect("it runs").success());
    // It notes how it was called and what the key file looks like, then does what ssh would.
    let seen = tools.path().join("seen");
    let ssh = format!(
        "#!/bin/sh\necho \"$@\" >>{seen}\nfor word in \"$@\"; do case $word in IdentityFile=*) \
         key=${{word#IdentityFile=}}; stat -c %a \"$key\" >>{seen}; cat \"$key\" >>{seen};; esac; last=$word; done\n\
         exec sh -c \"$last\"\n",
        seen = seen.display()
    );
    program(tools.path(), "ssh", &ssh);
    let git = format!(
        "#!/bin/sh\nPATH={}:$PATH\nexport PATH\nexec git \"$@\"\n",
        tools.path().display()
    );
    let runner = runner(folder.path()).with_program(program(tools.path(), "git-with-ssh", &git));
    let login = credentials(&[
        ("identity", "a-private-key"),
        ("known_hosts", "example.invalid ssh-rsa AAAA"),
    ]);
    let all = mirrors_with(runner, folder.path(), MirrorRetention::default());
    // Nothing listens there: the program in ssh's place does not connect.
    let address = format!("ssh://git@localhost:2222{}", remote.display());
    propose(&all.open(&url(&address), &login), &proposal("2.0.0")).await;
    let seen = std::fs::read_to_string(seen).expect("what was seen");
    for word in [
        "StrictHostKeyChecking=yes",
        "BatchMode=yes",
        "IdentitiesOnly=yes",
        "UserKnownHostsFile=",
        // Tied to the address that was checked, known by the name that was written.
        "-o HostName=",
        "-o HostKeyAlias=[localhost]:2222",
        "600",
        "a-private-key",
    ] {
        assert!(seen.contains(word), "{word} in {seen}");
    }
    let (ended, all) = ("a-private-key\n", "a-private-key");
    assert_eq!(seen.matches(ended).count(), seen.matches(all).count());
    assert_eq!(
        holding(folder.path(), "a-private-key"),
        Vec::<PathBuf>::new()
    );
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let forge = Forge::start().await.expect("a forge");
    let repository = forge
        .create_repository("a/b", &[("a.yaml", &manifest("1.0.0"))])
        .await
        .expect("one");
    let target = repository.url();
    let moved = Router::new().fallback(move |uri: http::Uri| {
        let query = uri.query().unwrap_or_default();
        std::future::ready(Redirect::permanent(&format!("{target}/info/refs?{query}")))
    });
    let address = format!("{}/a/b.git", serve(moved).await);
    let folder = TempDir::new().expect("a folder");
    let login = credentials(&[("username", "git"), ("password", forge.token())]);
    let error = refusal(
        &mirrors(folder.path()).open(&url(&address), &login),
        &proposal("2.0.0"),
    )
    .await;
    assert_eq!(
        (error.reason(), error.remedy()),
        ("RepositoryMoved", Remedy::Edit)
    );
    assert_eq!(forge.requests(), 0, "the other host never heard of us");
}

#[tokio::test]
async fn a_remote_that_never_answers_is_given_up() {
    let silent = Router::new().fallback(std::future::pending::<&'static str>);
    let address = format!("{}/a/b.git", serve(silent).await);
    let folder = TempDir::new().expect("a folder");
    let limits = GitLimits {
        remote: Duration::from_millis(300),
        ..GitLimits::default()
    };
    let runner = GitRunner::new(folder.path(), limits, ANY_ADDRESS).expect("a runner");
    let all = mirrors_with(runner, folder.path(), MirrorRetention::default());
    let error = refusal(
        &all.open(&url(&address), &credentials(&[])),
        &proposal("2.0.0"),
    )
    .await;
    assert_eq!(
        (error.reason(), error.remedy()),
        ("GitTimedOut", Remedy::RETRY)
    );
}

#[tokio::test]
async fn a_git_that_says_too_much_or_too_little_is_stopped() {
    let (folder, tools) = (
        TempDir::new().expect("a folder"),
        TempDir::new().expect("a folder"),
    );
    let children = tools.path().join("children");
    // A child that would outlive its parent, if only the parent were killed.
    let text = format!(
        "#!/bin/sh\nsleep 600 &\necho $! >>{}\nwhile :; do echo noise; done\n",
        children.display()
    );
    let limits = GitLimits {
        output: 10_000,
        ..GitLimits::default()
    };
    let runner = GitRunner::new(folder.path(), limits, ANY_ADDRESS).expect("a runner");
    let runner = runner.with_program(program(tools.path(), "noisy-git", &text));
    let all = mirrors_with(runner, folder.path(), MirrorRetention::default());
    let remote = url("http://127.0.0.1:9/a/b");
    let error = refusal(&all.open(&remote, &credentials(&[])), &proposal("2.0.0")).await;
    assert_eq!(error.reason(), "RepositoryTooLarge");
    let child = std::fs::read_to_string(children).expect("a child");
    let stat = PathBuf::from(format!("/proc/{}/stat", child.trim()));
    // It is gone, or nobody has collected it yet.
    let is_alive = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    for _ in 0..200 {
        if !is_alive() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the child of the killed program lives on");
}

#[tokio::test]
async fn a_mirror_that_grows_too_large_is_stopped() {
    let (folder, tools) = (
        TempDir::new().expect("a folder"),
        TempDir::new().expect("a folder"),
    );
    let text = "#!/bin/sh\ncase \"$*\" in *ls-remote*) head -c 300000 /dev/zero >\"$GIT_DIR/large\"; \
                exec sleep 600;; esac\nexec git \"$@\"\n";
    let limits = GitLimits {
        remote: Duration::from_secs(60),
        mirror: 100_000,
        ..GitLimits::default()
    };
    let runner = GitRunner::new(folder.path(), limits, ANY_ADDRESS).expect("a runner");
    let runner = runner.with_program(program(tools.path(), "growing-git", text));
    let all = mirrors_with(runner, folder.path(), MirrorRetention::default());
    let remote = url("http://127.0.0.1:9/a/b");
    let error = refusal(&all.open(&remote, &credentials(&[])), &proposal("2.0.0")).await;
    assert_eq!(error.reason(), "RepositoryTooLarge", "{error}");
}

#[tokio::test]
async fn a_password_that_git_prints_is_not_shown() {
    use base64::Engine;
    let (folder, tools) = (
        TempDir::new().expect("a folder"),
        TempDir::new().expect("a folder"),
    );
    let text = "#!/bin/sh\ncase \"$*\" in *ls-remote*) env | grep Authorization >&2; echo hunter22 >&2; \
                exit 1;; esac\nexec git \"$@\"\n";
    let runner = runner(folder.path()).with_program(program(tools.path(), "telling-git", text));
    let all = mirrors_with(runner, folder.path(), MirrorRetention::default());
    let login = credentials(&[("username", "git"), ("password", "hunter22")]);
    let mirror = all.open(&url("http://127.0.0.1:9/a/b"), &login);
    let error = whole_story(&refusal(&mirror, &proposal("2.0.0")).await);
    assert!(error.contains("Authorization: Basic"), "{error}");
    let encoded = base64::engine::general_purpose::STANDARD.encode("git:hunter22");
    for secret in ["hunter22", &encoded] {
        assert!(!error.contains(secret), "{error}");
    }
}

#[tokio::test]
async fn the_settings_of_the_machine_do_not_matter() {
    let (folder, tools) = (
        TempDir::new().expect("a folder"),
        TempDir::new().expect("a folder"),
    );
    let seen = tools.path().join("seen");
    let text = format!("#!/bin/sh\nenv >>{}\nexit 1\n", seen.display());
    let runner = runner(folder.path()).with_program(program(tools.path(), "showing-git", &text));
    let all = mirrors_with(runner, folder.path(), MirrorRetention::default());
    refusal(
        &all.open(&url("http://127.0.0.1:9/a/b"), &credentials(&[])),
        &proposal("2.0.0"),
    )
    .await;
    let environment = std::fs::read_to_string(seen).expect("what was seen");
    let home = format!("HOME={}", folder.path().join("home").display());
    for line in [
        home.as_str(),
        "GIT_CONFIG_NOSYSTEM=1",
        "GIT_TERMINAL_PROMPT=0",
        "GIT_ALLOW_PROTOCOL=https:ssh:http:file",
    ] {
        assert!(
            environment.lines().any(|seen| seen == line),
            "{line} in {environment}"
        );
    }
    let kept = [
        "HOME", "PATH", "LC_ALL", "TZ", "PWD", "_", "SHLVL", "OLDPWD",
    ];
    let others = environment
        .lines()
        .filter_map(|line| line.split('=').next());
    let strange: Vec<&str> = others
        .filter(|name| !kept.contains(name) && !name.starts_with("GIT_"))
        .collect();
    assert_eq!(strange, Vec::<&str>::new());
}

#[tokio::test]
async fn an_app_opens_a_repository_with_a_token_it_traded_for() {
    let forge = Forge::start().await.expect("a forge");
    let files = [("a.yaml", manifest("1.0.0"))];
    let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
    let repository = forge
        .create_repository("a/b", &files)
        .await
        .expect("a repository");
    let granted = format!(
        r#"{{"token": "{}", "expires_at": "2999-01-01T00:00:00Z"}}"#,
        forge.token()
    );
    let grant = axum::routing::post(move || std::future::ready(granted.clone()));
    let api = Router::new().route("/app/installations/456/access_tokens", grant);
    let api = serve(api).await;
    let login = credentials(&[
        ("githubAppID", "123"),
        ("githubAppInstallationID", "456"),
        (
            "githubAppPrivateKey",
            include_str!("../contract/app-key.pem"),
        ),
        ("githubAppBaseURL", &api),
    ]);
    let folder = TempDir::new().expect("a folder");
    let mirror = mirrors(folder.path()).open(&url(&repository.url()), &login);
    propose(&mirror, &proposal("2.0.0")).await;
    assert_eq!(holding(folder.path(), forge.token()), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_proxy_is_asked_for_hosts_that_only_it_knows() {
    let asked: std::sync::Arc<parking_lot::Mutex<Vec<String>>> = Default::default();
    let note = asked.clone();
    let proxy = Router::new().fallback(move |uri: http::Uri| {
        note.lock().push(uri.to_string());
        std::future::ready(http::StatusCode::UNAUTHORIZED)
    });
    let address = serve(proxy)
        .await
        .replace("http://", "http://bot:hunter22@");
    let proxy = net::Proxy::new(&address, "elsewhere.invalid").expect("a proxy");
    let folder = TempDir::new().expect("a folder");
    let runner = runner(folder.path()).with_proxy(Some(proxy.clone()));
    let all = mirrors_with(runner, folder.path(), MirrorRetention::default());
    let login = credentials(&[("token", "token1")]);
    let repository = url("http://git.invalid/team/config");
    let error = refusal(&all.open(&repository, &login), &proposal("2.0.0")).await;
    assert!(!whole_story(&error).contains("hunter22"));
    testbed::tls::install_provider();
    let http = std::sync::Arc::new(net::OutboundHttp::new(ANY_ADDRESS).with_proxy(Some(proxy)));
    let open = |url| git::forge::open(git::forge::ForgeProduct::Gitea, &http, url, &login);
    let error = open(&repository)
        .expect("a forge")
        .get(7)
        .await
        .expect_err("refused");
    assert_eq!(error.reason(), "Unauthorized");
    let elsewhere = url("http://elsewhere.invalid/team/config");
    let error = open(&elsewhere)
        .expect("a forge")
        .get(7)
        .await
        .expect_err("no address");
    // Where names are looked up elsewhere, that may take its time.
    let reason = error.reason();
    assert!(
        ["ForgeUnreachable", "ForgeTimedOut"].contains(&reason),
        "{reason}"
    );
    let asked = asked.lock();
    assert!(
        asked[0].starts_with("http://git.invalid/team/config/info/refs"),
        "{asked:?}"
    );
    let last = asked.last().map(String::as_str);
    assert_eq!(
        last,
        Some("http://git.invalid/api/v1/repos/team/config/pulls/7")
    );
}
