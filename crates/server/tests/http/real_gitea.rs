//! People sign in with a real Gitea as the OpenID provider.

use serde_json::{Value, json};
use server::Settings;
use testbed::{
    objects::apply,
    real::{Assets, gitea::RealGitea},
};

use crate::{
    oidc::cookie,
    oidc_settings::settings_for,
    session::look,
    world::{World, unlimited},
};

const DASHBOARD: &str = "https://sluice.example";

/// A Gitea with the people ann, who is in the organisation `shop`, and eve, who is in none.
async fn gitea() -> RealGitea {
    let assets = Assets::from_env().expect("the folder that `cargo xtask kube` prints");
    let gitea = RealGitea::start(&assets).await.expect("a Gitea");
    for name in ["ann", "eve"] {
        gitea.create_user(name).await.unwrap();
    }
    let administer = async |method, path: &str, body| {
        let done = gitea.administer(method, path, body).await;
        done.expect("the administrator may")
    };
    administer("POST", "/orgs", json!({"username": "shop"})).await;
    let team = json!({"name": "sre", "permission": "read", "units": ["repo.code"]});
    let team = administer("POST", "/orgs/shop/teams", team).await;
    let path = format!("/teams/{}/members/ann", team["id"]);
    administer("PUT", &path, Value::Null).await;
    gitea
}

/// Lets the members of a team see pipelines.
fn viewers(group: &str) -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io";
    let rules = json!([{
        "apiGroups": ["pipelines.weave.works"], "resources": ["pipelines"], "verbs": ["get", "list"],
    }]);
    let metadata = json!({"name": "viewers"});
    vec![
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata,
            "rules": rules,
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "viewers"},
            "subjects": [{"apiGroup": rbac, "kind": "Group", "name": group}],
        }),
    ]
}

#[tokio::test]
#[ignore = "needs the Gitea that `cargo xtask kube` builds"]
async fn a_person_signs_in_and_the_groups_of_the_provider_give_rights() {
    let gitea = gitea().await;
    let redirect_url = format!("{DASHBOARD}/login/oidc/callback");
    let client = gitea.register_client(&redirect_url).await.unwrap();
    let keys = (client.id.as_str(), client.secret.as_str());
    let (mut oidc, files) = settings_for(gitea.address(), keys, redirect_url);
    let authority = files.path().join("authority");
    std::fs::write(&authority, gitea.certificate_authority()).unwrap();
    oidc.ca_file = Some(authority);
    let settings = Settings {
        oidc: Some(oidc),
        ..unlimited()
    };
    let world = World::with(settings).await;
    apply(&world.client, viewers("shop:sre")).await;
    for (user, code) in [("ann", 200), ("eve", 403)] {
        let started = look(&world, "/login/oidc?next=%2Fapprovals", "").await;
        assert_eq!(started.code, 303, "{}", started.body);
        let address = started.headers["location"].to_str().unwrap();
        let back = gitea.sign_in(address, user).await.unwrap();
        let back = back.strip_prefix(DASHBOARD).expect("back to Sluice");
        let attempt = cookie(&started, "sluice-sign-in");
        let answer = look(&world, back, &attempt).await;
        assert_eq!(answer.code, 303, "{}", answer.body);
        let session = cookie(&answer, "sluice-session");
        let page = look(&world, "/pipelines/default/app", &session).await;
        assert_eq!(page.code, code, "{user}: {}", page.body);
        let name = format!("{user}@example.com");
        assert!(page.body.contains(&name), "{name}: {}", page.body);
        // The code works once, and only with the cookie of this sign-in.
        let again = look(&world, back, &attempt).await;
        assert_ne!(again.code, 303, "{}", again.body);
    }
}
