//! A real kube-apiserver with the same OpenID provider gives people the same names and groups as Sluice.

use std::path::Path;

use axum::Router;
use http::{Request, header};
use k8s_openapi::api::authentication::v1::{TokenReview, UserInfo};
use kube::{Api, Client, api::PostParams};
use serde_json::json;
use server::{AppState, Metrics, settings::OidcSettings};
use testbed::{
    objects::apply,
    oidc_provider::OidcProvider,
    real::{Assets, ControlPlane},
};
use tokio_util::sync::CancellationToken;

use crate::{
    oidc::cookie,
    oidc_settings::oidc_settings,
    world::{Answer, ask, unlimited},
};

const DASHBOARD: &str = "https://sluice.example";

/// The flags of the API server that mean the same as these settings.
fn flags(settings: &OidcSettings, authority: &Path) -> Vec<String> {
    let mut flags = vec![
        format!("--oidc-issuer-url={}", settings.issuer_url),
        format!("--oidc-client-id={}", settings.client_id),
        format!("--oidc-ca-file={}", authority.display()),
        format!("--oidc-username-claim={}", settings.username_claim),
        "--oidc-groups-claim=groups".to_owned(),
    ];
    if !settings.groups_prefix.is_empty() {
        flags.push(format!("--oidc-groups-prefix={}", settings.groups_prefix));
    }
    if let Some(prefix) = &settings.username_prefix {
        flags.push(format!("--oidc-username-prefix={prefix}"));
    }
    flags
}

/// Whom the API server takes the bearer of a token for. It reads the keys of the provider in the
/// background.
async fn reviewed(client: &Client, token: &str) -> UserInfo {
    let review = json!({"metadata": {}, "spec": {"token": token}});
    let review: TokenReview = serde_json::from_value(review).unwrap();
    let reviews: Api<TokenReview> = Api::all(client.clone());
    let mut last = None;
    for _ in 0..600 {
        let answer = reviews.create(&PostParams::default(), &review).await;
        let status = answer.unwrap().status.unwrap();
        if let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) {
            return user;
        }
        last = status.error;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the API server does not accept the token: {last:?}");
}

async fn look(rest: &Router, path: &str, cookie: &str) -> Answer {
    let request = Request::get(path).header(header::COOKIE, cookie);
    ask(rest, request.body(String::new())).await
}

/// Signs in; returns the cookie of the session.
async fn session(rest: &Router, provider: &OidcProvider) -> String {
    let started = look(rest, "/login/oidc", "").await;
    let address = started.headers["location"].to_str().unwrap();
    let back = provider.sign_in(address, "ann").unwrap();
    let back = back.strip_prefix(DASHBOARD).unwrap();
    let attempt = cookie(&started, "sluice-sign-in");
    let answer = look(rest, back, &attempt).await;
    assert_eq!(answer.code, 303, "{}", answer.body);
    cookie(&answer, "sluice-session")
}

async fn assert_same_names(change: fn(&mut OidcSettings)) {
    let redirect_url = format!("{DASHBOARD}/login/oidc/callback");
    let provider = OidcProvider::start_with_tls(&redirect_url).await;
    provider.add(
        "ann",
        json!({"email": "ann@shop.example", "email_verified": true, "groups": ["dev", "sre"]}),
    );
    let (mut oidc, files) = oidc_settings(&provider, redirect_url);
    let authority = files.path().join("ca.crt");
    std::fs::write(&authority, provider.certificate_authority.as_ref().unwrap()).unwrap();
    oidc.ca_file = Some(authority.clone());
    change(&mut oidc);
    let assets = Assets::from_env().unwrap();
    let plane = ControlPlane::start_with_flags(&assets, &flags(&oidc, &authority)).await;
    let plane = plane.unwrap();
    let user = reviewed(&plane.client(), &provider.id_token("ann")).await;
    let definitions = api::crds().into_iter();
    let definitions = definitions.map(|it| serde_json::to_value(it).unwrap());
    apply(&plane.client(), definitions.collect()).await;
    let mut settings = unlimited();
    settings.oidc = Some(oidc);
    let stop = CancellationToken::new();
    let app_state = AppState::new(plane.client(), settings, Metrics::default(), &stop);
    let rest = server::web::router(app_state);
    let session = session(&rest, &provider).await;
    let page = look(&rest, "/pipelines", &session).await;
    let name = user.username.unwrap();
    assert!(page.body.contains(&name), "{name}: {}", page.body);
    let list = "/api/v1/pipelines/default";
    assert_eq!(look(&rest, list, &session).await.code, 403);
    let groups = user.groups.unwrap();
    let group = groups.iter().find(|it| it.ends_with("sre")).unwrap();
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "sre", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
    });
    apply(&plane.client(), vec![binding]).await;
    // The API server learns of the binding from a watch of its own, some time after it is stored.
    let mut code = 403;
    for _ in 0..600 {
        code = look(&rest, list, &session).await.code.as_u16();
        if code != 403 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(code, 200, "as {group}");
    stop.cancel();
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn it_names_people_by_email_alike() {
    assert_same_names(|_| {}).await;
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn it_names_people_by_subject_and_with_prefixes_alike() {
    assert_same_names(|oidc| {
        oidc.username_claim = "sub".to_owned();
        oidc.groups_prefix = "oidc:".to_owned();
    })
    .await;
}
