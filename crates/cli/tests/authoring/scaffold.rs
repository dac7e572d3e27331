//! `sluice scaffold --change`: the binary, from a checkout to a merged pull request.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::setup::AuthoringSetup;

pub(crate) const RELEASE: &str = "apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata:
  name: web
  namespace: web-dev
spec:
  chart:
    spec:
      chart: web
      version: 1.0.0
";

pub(crate) fn pipeline() -> Value {
    json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "web"},
            "environments": [
                {"name": "dev", "targets": [{"namespace": "web-dev"}]},
                {"name": "prod", "targets": [{"namespace": "web"}]},
            ],
        },
    })
}

/// The binary on a checkout with the manifest of dev.
fn scaffold(setup: &AuthoringSetup, more: &[&str]) -> Command {
    let checkout = setup.folder.path().join("checkout");
    std::fs::create_dir_all(checkout.join("apps/dev")).unwrap();
    std::fs::write(checkout.join("apps/dev/web.yaml"), RELEASE).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command
        .args(["scaffold", "web", "--change", "--kubeconfig"])
        .arg(setup.kubeconfig())
        .arg("--checkout")
        .arg(checkout)
        .args(more)
        .env_clear()
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[test]
fn scaffolded_files_are_proposed_and_waited_for() {
    let setup = AuthoringSetup::new(&[("apps/dev/web.yaml", RELEASE)]);
    setup.create(&pipeline());
    let first = scaffold(&setup, &[]).output().unwrap();
    let (out, errors) = (text(&first.stdout), text(&first.stderr));
    assert!(first.status.success(), "{errors}");
    assert!(
        out.starts_with("created change web-prod-") && out.ends_with(" for apps/prod/web.yaml\n"),
        "{out}"
    );
    assert!(errors.contains("sluice get changes -n default"), "{errors}");
    let pulls = || setup.runtime.block_on(setup.repository.pull_requests());
    setup.until("a pull request", |_| pulls().len() == 1);
    let waiting = scaffold(&setup, &["--wait", "--timeout=2m"])
        .spawn()
        .unwrap();
    let pull = pulls().remove(0);
    let proposed = setup.file(&pull.head, "apps/prod/web.yaml").unwrap();
    assert!(proposed.contains("namespace: web\n"), "{proposed}");
    assert!(proposed.contains("default:web:prod"), "{proposed}");
    setup
        .runtime
        .block_on(setup.repository.merge(pull.number))
        .unwrap();
    let waited = waiting.wait_with_output().unwrap();
    let errors = text(&waited.stderr);
    assert!(waited.status.success(), "{errors}");
    assert!(errors.contains("apps/prod/web.yaml: Merged"), "{errors}");
    assert_eq!(pulls().len(), 1, "asked for twice, proposed once");
    let listed = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(["get", "changes", "--kubeconfig", &setup.kubeconfig()])
        .output()
        .unwrap();
    let listed = text(&listed.stdout);
    assert!(
        listed.contains("apps/prod/web.yaml") && listed.contains("Merged"),
        "{listed}"
    );
}

#[test]
fn what_is_turned_down_fails_and_may_be_asked_for_again() {
    let setup = AuthoringSetup::new(&[]);
    setup.create(&pipeline());
    assert!(scaffold(&setup, &[]).status().unwrap().success());
    let pulls = || setup.runtime.block_on(setup.repository.pull_requests());
    setup.until("a pull request", |_| pulls().len() == 1);
    setup.runtime.block_on(setup.repository.close(1)).unwrap();
    let phase = |setup: &AuthoringSetup| setup.changes()[0].status.clone().unwrap().phase;
    setup.until("abandoned", |setup| {
        phase(setup) == Some(api::change::ChangePhase::Abandoned)
    });
    let late = scaffold(&setup, &["--wait", "--timeout=1s"])
        .output()
        .unwrap();
    assert_eq!(late.status.code(), Some(3), "{}", text(&late.stderr));
    assert!(text(&late.stderr).contains("still waiting"));
    setup.until("another pull request", |_| pulls().len() == 2);
    setup.runtime.block_on(setup.repository.close(2)).unwrap();
    setup.until("abandoned", |setup| {
        phase(setup) == Some(api::change::ChangePhase::Abandoned)
    });
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
