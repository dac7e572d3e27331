//! Files that are to be proposed in git: who may ask for them, what is stored, and the form that
//! makes a pipeline without script.

use api::{Change, change::ChangePhase};
use http::Request;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use server::{Settings, settings::Authoring};

use crate::{
    rest::{get, grant, post},
    session::{csrf, look, signed_in, submit},
    world::{World, ask, unlimited},
};

const CHANGES: &str = "/api/v1/changes/default";

fn authoring() -> Settings {
    Settings {
        authoring: Some(Authoring {
            url: "https://git.example.com/fleet.git".to_owned(),
            branch: "main".to_owned(),
            folders: vec!["pipelines".to_owned()],
        }),
        ..unlimited()
    }
}

fn file(path: &str) -> Value {
    json!({"path": path, "content": "a: 1\n", "title": "Add a"})
}

async fn stored(world: &World) -> Vec<Change> {
    let changes: Api<Change> = Api::namespaced(world.client.clone(), "default");
    changes.list(&ListParams::default()).await.unwrap().items
}

async fn set_phase(world: &World, name: &str, phase: &str) {
    let changes: Api<Change> = Api::namespaced(world.client.clone(), "default");
    let patch = Patch::Merge(json!({"status": {"phase": phase}}));
    let parameters = PatchParams::default();
    let patched = changes.patch_status(name, &parameters, &patch).await;
    patched.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_may_create_changes_may_propose_and_follow() {
    let world = World::with(authoring()).await;
    grant(&world, "ann", &["create", "get", "list"], "changes").await;
    grant(&world, "eve", &["get", "list", "create"], "pipelines").await;
    let refused = post(&world, "eve", CHANGES, file("pipelines/a.yaml")).await;
    assert_eq!(refused.code, 403, "{}", refused.body);
    assert!(
        refused
            .body
            .contains("eve may not create changes in namespace default")
    );
    let created = post(&world, "ann", CHANGES, file("pipelines/a.yaml")).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let place = created.headers["location"].to_str().unwrap().to_owned();
    let all = stored(&world).await;
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].spec.by.as_deref(), Some("ann"));
    assert_eq!(all[0].spec.content, "a: 1\n");
    let followed = get(&world, "ann", &place).await;
    let followed: Value = serde_json::from_str(&followed.body).unwrap();
    assert_eq!(followed["spec"]["path"], "pipelines/a.yaml");
    assert_eq!(followed["metadata"]["managedFields"], Value::Null);
    let listed = get(&world, "ann", CHANGES).await;
    let listed: Value = serde_json::from_str(&listed.body).unwrap();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert_eq!(get(&world, "eve", &place).await.code, 403);
    let nobody = Request::post(CHANGES).body(file("pipelines/a.yaml").to_string());
    assert_eq!(ask(&world.rest, nobody).await.code, 401);
}

#[tokio::test(start_paused = true)]
async fn the_same_wish_is_one_change_until_it_is_over() {
    let world = World::with(authoring()).await;
    grant(&world, "ann", &["create"], "changes").await;
    let again = || post(&world, "ann", CHANGES, file("pipelines/a.yaml"));
    assert_eq!(again().await.code, 201);
    assert_eq!(again().await.code, 201);
    let first = stored(&world).await.remove(0);
    let name = first.metadata.name.clone().unwrap();
    set_phase(&world, &name, "Abandoned").await;
    assert_eq!(again().await.code, 201);
    let all = stored(&world).await;
    assert_eq!(all.len(), 1);
    assert_ne!(all[0].metadata.uid, first.metadata.uid);
    assert!(all[0].status.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_proposed_is_refused_with_what_to_do() {
    let world = World::with(authoring()).await;
    grant(&world, "ann", &["create"], "changes").await;
    for (path, expected) in [
        ("apps/a.yaml", "only files in pipelines are"),
        ("pipelines/../a.yaml", "begin with a dot"),
        ("pipelines/.github/a.yaml", "begin with a dot"),
        ("pipelines/a.sh", ".yaml or .yml"),
    ] {
        let refused = post(&world, "ann", CHANGES, file(path)).await;
        assert_eq!(refused.code, 422, "{path}: {}", refused.body);
        assert!(refused.body.contains(expected), "{}", refused.body);
    }
    let strange = post(&world, "ann", CHANGES, json!({"path": "a"})).await;
    assert_eq!(strange.code, 422);
    assert!(
        strange.body.contains("send JSON such as"),
        "{}",
        strange.body
    );
    let large = json!({"path": "pipelines/a.yaml", "content": "x".repeat(300_000), "title": "t"});
    let refused = post(&world, "ann", CHANGES, large).await;
    assert_eq!(refused.code, 422, "{}", refused.body);
    assert!(stored(&world).await.is_empty());
    let world = World::new().await;
    grant(&world, "ann", &["create"], "changes").await;
    let refused = post(&world, "ann", CHANGES, file("pipelines/a.yaml")).await;
    assert_eq!(refused.code, 409);
    assert!(refused.body.contains("--authoring-url"), "{}", refused.body);
}

/// The fields of a whole form, as a browser without script sends them.
fn form(csrf: &str, step: &str, name: &str) -> String {
    format!(
        "csrf={csrf}&name={name}&namespace=default&kind=HelmRelease&app=basket&image=&\
         environment.0.name=dev&environment.0.target.0.cluster=&\
         environment.0.target.0.namespace=dev&environment.1.name=prod&environment.1.manual=yes&\
         environment.1.target.0.cluster=eu&environment.1.target.0.namespace=prod&\
         url=https://git.example.com/apps.git&forge=gitea&branch=main&secret=git&path=&step={step}"
    )
}

#[tokio::test(start_paused = true)]
async fn a_pipeline_is_proposed_without_script() {
    let world = World::with(authoring()).await;
    let cookie = signed_in(&world).await;
    let page = look(&world, "/create", &cookie).await;
    assert_eq!(page.code, 200);
    let csrf = csrf(&page.body);
    let more = submit(&world, "/create", &cookie, &form(&csrf, "add", "basket")).await;
    assert!(more.body.contains("environment.2.name"), "{}", more.body);
    let fewer = submit(
        &world,
        "/create",
        &cookie,
        &form(&csrf, "remove.0", "basket"),
    )
    .await;
    assert!(!fewer.body.contains("environment.1.name"));
    let wrong = submit(
        &world,
        "/create",
        &cookie,
        &form(&csrf, "propose", "Bas<ket"),
    )
    .await;
    assert_eq!(wrong.code, 200);
    assert!(
        wrong.body.contains("use lower-case letters"),
        "{}",
        wrong.body
    );
    assert!(wrong.body.contains("Bas&lt;ket") && !wrong.body.contains("Bas<ket"));
    let taken = submit(&world, "/create", &cookie, &form(&csrf, "propose", "app")).await;
    assert!(
        taken.body.contains("a pipeline of that name"),
        "{}",
        taken.body
    );
    assert!(stored(&world).await.is_empty());
    let foreign = submit(&world, "/create", &cookie, &form("x", "propose", "basket")).await;
    assert_eq!(foreign.code, 403);
    let proposed = submit(
        &world,
        "/create",
        &cookie,
        &form(&csrf, "propose", "basket"),
    )
    .await;
    assert_eq!(proposed.code, 303, "{}", proposed.body);
    let change = stored(&world).await.remove(0);
    assert_eq!(change.spec.path, "pipelines/default/basket.yaml");
    assert_eq!(change.spec.title, "Add pipeline default/basket");
    assert_eq!(change.spec.by.as_deref(), Some("olivia"));
    let pipeline: api::Pipeline =
        serde_json::from_value(serde_saphyr::from_str::<Value>(&change.spec.content).unwrap())
            .unwrap();
    assert_eq!(planner::lint(&pipeline.spec), []);
    let place = proposed.headers["location"].to_str().unwrap().to_owned();
    let name = change.metadata.name.clone().unwrap();
    assert_eq!(
        place,
        format!("/changes/default/{name}").replace('-', "%2D")
    );
    let shown = look(&world, &place, &cookie).await;
    assert!(
        shown.body.contains("has not processed it yet"),
        "{}",
        shown.body
    );
    set_phase(&world, &name, &format!("{:?}", ChangePhase::Merged)).await;
    let shown = look(&world, &place, &cookie).await;
    assert!(
        shown.body.contains("once Flux has applied it"),
        "{}",
        shown.body
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_repository_nothing_can_be_proposed() {
    let world = World::new().await;
    let cookie = signed_in(&world).await;
    let page = look(&world, "/create", &cookie).await;
    assert!(
        page.body.contains("without --authoring-url"),
        "{}",
        page.body
    );
    assert!(!page.body.contains("Propose in git"));
}
