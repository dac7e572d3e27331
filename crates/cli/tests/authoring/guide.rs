//! The commands of docs/authoring.md.

use std::net::TcpListener;

use api::change::ChangePhase;
use testbed::guide::{Guide, Shell};

use crate::{
    scaffold::{RELEASE, pipeline},
    setup::{AuthoringSetup, OWNER},
};

#[test]
fn the_guide_does_what_it_says() {
    let setup = AuthoringSetup::bare(&[]);
    setup.create(&pipeline());
    let guide = Guide::read("docs/authoring.md").unwrap();
    let mut shell = Shell::new().unwrap();
    shell
        .program("sluice", env!("CARGO_BIN_EXE_sluice").as_ref())
        .unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let address = port.unwrap().to_string();
    for (variable, value) in [
        ("KUBECONFIG", setup.kubeconfig().as_str()),
        ("SLUICE_REST_BIND_ADDRESS", &address),
        ("SLUICE_PROMOTION_HOOK_BIND_ADDRESS", "0"),
        ("SLUICE_METRICS_BIND_ADDRESS", "0"),
        ("SLUICE_HEALTH_PROBE_BIND_ADDRESS", "0"),
        ("SLUICE_ALLOW_INTERNAL_URLS", "true"),
        ("SLUICE_FOLLOW_EVERY", "1s"),
        ("token", OWNER),
    ] {
        shell.set(variable, value);
    }
    shell.replace(
        "https://git.example.com/team/fleet.git",
        setup.repository.url(),
    );
    shell.replace("https://sluice.example.com", format!("http://{address}"));
    let apps = shell.folder().join("fleet/apps/dev");
    std::fs::create_dir_all(&apps).unwrap();
    std::fs::write(apps.join("web.yaml"), RELEASE).unwrap();
    setup
        .runtime
        .block_on(shell.follow_all(guide.under("Configuration")))
        .unwrap();
    setup.until("the door is open", |_| {
        std::net::TcpStream::connect(&address).is_ok()
    });
    for part in ["From the command line", "By REST"] {
        let done = setup.runtime.block_on(shell.follow_all(guide.under(part)));
        done.unwrap_or_else(|error| panic!("{error}\n{}", shell.background_output()));
    }
    let tried: usize = ["Configuration", "From the command line", "By REST"]
        .map(|part| guide.under(part).count())
        .iter()
        .sum();
    assert_eq!(tried, guide.blocks().len(), "a block that nobody tries");
    setup.until("both are proposed", |setup| {
        let changes = setup.changes();
        let phase = |it: &api::Change| it.status.as_ref().and_then(|status| status.phase);
        changes.len() == 2
            && changes
                .iter()
                .all(|it| phase(it) == Some(ChangePhase::Proposed))
    });
    let pulls = setup.runtime.block_on(setup.repository.pull_requests());
    assert_eq!(pulls.len(), 2);
}
