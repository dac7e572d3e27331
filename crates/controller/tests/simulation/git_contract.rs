//! The in-memory git answers every command that Sluice runs as the real git does.
//!
//! Each case runs the same commands on both and compares what they print, ids included.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use git::runner::{GitExecutor, GitInvocation, GitOutput, ProcessLimits};

use crate::{
    dice::Dice,
    forge::Forge,
    git_executor::InProcessGit,
    layout::Layout,
    link::{Link, SharedWeather},
    story::Story,
    watchdog::Watchdog,
};

/// The real git and ours, each with a mirror and a remote of the same content.
struct Both {
    folder: tempfile::TempDir,
    ours: InProcessGit,
}

const FILES: [(&str, &str); 3] = [
    ("a.yaml", "a: 1\n"),
    ("clusters/prod/app.yaml", "version: 1.0.0\n"),
    ("clusters-2/b.yaml", "b: 1\n"),
];

impl Both {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let story = Story::begin();
        let dice = Dice::new(1);
        let layout = Layout::drawn(&dice);
        let hub = apiserver::Server::in_memory().client();
        let watchdog = Arc::new(Watchdog::new(hub, story.clone(), layout));
        let files = FILES.map(|(path, text)| (path.to_owned(), text.to_owned()));
        let link = Link::new("test".to_owned(), dice, story, SharedWeather::default());
        let ours = InProcessGit {
            forge: Arc::new(Forge::new(&files, watchdog)),
            disk: Arc::default(),
            link: Arc::new(link),
        };
        let both = Self { folder, ours };
        both.fill_remote();
        both
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The first commit of the real remote is that of the forge.
    fn fill_remote(&self) {
        let (remote, work) = (self.path("remote"), self.path("work"));
        let remote = remote.to_str().unwrap();
        real(self.folder.path(), &["init", "-q", "--bare", remote]);
        real(self.folder.path(), &["init", "-q", "-b", "main", "work"]);
        for (path, text) in FILES {
            let file = work.join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        real(&work, &["add", "."]);
        real(&work, &["commit", "-q", "-m", "the first commit"]);
        real(&work, &["push", "-q", remote, "main"]);
    }

    /// Runs a command on both; the real answer.
    async fn run(&self, arguments: &[&str], input: &str, more: &[(&str, &str)]) -> GitOutput {
        let (_, real) = self.run_differently(arguments, input, more).await;
        real
    }

    /// Runs a command on both and compares; the answers.
    async fn run_differently(
        &self,
        arguments: &[&str],
        input: &str,
        more: &[(&str, &str)],
    ) -> (GitOutput, GitOutput) {
        let ours = self.ours(arguments, input, more).await;
        let real = self.real(arguments, input, more);
        assert_eq!(ours.success, real.success, "{arguments:?}: {real:?}");
        let is_push = arguments[0] == "push";
        let text = |it: &GitOutput| String::from_utf8_lossy(&it.stdout).into_owned();
        if !is_push {
            assert_eq!(text(&ours), text(&real), "{arguments:?}");
        }
        (ours, real)
    }

    async fn ours(&self, arguments: &[&str], input: &str, more: &[(&str, &str)]) -> GitOutput {
        let mut all = vec!["--no-pager".into()];
        all.extend(arguments.iter().map(|it| self.replaced(it).into()));
        let mut environment = vec![("GIT_DIR".to_owned(), self.path("ours").into())];
        let more = more.iter();
        environment.extend(more.map(|(name, it)| ((*name).to_owned(), (*it).into())));
        let invocation = GitInvocation {
            program: None,
            arguments: all,
            environment,
            working_directory: self.folder.path().to_owned(),
            input: input.as_bytes().to_vec(),
            limits: ProcessLimits {
                time: Duration::from_secs(60),
                output: 1 << 20,
                directory: None,
            },
        };
        self.ours.execute(invocation).await.unwrap()
    }

    fn real(&self, arguments: &[&str], input: &str, more: &[(&str, &str)]) -> GitOutput {
        let arguments: Vec<String> = arguments.iter().map(|it| self.replaced(it)).collect();
        let mut command = command(self.folder.path());
        command.env("GIT_DIR", self.path("real"));
        command.envs(more.iter().copied()).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, input.as_bytes()).unwrap();
        drop(stdin);
        let done = child.wait_with_output().unwrap();
        GitOutput {
            success: done.status.success(),
            stdout: done.stdout,
            stderr: done.stderr,
        }
    }

    /// `REMOTE` is the remote.
    fn replaced(&self, argument: &str) -> String {
        argument.replace("REMOTE", self.path("remote").to_str().unwrap())
    }

    async fn prepared() -> (Self, String) {
        let both = Self::new().await;
        let init = [
            "init",
            "--quiet",
            "--bare",
            "--template=",
            "--initial-branch=none",
        ];
        both.run(&init, "", &[]).await;
        let listed = [
            "ls-remote",
            "--refs",
            "--",
            "REMOTE",
            "refs/heads/main",
            "refs/heads/x",
        ];
        let listed = both.run(&listed, "", &[]).await;
        let main = String::from_utf8(listed.stdout).unwrap()[..40].to_owned();
        let refspec = "+refs/heads/main:refs/mirror/main";
        let fetch = [
            "fetch",
            "--quiet",
            "--depth=1",
            "--no-tags",
            "--",
            "REMOTE",
            refspec,
        ];
        both.run(&fetch, "", &[]).await;
        (both, main)
    }

    /// A commit that changes one file.
    async fn commit(&self, base: &str, content: &str) -> String {
        let file = self.path("file");
        std::fs::write(&file, content).unwrap();
        let paths = format!("{}\n", file.display());
        let store = ["hash-object", "-w", "--no-filters", "--stdin-paths"];
        let stored = self.run(&store, &paths, &[]).await;
        let blob = first_line(&stored);
        let index = self.path("index");
        let index = [("GIT_INDEX_FILE", index.to_str().unwrap())];
        self.run(&["read-tree", base], "", &index).await;
        let listing = format!("100644 {blob}\tclusters/prod/app.yaml\0");
        let update = ["update-index", "-z", "--index-info"];
        self.run(&update, &listing, &index).await;
        let tree = first_line(&self.run(&["write-tree"], "", &index).await);
        let people = PEOPLE.map(|(name, value)| (name, value));
        let commit = ["commit-tree", "--no-gpg-sign", "-F", "-", "-p", base, &tree];
        let message = "Promote\n\nSluice-Promotion: 1\n";
        first_line(&self.run(&commit, message, &people).await)
    }

    async fn push(&self, expected: &str, commit: &str) -> (bool, bool) {
        let lease = format!("--force-with-lease=refs/heads/x:{expected}");
        let what = format!("{commit}:refs/heads/x");
        let arguments = [
            "push",
            "--porcelain",
            "--no-verify",
            &lease,
            "--",
            "REMOTE",
            &what,
        ];
        let (ours, real) = self.run_differently(&arguments, "", &[]).await;
        let is_stale = |it: &GitOutput| String::from_utf8_lossy(&it.stdout).contains("stale info");
        assert_eq!(is_stale(&ours), is_stale(&real));
        (real.success, is_stale(&real))
    }
}

const PEOPLE: [(&str, &str); 6] = [
    ("GIT_AUTHOR_NAME", "Sluice"),
    ("GIT_AUTHOR_EMAIL", "sluice@noreply.invalid"),
    ("GIT_AUTHOR_DATE", "@1800000000 +0000"),
    ("GIT_COMMITTER_NAME", "Sluice"),
    ("GIT_COMMITTER_EMAIL", "sluice@noreply.invalid"),
    ("GIT_COMMITTER_DATE", "@1800000000 +0000"),
];

fn first_line(output: &GitOutput) -> String {
    String::from_utf8(output.stdout.clone())
        .unwrap()
        .trim()
        .to_owned()
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(folder).env("HOME", folder);
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "Ann");
        command.env(format!("GIT_{role}_EMAIL"), "ann@example.com");
        command.env(format!("GIT_{role}_DATE"), "@1700000000 +0000");
    }
    command
}

fn real(folder: &Path, arguments: &[&str]) {
    let done = command(folder).args(arguments).status().unwrap();
    assert!(done.success(), "{arguments:?}");
}

#[tokio::test]
async fn a_remote_is_listed_and_fetched() {
    let (both, main) = Both::prepared().await;
    let list = [
        "for-each-ref",
        "--format=%(objectname) %(refname)",
        "--",
        "refs/mirror/",
    ];
    both.run(&list, "", &[]).await;
    let missing = [
        "fetch",
        "--quiet",
        "--",
        "REMOTE",
        "+refs/heads/x:refs/mirror/x",
    ];
    assert!(!both.run(&missing, "", &[]).await.success);
    let tree = ["ls-tree", "-r", "-l", "-z", "--full-tree", &main];
    let listed = both.run(&tree, "", &[]).await;
    let listed = String::from_utf8(listed.stdout).unwrap();
    let ids = listed
        .split('\0')
        .filter_map(|line| line.split_whitespace().nth(2));
    let ids: String = ids.map(|id| format!("{id}\n")).collect();
    both.run(&["cat-file", "--batch"], &ids, &[]).await;
    let unknown = format!("{}\n", "0".repeat(40));
    both.run(&["cat-file", "--batch"], &unknown, &[]).await;
    both.run(&["cat-file", "commit", &main], "", &[]).await;
    both.run(&["gc", "--quiet", "--prune=now"], "", &[]).await;
}

#[tokio::test]
async fn a_commit_gets_the_same_id_and_is_pushed_only_over_what_is_expected() {
    let (both, main) = Both::prepared().await;
    let check = [
        "push",
        "--dry-run",
        "--porcelain",
        "--no-verify",
        "--",
        "REMOTE",
    ];
    let check = [&check[..], &[":refs/heads/sluice-preflight-check"]].concat();
    assert!(both.run(&check, "", &[]).await.success);
    let first = both.commit(&main, "version: 1.1.0\n").await;
    both.run(&["cat-file", "commit", &first], "", &[]).await;
    assert_eq!(both.push("", &first).await, (true, false));
    let second = both.commit(&main, "version: 1.2.0\n").await;
    assert_eq!(both.push("", &second).await, (false, true));
    assert_eq!(both.push(&main, &second).await, (false, true));
    assert_eq!(both.push(&first, &second).await, (true, false));
    assert_eq!(both.push(&first, &second).await, (true, false));
    let listed = ["ls-remote", "--refs", "--", "REMOTE", "refs/heads/x"];
    let listed = both.run(&listed, "", &[]).await;
    assert!(first_line(&listed).starts_with(&second));
    let update = ["update-ref", "--", "refs/mirror/x", &second];
    both.run(&update, "", &[]).await;
    let list = [
        "for-each-ref",
        "--format=%(objectname) %(refname)",
        "--",
        "refs/mirror/",
    ];
    both.run(&list, "", &[]).await;
}
