//! The demo as a person starts it.
#![expect(clippy::unwrap_used, reason = "a failing test is a panic")]

use std::process::Command;

fn sluice(arguments: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(arguments)
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn a_release_walks_to_prod_in_the_terminal() {
    let (code, out, errors) = sluice(&["demo", "--script", "--port", "0"]);
    assert_eq!(code, Some(0), "{out}\n{errors}");
    for told in [
        "push 6.2.0 to dev",
        "AwaitingApproval",
        "approve 6.2.0 for prod",
        "pulls/2",
    ] {
        assert!(out.contains(told), "{told} is missing in\n{out}");
    }
    assert!(out.contains("6.2.0 runs everywhere"), "{out}");
}

#[test]
fn a_push_without_a_demo_says_what_to_do() {
    let (code, _, errors) = sluice(&["demo", "push", "6.3.0"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("no demo is running"), "{errors}");
    let (code, _, errors) = sluice(&["demo", "push", "latest: {"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("is no version"), "{errors}");
}
