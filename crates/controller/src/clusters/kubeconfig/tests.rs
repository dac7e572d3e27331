//! What kubeconfigs are refused for, and what a status says of a server that is no cluster.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn verdict(cluster: &str, user: &str) -> Result<(), &'static str> {
    let text = format!(
        "clusters: [{{name: c, cluster: {{server: 'https://leaf.example', {cluster}}}}}]\n\
         users: [{{name: u, user: {{{user}}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    );
    check(&Kubeconfig::from_yaml(&text).expect("a kubeconfig"))
}

#[test]
fn a_secret_cannot_make_us_run_or_read_anything() {
    assert_eq!(verdict("", "token: abc"), Ok(()));
    assert_eq!(
        verdict("certificate-authority-data: YQ==", "client-key-data: YQ=="),
        Ok(())
    );
    for (cluster, user) in [
        (
            "",
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}",
        ),
        ("", "auth-provider: {name: gcp, config: {}}"),
        ("", "tokenFile: /var/run/secrets/token"),
        ("", "client-certificate: /etc/passwd"),
        ("", "client-key: /etc/passwd"),
        ("certificate-authority: /etc/passwd", ""),
        ("proxy-url: 'http://evil.example'", ""),
    ] {
        assert!(verdict(cluster, user).is_err(), "{cluster} {user}");
    }
}

fn at(server: &str, cluster: &str) -> Kubeconfig {
    let text = format!(
        "clusters: [{{name: c, cluster: {{server: '{server}'{cluster}}}}}]\n\
         users: [{{name: u, user: {{token: abc}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    );
    Kubeconfig::from_yaml(&text).expect("a kubeconfig")
}

const LOCAL: KubeconfigPolicy = KubeconfigPolicy::LOCAL;
const ANYTHING: KubeconfigPolicy = KubeconfigPolicy(AddressPolicy::UNRESTRICTED);

#[test]
fn clusters_are_reached_over_verified_tls_and_not_at_internal_addresses() {
    let strict = KubeconfigPolicy::default();
    let skip = ", insecure-skip-tls-verify: true";
    for (server, cluster, policy, expected) in [
        ("https://leaf.example", "", strict, None),
        ("https://10.1.2.3:6443", "", strict, None),
        ("https://[fd00::1]:6443/k8s/clusters/c-1", "", strict, None),
        ("https://127.0.0.1:6443", "", LOCAL, None),
        ("http://127.0.0.1:6443", "", ANYTHING, None),
        ("https://leaf.example", skip, ANYTHING, None),
        ("http://leaf.example", "", strict, Some("not https")),
        (
            "http://127.0.0.1:1/latest/meta-data",
            "",
            LOCAL,
            Some("not https"),
        ),
        ("ftp://leaf.example", "", ANYTHING, Some("not https")),
        (
            "https://leaf.example",
            skip,
            LOCAL,
            Some("insecure-skip-tls-verify"),
        ),
        (
            "https://127.0.0.1:6443",
            "",
            strict,
            Some("internal address"),
        ),
        ("https://2130706433", "", strict, Some("internal address")),
        (
            "https://169.254.169.254",
            "",
            strict,
            Some("internal address"),
        ),
        (
            "https://[::ffff:127.0.0.1]",
            "",
            strict,
            Some("internal address"),
        ),
        (
            "https://[64:ff9b::a9fe:a9fe]",
            "",
            strict,
            Some("internal address"),
        ),
        (
            r"https://leaf.example\@127.0.0.1",
            "",
            ANYTHING,
            Some("backslash"),
        ),
        ("https://me@leaf.example", "", ANYTHING, Some("credentials")),
        ("leaf.example", "", ANYTHING, Some("not a URL")),
    ] {
        let refused = policy.check(&at(server, cluster)).err();
        let is_as_expected = match (&refused, expected) {
            (Some(refused), Some(expected)) => refused.contains(expected),
            (refused, expected) => refused.is_none() && expected.is_none(),
        };
        assert!(is_as_expected, "{server}{cluster}: {refused:?}");
    }
}

/// Answers every request with an error that is no Kubernetes `Status`, and counts them.
async fn something_else() -> (u16, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let answer = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        async { (http::StatusCode::FORBIDDEN, r#"{"message": "hunter22"}"#) }
    };
    let router = axum::Router::new().fallback(answer);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (port, calls)
}

async fn version(server: &str, policy: KubeconfigPolicy) -> Result<(), String> {
    let client = connect(at(server, ""), policy).await?;
    let version = client.apiserver_version().await;
    version.map(drop).map_err(|error| describe(&error))
}

#[tokio::test]
async fn a_server_that_is_no_cluster_is_not_called_and_its_body_never_shown() {
    let (port, calls) = something_else().await;
    let by_address = format!("http://127.0.0.1:{port}/latest/meta-data");
    let by_name = format!("http://localhost:{port}/latest/meta-data");
    let only_insecure = KubeconfigPolicy(AddressPolicy {
        allow_internal: false,
        allow_insecure: true,
    });
    for (server, policy, expected) in [
        (&by_address, KubeconfigPolicy::default(), "not https"),
        (&by_address, only_insecure, "internal address"),
        (&by_name, only_insecure, "localhost is an internal address"),
    ] {
        let because = version(server, policy).await.unwrap_err();
        assert!(because.contains(expected), "{because}");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    for server in [&by_address, &by_name] {
        let because = version(server, ANYTHING).await.unwrap_err();
        assert_eq!(because, "the answer is not a Kubernetes Status (403)");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

/// Kubeconfigs as clusters hand them out, and with everything that is refused.
const KUBECONFIGS: &[&str] = &[
    "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://leaf.example:6443', \
     certificate-authority-data: YQ==, tls-server-name: x}}]\n\
     users: [{name: u, user: {token: token-of-a-cluster, username: u}}]\n\
     contexts: [{name: x, context: {cluster: c, user: u, namespace: n}}]\ncurrent-context: x\n",
    "clusters:\n- name: c\n  cluster: {server: 'https://127.0.0.1:1', proxy-url: 'http://p.example', \
     certificate-authority: /etc/passwd, insecure-skip-tls-verify: true}\nusers:\n- name: u\n  user: {exec: \
     {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, id]}, tokenFile: /etc/passwd}\n\
     contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n",
];

/// Damaged kubeconfigs are refused, or they neither run nor read nor reach anything that the policy forbids.
#[test]
fn damaged_kubeconfigs_are_refused_or_harmless() {
    testbed::tls::install_provider();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("a runtime");
    let accepted = AtomicUsize::new(0);
    testbed::damage::for_each_case(|damage| {
        for _ in 0..20 {
            let text = damage.pick(KUBECONFIGS);
            let text = damage.bytes(text.as_bytes());
            let text = String::from_utf8_lossy(&text);
            let Ok(kubeconfig) = Kubeconfig::from_yaml(&text) else {
                continue;
            };
            if check(&kubeconfig).is_err() {
                continue;
            }
            let users = kubeconfig.auth_infos.iter();
            for user in users.filter_map(|it| it.auth_info.as_ref()) {
                assert!(user.exec.is_none() && user.token_file.is_none(), "{text}");
            }
            let connected = runtime.block_on(connect(kubeconfig, KubeconfigPolicy::default()));
            match connected {
                Ok(_) => drop(accepted.fetch_add(1, Ordering::SeqCst)),
                Err(because) => {
                    assert!(because.len() < 4096 && !because.contains("token-of-a-cluster"))
                }
            }
        }
    });
    assert!(accepted.load(Ordering::SeqCst) > 0, "some are intact");
}
