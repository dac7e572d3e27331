//! Sign-in with an OpenID provider: the whole flow, and every way in that must stay closed.

mod sessions;

use std::time::Duration;

use http::header;
use serde_json::{Value, json};
use server::{
    Settings,
    settings::{OidcSettings, SigningAlgorithm},
};
use testbed::oidc_provider::{CLIENT, OidcProvider, Signing};

use crate::{
    oidc_settings::oidc_settings,
    session::look,
    world::{Answer, World, unlimited},
};

const DASHBOARD: &str = "https://sluice.example";
const SIGN_IN_COOKIE: &str = "sluice-sign-in";
const SESSION_COOKIE: &str = "sluice-session";

/// A server whose people sign in with a provider.
struct SignInWorld {
    world: World,
    provider: OidcProvider,
    _files: tempfile::TempDir,
}

impl SignInWorld {
    async fn new() -> Self {
        Self::with(|_| {}, unlimited()).await
    }

    async fn with(change: impl FnOnce(&mut OidcSettings), settings: Settings) -> Self {
        let redirect_url = format!("{DASHBOARD}/login/oidc/callback");
        let provider = OidcProvider::start(&redirect_url).await;
        provider.add(
            "ann",
            json!({"email": "ann@shop.example", "email_verified": true, "groups": ["sre"]}),
        );
        let (mut oidc, files) = oidc_settings(&provider, redirect_url);
        change(&mut oidc);
        let settings = Settings {
            oidc: Some(oidc),
            ..settings
        };
        Self {
            world: World::with(settings).await,
            provider,
            _files: files,
        }
    }

    /// Follows the link on the sign-in page; returns the cookie and the address of the provider.
    async fn start(&self, next: &str) -> (String, String) {
        let answer = look(&self.world, &format!("/login/oidc?next={next}"), "").await;
        assert_eq!(answer.code, 303, "{}", answer.body);
        let address = answer.headers["location"].to_str().unwrap().to_owned();
        (cookie(&answer, SIGN_IN_COOKIE), address)
    }

    /// Signs in at the provider; returns the path that the browser is sent back to.
    fn at_provider(&self, address: &str, login: &str) -> String {
        let back = self.provider.sign_in(address, login).unwrap();
        back.strip_prefix(DASHBOARD).unwrap().to_owned()
    }

    /// The answer to a whole sign-in.
    async fn sign_in(&self, login: &str) -> Answer {
        let (cookie, address) = self.start("%2Fapprovals").await;
        let back = self.at_provider(&address, login);
        look(&self.world, &back, &cookie).await
    }

    /// The session of somebody who has signed in.
    async fn session(&self, login: &str) -> String {
        let answer = self.sign_in(login).await;
        assert_eq!(answer.code, 303, "{}", answer.body);
        cookie(&answer, SESSION_COOKIE)
    }

    /// Signing in does not lead to a session; the page says why, and still takes a token.
    async fn assert_refused(&self, login: &str, because: &str) {
        let answer = self.sign_in(login).await;
        assert_refusal(&answer, 403, because);
    }
}

fn assert_refusal(answer: &Answer, code: u16, because: &str) {
    assert_eq!(answer.code, code, "{because}: {}", answer.body);
    assert!(answer.body.contains(because), "{because}: {}", answer.body);
    assert!(answer.body.contains("id=\"token\""), "{}", answer.body);
}

/// A cookie that an answer sets.
pub(crate) fn cookie(answer: &Answer, name: &str) -> String {
    let set = answer.headers.get_all(header::SET_COOKIE).iter();
    let mut set = set.map(|it| it.to_str().unwrap());
    let found = set.find(|it| it.starts_with(&format!("{name}=")));
    found.unwrap().split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_person_signs_in_with_the_provider() {
    let it = SignInWorld::new().await;
    let page = look(&it.world, "/login?next=%2Fapprovals", "").await;
    assert!(
        page.body.contains("href=\"/login/oidc?next=%2Fapprovals\""),
        "{}",
        page.body
    );
    let (attempt, address) = it.start("%2Fapprovals").await;
    assert!(address.starts_with(&format!("{}/authorize?", it.provider.issuer)));
    let back = it.at_provider(&address, "ann");
    let answer = look(&it.world, &back, &attempt).await;
    assert_eq!(answer.code, 303, "{}", answer.body);
    assert_eq!(answer.headers["location"], "/approvals");
    let set = answer.headers["set-cookie"].to_str().unwrap();
    for property in [
        "HttpOnly",
        "SameSite=Lax",
        "Max-Age=3600",
        "Path=/",
        "Secure",
    ] {
        assert!(set.contains(property), "{set}");
    }
    let session = cookie(&answer, SESSION_COOKIE);
    assert!(!session.contains("ann"), "the name can be read: {session}");
    let page = look(&it.world, "/approvals", &session).await;
    assert_eq!(page.code, 200);
    assert!(page.body.contains("ann@shop.example"), "{}", page.body);
}

#[tokio::test]
async fn names_and_groups_follow_the_rules_of_kube_apiserver() {
    for (change, expected) in [
        (
            (|it| it.username_claim = "sub".to_owned()) as fn(&mut OidcSettings),
            "ISSUER#id-of-ann",
        ),
        (
            |it| {
                it.username_claim = "sub".to_owned();
                it.username_prefix = Some("-".to_owned());
            },
            "id-of-ann",
        ),
        (
            |it| it.username_prefix = Some("oidc:".to_owned()),
            "oidc:ann@shop.example",
        ),
        (|_| {}, "ann@shop.example"),
    ] {
        let it = SignInWorld::with(change, unlimited()).await;
        let session = it.session("ann").await;
        let page = look(&it.world, "/pipelines", &session).await;
        let expected = expected.replace("ISSUER", &it.provider.issuer);
        assert!(page.body.contains(&expected), "{expected}: {}", page.body);
    }
}

/// Signing in with these claims fails.
async fn assert_claims_refused(claims: Value, because: &str) {
    let it = SignInWorld::new().await;
    it.provider.change(|state| state.replaced_claims = claims);
    it.assert_refused("ann", because).await;
}

/// Signing in with a token that is signed like this fails.
async fn assert_signing_refused(signing: Signing, because: &str) {
    let it = SignInWorld::new().await;
    it.provider.change(|state| state.signing = signing);
    it.assert_refused("ann", because).await;
}

#[tokio::test]
async fn a_forged_token_is_refused() {
    assert_signing_refused(Signing::Forged, "its signature is wrong").await;
}

#[tokio::test]
async fn an_unsigned_token_is_refused() {
    assert_signing_refused(Signing::Unsigned, "its algorithm is not among").await;
}

#[tokio::test]
async fn a_public_key_is_not_accepted_as_an_hmac_secret() {
    assert_signing_refused(Signing::PublicKeyAsSecret, "its algorithm is not among").await;
}

#[tokio::test]
async fn an_algorithm_that_is_not_allowed_is_refused() {
    let only_ec = |it: &mut OidcSettings| it.signing_algorithms = vec![SigningAlgorithm::Es256];
    let it = SignInWorld::with(only_ec, unlimited()).await;
    it.assert_refused("ann", "its algorithm is not among").await;
}

#[tokio::test]
async fn an_expired_token_is_refused() {
    assert_claims_refused(json!({"exp": 1_700_000_000}), "it has expired").await;
    assert_claims_refused(json!({"exp": null}), "it lacks a claim").await;
    assert_claims_refused(json!({"exp": "4102444800"}), "it lacks a claim").await;
    assert_claims_refused(json!({"iat": 4_102_444_800_u64}), "it is from the future").await;
    assert_claims_refused(json!({"nbf": 4_102_444_800_u64}), "it is not valid yet").await;
}

#[tokio::test]
async fn a_token_for_another_client_is_refused() {
    assert_claims_refused(json!({"aud": "grafana"}), "it is for another client").await;
    assert_claims_refused(json!({"aud": []}), "it is for another client").await;
    let several = json!({"aud": [CLIENT, "grafana"]});
    assert_claims_refused(several, "does not name the authorized one").await;
    let other = json!({"aud": [CLIENT, "grafana"], "azp": "grafana"});
    assert_claims_refused(other, "it was issued to another client").await;
    let it = SignInWorld::new().await;
    let ours = json!({"aud": [CLIENT, "grafana"], "azp": CLIENT});
    it.provider.change(|state| state.replaced_claims = ours);
    it.session("ann").await;
}

#[tokio::test]
async fn a_token_of_another_issuer_is_refused() {
    let claims = json!({"iss": "https://evil.example"});
    assert_claims_refused(claims, "another issuer made it").await;
    let it = SignInWorld::new().await;
    let (cookie, address) = it.start("").await;
    let back = it.at_provider(&address, "ann");
    let mixed_up = format!("{back}&iss=https%3A%2F%2Fevil.example");
    let answer = look(&it.world, &mixed_up, &cookie).await;
    assert_refusal(&answer, 403, "from another sign-in provider");
}

#[tokio::test]
async fn a_token_of_another_sign_in_is_refused() {
    let because = "it belongs to another sign-in";
    assert_claims_refused(json!({"nonce": "n".repeat(43)}), because).await;
    assert_claims_refused(json!({"nonce": null}), because).await;
}

#[tokio::test]
async fn a_sign_in_that_another_browser_started_is_refused() {
    let it = SignInWorld::new().await;
    let because = "was not started in this browser";
    let (own, address) = it.start("").await;
    let (other, _) = it.start("").await;
    let back = it.at_provider(&address, "ann");
    let without_state = back.split("&state=").next().unwrap();
    for (path, cookie) in [
        (back.as_str(), other.as_str()),
        (&back, ""),
        (&back, "sluice-sign-in=AAAA"),
        (without_state, &own),
        ("/login/oidc/callback", &own),
    ] {
        let answer = look(&it.world, path, cookie).await;
        assert_refusal(&answer, 403, because);
    }
    let asked = it
        .provider
        .change(|state| state.requests.get("/token").copied());
    assert_eq!(asked, None, "the code is not even sent");
    assert_eq!(look(&it.world, &back, &own).await.code, 303);
}

#[tokio::test]
async fn a_link_to_a_failed_sign_in_signs_nobody_out() {
    let it = SignInWorld::new().await;
    let session = it.session("ann").await;
    let answer = look(&it.world, "/login/oidc/callback?code=x", &session).await;
    assert_refusal(&answer, 403, "was not started in this browser");
    let after = cookie(&answer, SESSION_COOKIE);
    assert_eq!(look(&it.world, "/pipelines", &after).await.code, 200);
}

#[tokio::test]
async fn a_replayed_code_is_refused() {
    let it = SignInWorld::new().await;
    let (attempt, address) = it.start("").await;
    let back = it.at_provider(&address, "ann");
    let answer = look(&it.world, &back, &attempt).await;
    assert_eq!(answer.code, 303, "{}", answer.body);
    let cleared = answer.headers.get_all(header::SET_COOKIE).iter();
    let mut cleared = cleared.map(|it| it.to_str().unwrap());
    assert!(cleared.any(|it| it.starts_with("sluice-sign-in=; ") && it.contains("Max-Age=0")));
    let copied = look(&it.world, &back, &attempt).await;
    assert_refusal(&copied, 403, "400 invalid_grant");
    let (attempt, _) = it.start("").await;
    let answer = look(&it.world, &back, &attempt).await;
    assert_refusal(&answer, 403, "was not started in this browser");
}

#[tokio::test]
async fn an_unverified_email_is_no_name() {
    for verified in [json!(false), json!(null), json!("true"), json!(1)] {
        let claims = json!({"email_verified": verified});
        assert_claims_refused(claims, "has not verified your e-mail address").await;
    }
    assert_claims_refused(json!({"email": null}), "has no text in the claim").await;
}

#[tokio::test]
async fn names_and_groups_of_kubernetes_are_refused() {
    for name in [
        "system:admin",
        "system:serviceaccount:flux:x",
        "secret:keys",
    ] {
        assert_claims_refused(json!({"email": name}), "only Kubernetes and Sluice give").await;
    }
    for groups in [
        json!(["sre", "system:masters"]),
        json!("system:masters"),
        json!(["system:serviceaccounts"]),
    ] {
        assert_claims_refused(json!({"groups": groups}), "only Kubernetes and Sluice give").await;
    }
    let prefixed = |it: &mut OidcSettings| it.groups_prefix = "system:".to_owned();
    let it = SignInWorld::with(prefixed, unlimited()).await;
    it.assert_refused("ann", "only Kubernetes and Sluice give")
        .await;
    assert_claims_refused(json!({"groups": [1]}), "is not a list of texts").await;
    assert_claims_refused(json!({"groups": ["a\nb"]}), "control characters").await;
}

#[tokio::test]
async fn groups_that_the_token_leaves_out_are_not_taken_for_none() {
    let claims = json!({"groups": null, "_claim_names": {"groups": "src1"}});
    assert_claims_refused(claims, "You are in too many groups").await;
    let many: Vec<String> = (0..200).map(|number| format!("{number:036}")).collect();
    let it = SignInWorld::new().await;
    let claims = json!({"groups": many});
    it.provider.change(|state| state.replaced_claims = claims);
    let answer = it.sign_in("ann").await;
    assert_eq!(answer.code, 403);
    assert!(
        answer.body.contains("too many groups for a cookie"),
        "{}",
        answer.body
    );
}

#[tokio::test]
async fn a_claim_can_be_required() {
    let shop = |it: &mut OidcSettings| {
        it.required_claims = vec![("hd".to_owned(), "shop.example".to_owned())];
    };
    let it = SignInWorld::with(shop, unlimited()).await;
    it.assert_refused("ann", "--oidc-required-claim demands")
        .await;
    let claims = json!({"hd": "shop.example"});
    it.provider.change(|state| state.replaced_claims = claims);
    it.session("ann").await;
}

#[tokio::test]
async fn rotated_keys_are_read_again_but_not_for_every_token() {
    let it = SignInWorld::new().await;
    let reads = || it.provider.change(|state| state.requests["/keys"]);
    it.session("ann").await;
    assert_eq!(reads(), 1);
    it.provider
        .change(|state| state.signing = Signing::SecondKey);
    for _ in 0..3 {
        it.assert_refused("ann", "signed with an unknown key").await;
    }
    assert_eq!(reads(), 1, "they were read a moment ago");
    let_time_pass(11).await;
    it.session("ann").await;
    it.session("ann").await;
    assert_eq!(reads(), 2);
}

/// Moves the clocks of the server.
async fn let_time_pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn without_the_provider_a_token_still_signs_in() {
    let it = SignInWorld::new().await;
    it.provider.change(|state| state.is_down = true);
    let answer = look(&it.world, "/login/oidc?next=%2Fapprovals", "").await;
    assert_refusal(&answer, 502, "Try again later, or use a token");
    assert!(
        answer.body.contains("value=\"/approvals\""),
        "{}",
        answer.body
    );
    crate::session::signed_in(&it.world).await;
    let_time_pass(6).await;
    it.provider.change(|state| state.is_down = false);
    let (attempt, address) = it.start("").await;
    let back = it.at_provider(&address, "ann");
    it.provider.change(|state| state.is_down = true);
    let answer = look(&it.world, &back, &attempt).await;
    assert_refusal(&answer, 502, "answered 503");
}

#[tokio::test]
async fn a_provider_with_another_name_is_refused() {
    let slash = |it: &mut OidcSettings| it.issuer_url.push('/');
    let it = SignInWorld::with(slash, unlimited()).await;
    let answer = look(&it.world, "/login/oidc", "").await;
    assert_refusal(&answer, 502, "Set --oidc-issuer-url to exactly that");
}

#[tokio::test]
async fn a_provider_on_an_internal_address_is_not_asked() {
    let strict = |it: &mut OidcSettings| it.address_policy.allow_internal = false;
    let it = SignInWorld::with(strict, unlimited()).await;
    let answer = look(&it.world, "/login/oidc", "").await;
    assert_refusal(&answer, 502, "is an internal address");
    assert!(it.provider.change(|state| state.requests.is_empty()));
}

#[tokio::test]
async fn what_the_provider_says_is_shown_as_plain_text() {
    let it = SignInWorld::new().await;
    let (attempt, address) = it.start("").await;
    let state = address.split("state=").nth(1).unwrap();
    let state = state.split('&').next().unwrap();
    let denied = format!("/login/oidc/callback?state={state}&error=access_denied%3Cscript%3E");
    let answer = look(&it.world, &denied, &attempt).await;
    assert_refusal(&answer, 403, "did not sign you in: access_deniedscript");
}

#[tokio::test]
async fn after_signing_in_a_browser_stays_on_this_site() {
    let it = SignInWorld::new().await;
    for (next, expected) in [
        ("%2Fpipelines%2Fdefault%2Fapp", "/pipelines/default/app"),
        ("https%3A%2F%2Fevil.example", "/pipelines"),
        ("%2F%2Fevil.example", "/pipelines"),
        ("%2F%5Cevil.example", "/pipelines"),
        ("%2F%09%2Fevil.example", "/pipelines"),
        ("javascript%3Aalert(1)", "/pipelines"),
        ("", "/pipelines"),
        (&format!("%2F{}", "a".repeat(2000)), "/pipelines"),
    ] {
        let (attempt, address) = it.start(next).await;
        let back = it.at_provider(&address, "ann");
        let answer = look(&it.world, &back, &attempt).await;
        assert_eq!(answer.headers["location"], expected, "{next}");
    }
}
