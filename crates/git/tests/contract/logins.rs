//! Where each forge's API is sought, and what is shown to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use git::credentials::Credentials;
use git::forge::{self, ForgeProduct};
use git::repository_url::RepositoryUrl;
use net::{AddressPolicy, OutboundHttp};
use parking_lot::Mutex;
use serde_json::json;

const ANY_ADDRESS: AddressPolicy = AddressPolicy::UNRESTRICTED;

type Seen = Arc<Mutex<Option<(String, String)>>>;

/// Answers nobody, and remembers what was asked and by whom.
async fn listen(seen: Seen) -> String {
    async fn note(State(seen): State<Seen>, request: Request) -> Response {
        let sent = request.headers().get("authorization");
        let sent = sent.and_then(|sent| sent.to_str().ok()).unwrap_or_default();
        *seen.lock() = Some((request.uri().path().to_owned(), sent.to_owned()));
        testbed::forge_doubles::answer(401, json!({}))
    }
    let router = Router::new().fallback(note).with_state(seen);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

fn credentials(entries: &[(&str, &str)]) -> Credentials {
    let entries = entries
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
    Credentials::from_entries(&entries.collect::<BTreeMap<_, _>>()).expect("credentials")
}

/// `ADDRESS` stands for the address in the repository's URL and in the entries.
async fn check(kind: ForgeProduct, url: &str, entries: &[(&str, &str)], path: &str, header: &str) {
    testbed::tls::install_provider();
    let seen = Seen::default();
    let address = listen(seen.clone()).await;
    let entries: Vec<(&str, String)> = entries
        .iter()
        .map(|(name, value)| (*name, value.replace("ADDRESS", &address)))
        .collect();
    let entries: Vec<(&str, &str)> = entries
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let url = RepositoryUrl::parse(&url.replace("ADDRESS", &address), ANY_ADDRESS).expect("a URL");
    let forge = forge::open(
        kind,
        &Arc::new(OutboundHttp::new(ANY_ADDRESS)),
        &url,
        &credentials(&entries),
    );
    let error = forge
        .expect("a forge")
        .get(7)
        .await
        .expect_err("nobody is let in");
    assert_eq!(error.reason(), "Unauthorized");
    let (asked, shown) = seen.lock().take().expect("it was asked");
    assert_eq!((asked.as_str(), shown.as_str()), (path, header));
}

fn basic(pair: &str) -> String {
    format!("Basic {}", STANDARD.encode(pair))
}

const PASSWORD: [(&str, &str); 2] = [("username", "bot"), ("password", "secret1")];
const BOTH: [(&str, &str); 3] = [
    ("username", "bot"),
    ("password", "secret1"),
    ("token", "token1"),
];

#[tokio::test]
async fn gitlab_takes_every_token_as_a_bearer() {
    let path = "/api/v4/projects/group%2Fsub%2Fdeep%2Fconfig/merge_requests/7";
    let url = "ADDRESS/group/sub/deep/config.git";
    check(
        ForgeProduct::GitLab,
        url,
        &[("token", "token1")],
        path,
        "Bearer token1",
    )
    .await;
    check(ForgeProduct::GitLab, url, &BOTH, path, "Bearer token1").await;
    check(ForgeProduct::GitLab, url, &PASSWORD, path, "Bearer secret1").await;
}

#[tokio::test]
async fn the_secret_says_where_the_api_is() {
    let entries = [("token", "token1"), ("apiURL", "ADDRESS/git/api/v4")];
    let path = "/git/api/v4/projects/group%2Fconfig/merge_requests/7";
    check(
        ForgeProduct::GitLab,
        "ADDRESS/git/group/config",
        &entries,
        path,
        "Bearer token1",
    )
    .await;
    check(
        ForgeProduct::GitLab,
        "git@git.example:group/config.git",
        &entries,
        path,
        "Bearer token1",
    )
    .await;
    let entries = [("token", "token1"), ("apiURL", "ADDRESS/ghe/api/v3")];
    let path = "/ghe/api/v3/repos/group/config/pulls/7";
    check(
        ForgeProduct::GitHub,
        "git@git.example:group/config.git",
        &entries,
        path,
        "Bearer token1",
    )
    .await;
}

#[tokio::test]
async fn bitbucket_server_takes_bearers_and_passwords() {
    let path = "/rest/api/1.0/projects/KEY/repos/config/pull-requests/7";
    let kind = ForgeProduct::BitbucketServer;
    check(
        kind,
        "ADDRESS/scm/KEY/config.git",
        &BOTH,
        path,
        "Bearer token1",
    )
    .await;
    check(
        kind,
        "ADDRESS/scm/KEY/config",
        &PASSWORD,
        path,
        &basic("bot:secret1"),
    )
    .await;
    let path = "/git/rest/api/1.0/projects/~ann/repos/config/pull-requests/7";
    check(
        kind,
        "ADDRESS/git/scm/~ann/config.git",
        &BOTH,
        path,
        "Bearer token1",
    )
    .await;
    let ssh = "ssh://git@git.example:7999/~ann/config.git";
    let entries = [("token", "token1"), ("apiURL", "ADDRESS/git/rest/api/1.0")];
    check(kind, ssh, &entries, path, "Bearer token1").await;
}

#[tokio::test]
async fn bitbucket_cloud_tells_tokens_of_people_from_others() {
    let path = "/2.0/repositories/team/config/pullrequests/7";
    let (kind, api) = (ForgeProduct::BitbucketCloud, ("apiURL", "ADDRESS/2.0"));
    for url in [
        "https://bitbucket.org/team/config.git",
        "git@bitbucket.org:team/config.git",
    ] {
        check(
            kind,
            url,
            &[api, ("token", "token1")],
            path,
            "Bearer token1",
        )
        .await;
        let app_password = [api, PASSWORD[0], PASSWORD[1]];
        check(kind, url, &app_password, path, &basic("bot:secret1")).await;
        let personal = [api, PASSWORD[0], PASSWORD[1], ("token", "ATATTx")];
        check(kind, url, &personal, path, &basic("bot:ATATTx")).await;
        let personal = [api, ("username", "a@b.c"), ("token", "ATATTx")];
        check(kind, url, &personal, path, &basic("a@b.c:ATATTx")).await;
        let of_workspace = [api, ("username", "a@b.c"), ("token", "ATCTTx")];
        check(kind, url, &of_workspace, path, "Bearer ATCTTx").await;
    }
}

#[tokio::test]
async fn azure_takes_personal_tokens_without_a_name() {
    let path = "/tfs/Team/shop/_apis/git/repositories/config/pullrequests/7";
    let (kind, url) = (
        ForgeProduct::AzureDevOps,
        "ADDRESS/tfs/Team/shop/_git/config",
    );
    check(kind, url, &[("token", "token1")], path, &basic(":token1")).await;
    check(kind, url, &PASSWORD, path, &basic("bot:secret1")).await;
    check(kind, url, &[("token", "eyJx")], path, "Bearer eyJx").await;
}

#[tokio::test]
async fn gitea_and_github_take_passwords_too() {
    let path = "/api/v1/repos/team/config/pulls/7";
    check(
        ForgeProduct::Gitea,
        "ADDRESS/team/config",
        &BOTH,
        path,
        "token token1",
    )
    .await;
    check(
        ForgeProduct::Gitea,
        "ADDRESS/team/config",
        &PASSWORD,
        path,
        &basic("bot:secret1"),
    )
    .await;
    let path = "/api/v3/repos/team/config/pulls/7";
    check(
        ForgeProduct::GitHub,
        "ADDRESS/team/config",
        &PASSWORD,
        path,
        "Bearer secret1",
    )
    .await;
}

#[test]
fn nothing_to_show_and_foreign_urls_are_refused_without_asking() {
    testbed::tls::install_provider();
    let http = Arc::new(OutboundHttp::new(ANY_ADDRESS));
    let refused = |kind, url: &str, entries: &[(&str, &str)]| {
        let url = RepositoryUrl::parse(url, ANY_ADDRESS).expect("a URL");
        let error = forge::open(kind, &http, &url, &credentials(entries)).err();
        assert_eq!(error.expect("unusable").reason(), "ForgeUnusable", "{url}");
    };
    for (_, kind) in ForgeProduct::ALL {
        refused(kind, "https://dev.azure.com/team/shop/_git/config", &[]);
    }
    let token = [("token", "x")];
    refused(
        ForgeProduct::BitbucketCloud,
        "https://git.example/team/config",
        &token,
    );
    refused(
        ForgeProduct::BitbucketCloud,
        "https://bitbucket.org/a/b/c",
        &token,
    );
    // A person's token without the person.
    let personal = [("token", "ATATTx")];
    refused(
        ForgeProduct::BitbucketCloud,
        "https://bitbucket.org/a/b",
        &personal,
    );
    refused(ForgeProduct::GitLab, "https://git.example/config", &token);
    for api in ["https://git.example/api?x=1", "https://bot@git.example/api"] {
        let entries = [("token", "x"), ("apiURL", api)];
        let url = "https://git.example/team/config";
        refused(ForgeProduct::GitLab, url, &entries);
    }
    refused(ForgeProduct::GitHub, "https://github.com/a/b/c", &token);
    refused(
        ForgeProduct::AzureDevOps,
        "https://dev.azure.com/team/config",
        &token,
    );
}

#[test]
fn every_type_has_its_name() {
    for (name, kind) in ForgeProduct::ALL {
        assert_eq!(
            (ForgeProduct::from_name(name), kind.as_str()),
            (Some(kind), name)
        );
    }
    assert_eq!(ForgeProduct::from_name("forgejo"), None);
}
