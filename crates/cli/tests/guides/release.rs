//! `.ci/release` with a real registry and helm. What needs credentials or hours has stand-ins: the compiler,
//! Docker, cosign and the GitHub CLI.

use std::{net::TcpListener, process::Stdio, time::Duration};

use testbed::{guide::Shell, real::Assets};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const TARGET: &str = "x86_64-unknown-linux-gnu";

const CARGO: &str = r#"case "$*" in
build*) mkdir -p "target/$SLUICE_TARGETS/shipped" && echo binary > "target/$SLUICE_TARGETS/shipped/sluice" ;;
"xtask sbom "*) echo '{}' > "$3" ;;
*) exit 1 ;;
esac"#;

const DOCKER: &str = r#"if [ "$2" = imagetools ]; then echo sha256:0; exit; fi
case "$*" in *"--tag $SLUICE_REGISTRY/sluice:"*) ;; *) exit 1 ;; esac
while [ $# -gt 0 ]; do
  if [ "$1" = --metadata-file ]; then echo '{"containerimage.digest": "sha256:1"}' > "$2"; fi
  shift
done"#;

const RECORD: &str = r#"echo "$(basename "$0") $*" >> "$HOME/calls"
[ "$1" != sign-blob ] || touch SHA256SUMS.sig
[ "$1" != release ] || cat > "$HOME/notes""#;

/// A checkout with what the script uses.
const CHECKOUT: &str = r#"mkdir checkout
cp -rL "$REPOSITORY/.ci" "$REPOSITORY/deploy" "$REPOSITORY/Cargo.toml" "$REPOSITORY/CHANGELOG.md" \
  "$REPOSITORY/LICENSE" "$REPOSITORY/README.md" checkout
cd checkout
sed -i "s/^## Unreleased$/## $VERSION (2026-01-01)/" CHANGELOG.md
printf '/target\n' > .gitignore
git init --quiet
git add .
git -c user.name=you -c user.email=you@example.com commit --quiet --message all"#;

#[tokio::test]
#[ignore = "needs a registry: `cargo xtask test --real`"]
async fn a_release_is_published_and_signed_by_digest() {
    let assets = Assets::from_env().unwrap();
    let mut shell = Shell::new().unwrap();
    let port = {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.local_addr().unwrap().port()
    };
    let store = shell.folder().join("store");
    let config = format!(
        "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '127.0.0.1:{port}'}}\n",
        store.display()
    );
    let file = shell.folder().join("registry.yml");
    std::fs::write(&file, config).unwrap();
    let mut registry = tokio::process::Command::new(assets.program("registry"));
    registry.arg("serve").arg(&file).kill_on_drop(true);
    registry.stdout(Stdio::null()).stderr(Stdio::null());
    let _registry = registry.spawn().unwrap();
    shell.program("helm", &assets.program("helm")).unwrap();
    for (name, script) in [
        ("cargo", CARGO),
        ("docker", DOCKER),
        ("cosign", RECORD),
        ("gh", RECORD),
    ] {
        shell.stand_in(name, script).unwrap();
    }
    let repository = testbed::guide::repository().canonicalize().unwrap();
    shell.set("REPOSITORY", repository.to_str().unwrap());
    shell.set("SLUICE_REGISTRY", format!("127.0.0.1:{port}"));
    shell.set("SLUICE_HELM_FLAGS", "--plain-http");
    shell.set("SLUICE_TARGETS", TARGET);
    shell.set("VERSION", VERSION);
    while tokio::net::TcpStream::connect(("127.0.0.1", port))
        .await
        .is_err()
    {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    shell.sh(CHECKOUT).await.unwrap();
    let refused = shell.sh("! bash .ci/release 9.9.9 2>&1").await.unwrap();
    assert!(
        refused.contains("Cargo.toml has another version"),
        "{refused}"
    );
    let release = format!("bash .ci/release {VERSION} 2>&1");
    shell.sh(&release).await.unwrap();
    let check =
        format!("cd target/release-{VERSION} && sha256sum --check SHA256SUMS && cat SHA256SUMS");
    let sums = shell.sh(&check).await.unwrap().to_owned();
    let archive = format!("sluice-{VERSION}-{TARGET}.tar.gz");
    for file in [archive.as_str(), ".tgz", ".cdx.json"] {
        assert!(sums.contains(file), "{file}: {sums}");
    }
    let pulled = "cd \"$HOME\" && helm pull oci://$SLUICE_REGISTRY/charts/pipeline-controller --plain-http 2>&1";
    let pulled = shell.sh(pulled).await.unwrap().to_owned();
    let (_, digest) = pulled.split_once("Digest: ").unwrap();
    let calls = shell.sh("cat \"$HOME/calls\"").await.unwrap();
    let signed = format!("/charts/pipeline-controller@{}", digest.trim());
    assert!(calls.contains(&signed), "{signed}: {calls}");
    assert!(calls.contains("/sluice@sha256:1"), "{calls}");
    assert!(
        calls.contains(&format!("gh release create v{VERSION} ")),
        "{calls}"
    );
    // Only the section of the version.
    let notes = shell.sh("cat \"$HOME/notes\"").await.unwrap();
    assert!(notes.trim_start().starts_with("### "), "{notes}");
    assert!(!notes.contains("\n## "), "{notes}");
}
