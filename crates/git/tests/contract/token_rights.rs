//! What each forge tells about the rights of a token, without being asked to write.

use git::forge::{ForgeProduct, TokenRight, TokenRights};
use testbed::forge_doubles::token_with;

use crate::double::ForgeDouble;

/// Everything that a token may be needed for.
pub(crate) const ALL_RIGHTS: [TokenRight; 3] = [
    TokenRight::PullRequests,
    TokenRight::CommitStatuses,
    TokenRight::Comments,
];

/// Forges that tell nobody what a token may do.
const SILENT: [ForgeProduct; 2] = [ForgeProduct::BitbucketServer, ForgeProduct::AzureDevOps];

async fn told(double: &ForgeDouble, token: &str) -> TokenRights {
    let forge = double.forge_of(double.project(), token, &double.http);
    forge.check_token(&ALL_RIGHTS).await.expect("told")
}

pub(crate) async fn the_rights_of_a_token_are_told_without_a_write(double: ForgeDouble) {
    let rights = told(&double, double.token()).await;
    assert_eq!(rights.missing, []);
    assert_eq!(rights.untold.is_some(), SILENT.contains(&double.kind));
    let requests = double.state.lock().log.clone();
    assert!(
        requests.iter().all(|it| it.starts_with("GET ")),
        "{requests:?}"
    );
    if SILENT.contains(&double.kind) {
        return double.remark("tells nothing");
    }
    // Bitbucket Cloud tells the scopes of a token, and not what its user may do.
    if double.kind == ForgeProduct::BitbucketCloud {
        return double.remark("tells scopes only");
    }
    let rights = told(&double, &double.token_of_reader().await).await;
    let [missing] = &rights.missing[..] else {
        panic!("{rights:?}");
    };
    let expected = "the token may not open pull requests or set commit statuses: give its user ";
    let missing = missing.to_string();
    assert!(missing.starts_with(expected), "{missing}");
}

/// Each forge with the scopes of a token and what it lacks; nothing where the forge does not tell.
#[tokio::test]
async fn missing_scopes_are_told() {
    use testbed::forge_doubles::{bitbucket_cloud, github, gitlab};
    let of_github = "the token may not open pull requests or set commit statuses or comment on pull requests: \
                     give it the scope repo";
    let without_status = "the token may not open pull requests or comment on pull requests: give it the scope \
                          repo";
    let of_gitlab = of_github.replace("scope repo", "scope api");
    let of_bitbucket = "the token may not open pull requests: let it write pull requests";
    let github = || ForgeDouble::start(ForgeProduct::GitHub, github::router);
    let gitlab = || ForgeDouble::start(ForgeProduct::GitLab, gitlab::router);
    let cloud = || ForgeDouble::start(ForgeProduct::BitbucketCloud, bitbucket_cloud::router);
    for (double, scopes, expected) in [
        (github().await, &["public_repo"][..], Some(of_github)),
        (
            github().await,
            &["repo:status", "gist"],
            Some(without_status),
        ),
        (github().await, &["gist", "repo"], Some("")),
        (github().await, &[], None),
        (gitlab().await, &["read_api"], Some(of_gitlab.as_str())),
        (gitlab().await, &["api"], Some("")),
        (gitlab().await, &["granular"], None),
        (gitlab().await, &[], None),
        (
            cloud().await,
            &["repository:write", "pullrequest"],
            Some(of_bitbucket),
        ),
        (
            cloud().await,
            &["write:repository:bitbucket", "write:pullrequest:bitbucket"],
            Some(""),
        ),
        (cloud().await, &[], None),
    ] {
        let rights = told(&double, &token_with(scopes)).await;
        let missing = rights.missing_texts().join("; ");
        let case = format!("{:?} with {scopes:?}: {rights:?}", double.kind);
        assert_eq!(rights.untold.is_none(), expected.is_some(), "{case}");
        match expected {
            Some("") | None => assert_eq!(missing, "", "{case}"),
            Some(expected) => assert!(missing.starts_with(expected), "{case}"),
        }
    }
}
