//! Browser sessions without a browser: what cookies are like, and which ones are no good.

use apiserver::User;
use http::{Request, header};

use crate::world::{Answer, World, ask, unlimited};

/// The cookie and the form's token of somebody who is about to sign in.
async fn sign_in_form(world: &World) -> (String, String) {
    let answer = ask(&world.rest, Request::get("/login").body(String::new())).await;
    (cookie(&answer), csrf(&answer.body))
}

fn cookie(answer: &Answer) -> String {
    let set = answer.headers["set-cookie"].to_str().unwrap();
    set.split(';').next().unwrap().to_owned()
}

pub(crate) fn csrf(page: &str) -> String {
    let rest = page.split("name=\"csrf\" value=\"").nth(1).unwrap();
    rest.split('"').next().unwrap().to_owned()
}

pub(crate) async fn submit(world: &World, path: &str, cookie: &str, form: &str) -> Answer {
    let request = Request::post(path)
        .header(header::COOKIE, cookie)
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    ask(&world.rest, request.body(form.to_owned())).await
}

pub(crate) async fn look(world: &World, path: &str, cookie: &str) -> Answer {
    let request = Request::get(path).header(header::COOKIE, cookie);
    ask(&world.rest, request.body(String::new())).await
}

pub(crate) async fn signed_in(world: &World) -> String {
    world
        .server
        .add_token("owner", User::new("olivia", &["system:masters"]));
    signed_in_as(world, "owner").await
}

/// The cookie of somebody who has this token.
pub(crate) async fn signed_in_as(world: &World, secret: &str) -> String {
    let (step, token) = sign_in_form(world).await;
    let form = format!("csrf={token}&token={secret}");
    let answer = submit(world, "/login", &step, &form).await;
    assert_eq!(answer.code, 303, "{}", answer.body);
    let set = answer.headers["set-cookie"].to_str().unwrap();
    for property in ["HttpOnly", "SameSite=Lax", "Max-Age=28800", "Path=/"] {
        assert!(set.contains(property), "{set}");
    }
    assert!(!set.contains(secret), "the token can be read: {set}");
    cookie(&answer)
}

#[tokio::test(start_paused = true)]
async fn a_session_is_kept_in_a_cookie_that_all_replicas_read() {
    let world = World::new().await;
    let cookie = signed_in(&world).await;
    for answer in [
        look(&world, "/pipelines", &cookie).await,
        ask(
            &world.rest_replica(),
            Request::get("/pipelines")
                .header(header::COOKIE, &cookie)
                .body(String::new()),
        )
        .await,
    ] {
        assert_eq!(answer.code, 200);
        assert!(answer.body.contains("olivia"));
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"));
        assert_eq!(answer.headers["cache-control"], "no-store");
    }
}

#[tokio::test(start_paused = true)]
async fn other_cookies_lead_to_the_sign_in_page() {
    let world = World::new().await;
    let cookie = signed_in(&world).await;
    let mut forged = cookie.clone();
    let last = if forged.ends_with('A') { 'B' } else { 'A' };
    forged.replace_range(30..31, &last.to_string());
    let (step, _) = sign_in_form(&world).await;
    for wrong in ["", "sluice-session=", "sluice-session=%00", &forged, &step] {
        let answer = look(&world, "/approvals", wrong).await;
        assert_eq!(answer.code, 303, "{wrong}");
        assert_eq!(answer.headers["location"], "/login?next=%2Fapprovals");
        assert_eq!(look(&world, "/live?page=/approvals", wrong).await.code, 401);
    }
}

#[tokio::test(start_paused = true)]
async fn forms_without_their_sessions_token_do_nothing() {
    let world = World::new().await;
    let cookie = signed_in(&world).await;
    let (step, token) = sign_in_form(&world).await;
    for csrf in ["", "0", &token] {
        let form = format!("csrf={csrf}&verb=suspend");
        let answer = submit(&world, "/pipelines/default/app/act", &cookie, &form).await;
        assert_eq!(answer.code, 403, "{csrf}");
    }
    assert!(!world.pipeline().await.spec.suspend);
    let foreign = submit(&world, "/login", &step, "csrf=0&token=owner").await;
    assert!(foreign.body.contains("The form has expired"));
    let page = look(&world, "/pipelines", &cookie).await;
    let form = format!("csrf={}&verb=suspend", csrf(&page.body));
    let answer = submit(&world, "/pipelines/default/app/act", &cookie, &form).await;
    assert_eq!(answer.code, 303);
    assert!(world.pipeline().await.spec.suspend);
}

#[tokio::test(start_paused = true)]
async fn signing_out_ends_the_session_on_all_replicas() {
    let world = World::new().await;
    let cookie = signed_in(&world).await;
    let replica = world.rest_replica();
    let look_there = async |cookie: &str| {
        let request = Request::get("/pipelines").header(header::COOKIE, cookie);
        ask(&replica, request.body(String::new())).await
    };
    let page = look(&world, "/pipelines", &cookie).await;
    assert_eq!(look_there(&cookie).await.code, 200);
    let other = signed_in(&world).await;
    let form = format!("csrf={}", csrf(&page.body));
    let answer = submit(&world, "/logout", &cookie, &form).await;
    assert_eq!(answer.code, 303, "{}", answer.body);
    assert_eq!(look(&world, "/pipelines", &cookie).await.code, 303);
    assert_eq!(
        look(&world, "/live?page=/pipelines", &cookie).await.code,
        401
    );
    // Another replica hears of it when it looks again.
    tokio::time::advance(std::time::Duration::from_secs(6)).await;
    assert_eq!(look_there(&cookie).await.code, 303);
    assert_eq!(look_there(&other).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn only_known_actions_change_a_pipeline() {
    let world = World::new().await;
    let cookie = signed_in(&world).await;
    let page = look(&world, "/pipelines", &cookie).await;
    for (verb, is_suspended) in [
        ("suspend", true),
        ("approve", true),
        ("", true),
        ("Resume", true),
        ("resume", false),
        ("rollback", false),
    ] {
        let form = format!("csrf={}&verb={verb}", csrf(&page.body));
        let answer = submit(&world, "/pipelines/default/app/act", &cookie, &form).await;
        assert_eq!(answer.code, 303, "{verb}");
        assert_eq!(world.pipeline().await.spec.suspend, is_suspended, "{verb}");
    }
}

#[tokio::test(start_paused = true)]
async fn guessing_tokens_is_slowed_down() {
    let settings = server::Settings {
        rate_limit: 3,
        ..unlimited()
    };
    let world = World::with(settings).await;
    let (step, token) = sign_in_form(&world).await;
    let mut codes = Vec::new();
    for guess in 0..5 {
        let form = format!("csrf={token}&token=guess-{guess}");
        codes.push(submit(&world, "/login", &step, &form).await.code.as_u16());
    }
    assert_eq!(codes[..3], [200, 200, 200]);
    assert_eq!(codes[4], 429);
}
