//! `sluice __complete`, which the completion scripts call.

use crate::cluster::{TestCluster, offline};

async fn check(cluster: &TestCluster, typed: &str, expected: &str) {
    let words = typed.split(' ');
    let words: Vec<&str> = ["__complete", "--"].into_iter().chain(words).collect();
    let output = cluster.prints(&words).await;
    let found: Vec<&str> = output.lines().collect();
    assert_eq!(found.join(" "), expected, "{typed}");
}

#[tokio::test]
async fn commands_flags_values_and_names_are_completed() {
    let cluster = TestCluster::new().await;
    for (typed, expected) in [
        ("ex", "explain"),
        ("get pro", "promotions"),
        ("get pipelines ", "web"),
        ("get pipeline/", "pipeline/web"),
        ("get pipelines --no", "--no-headers"),
        ("get pipelines -o ", "json name table wide yaml"),
        ("get pipelines --output=j", "json"),
        ("get pipelines --output = j", "json"),
        ("status ", "web"),
        ("-n default status ", "web"),
        ("-n other status ", ""),
        ("status default/", "default/web"),
        ("explain web ", "dev prod"),
        ("freeze web -e ", "dev prod"),
        ("--as ann explain web ", ""),
        ("-n d", "default"),
        ("--namespace=d", "default"),
        ("--na", "--namespace"),
        ("-A get pipelines --no", "--no-headers"),
        ("promote web prod ", "0.9.0 1.0.0 2.0.0"),
        ("rollback web prod 1", "1.0.0"),
        ("get pipelines -n d", "default"),
        ("create ", "pipeline"),
        ("completion ba", "bash"),
        ("status web ", "dev prod"),
        ("status web prod ", ""),
        ("freeze web -e p", "prod"),
        ("explain nothing ", ""),
    ] {
        check(&cluster, typed, expected).await;
    }
}

#[tokio::test]
async fn without_a_cluster_there_are_no_names_and_no_errors() {
    let output = offline(&["__complete", "--", "status", ""]).await;
    assert_eq!(
        (output.code, output.out.as_str(), output.err.as_str()),
        (0, "", "")
    );
}

/// bash itself runs the script.
#[tokio::test]
async fn the_bash_script_completes() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(crate::cluster::BINARY, folder.path().join("sluice")).unwrap();
    let script = r#"source <(sluice completion bash)
COMP_WORDS=(sluice get cl); COMP_CWORD=2; _sluice; echo "${COMPREPLY[*]}""#;
    let path = format!(
        "{}:{}",
        folder.path().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let output = tokio::process::Command::new("bash")
        .args(["-c", script])
        .env("PATH", path)
        .env("HOME", "/nonexistent")
        .output()
        .await
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "clusters\n");
}
