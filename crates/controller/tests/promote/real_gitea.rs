//! Whole promotions by pull request on a real Gitea, over TLS.

use serde_json::{Value, json};
use testbed::real::{
    Assets,
    gitea::{PASSWORD, RealGitea},
};

use crate::world::{World, apply, manifest, spec, wait_for};

const FILE: &str = "prod/app.yaml";
const BRANCH: &str = "promotion-default-app-prod";
/// Sluice's user and its repository.
const USER: &str = "sluice";
const REPOSITORY: &str = "/repos/sluice/config";

struct GiteaWorld {
    world: World,
    gitea: RealGitea,
}

/// The commit of a file, as `git fast-import` reads it.
fn first_commit(content: &str) -> String {
    let person = "Ann <ann@example.com> 1700000000 +0000";
    format!(
        "commit refs/heads/main\nauthor {person}\ncommitter {person}\ndata 5\nFirst\n\
         M 100644 inline {FILE}\ndata {}\n{content}\n",
        content.len()
    )
}

impl GiteaWorld {
    /// Dev and prod run 1.0.0, and prod waits for approvals.
    async fn new(pull_request: &Value) -> Self {
        let gitea = RealGitea::start(&Assets::from_env().unwrap()).await;
        let gitea = gitea.unwrap();
        gitea.create_user(USER).await.unwrap();
        let this = Self {
            world: World::with(&[]).await,
            gitea,
        };
        let repository = json!({"name": "config", "default_branch": "main"});
        let path = format!("/admin/users/{USER}/repos");
        this.administer("POST", &path, repository).await;
        let file = manifest("1.0.0", "default:app:prod");
        let commit = first_commit(&file);
        let pushed = this.gitea.import("sluice/config", &commit).await;
        pushed.unwrap();
        this.secret().await;
        for cluster in ["dev", "prod"] {
            this.world.leaf(cluster, cluster, "1.0.0").await;
        }
        let mut strategy = json!({
            "type": "gitea", "url": format!("{}/sluice/config.git", this.gitea.address()),
            "baseBranch": "main", "secretRef": {"name": "gitea"},
        });
        for (name, value) in pull_request.as_object().unwrap() {
            strategy[name] = value.clone();
        }
        let promotion = json!({"manual": true, "strategy": {"pull-request": strategy}});
        let pipeline = spec("dev=dev/dev > prod=prod/prod", &promotion);
        this.world.pipeline("app", pipeline).await;
        this.world.expect_hold("app", "prod", "").await;
        this
    }

    async fn secret(&self) {
        let scopes = ["write:repository", "write:issue"];
        let token = self.gitea.create_token(USER, &scopes).await.unwrap();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "gitea", "namespace": "default"},
            "stringData": {
                "username": USER, "password": PASSWORD, "token": token,
                "caFile": self.gitea.certificate_authority(),
            },
        });
        apply(&self.world.hub, &secret).await;
    }

    async fn administer(&self, method: &str, path: &str, body: Value) -> Value {
        self.gitea.administer(method, path, body).await.unwrap()
    }

    async fn pull_request(&self, number: u64) -> Value {
        let path = format!("{REPOSITORY}/pulls/{number}");
        self.administer("GET", &path, Value::Null).await
    }

    /// Releases a version to dev, and approves it for prod.
    async fn release(&self, version: &str) {
        self.world.deploy("dev", "dev", version).await;
        let mut waiting = None;
        let is_waiting = async || {
            let promotions = self.world.all_promotions().await;
            let ours = promotions
                .into_iter()
                .find(|it| it.spec.revision == version);
            waiting = ours.filter(|it| {
                let status = it.status.clone().unwrap_or_default();
                status.change.is_some()
            });
            waiting.is_some()
        };
        assert!(
            wait_for(is_waiting).await,
            "{version} waits for no approval"
        );
        self.world.approve(&waiting.unwrap()).await;
    }

    /// Flux deploys what `main` says.
    async fn sync(&self, version: &str) {
        let path = format!("{REPOSITORY}/contents/{FILE}?ref=main");
        let file = self.administer("GET", &path, Value::Null).await;
        let text = file["content"].as_str().unwrap();
        let text = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text);
        let text = String::from_utf8(text.unwrap()).unwrap();
        assert_eq!(text, manifest(version, "default:app:prod"));
        self.world.deploy("prod", "prod", version).await;
    }
}

#[tokio::test]
#[ignore = "needs the Gitea that `cargo xtask kube` builds"]
async fn a_release_is_approved_merged_by_a_person_and_deployed() {
    let world = GiteaWorld::new(&json!({"labels": ["promotion"]})).await;
    world.release("1.1.0").await;
    let promotions = world.world.expect("prod 1.1.0 WaitingForMerge").await;
    let pull = world.pull_request(1).await;
    assert_eq!(pull["title"], "Promote default/app in prod to 1.1.0");
    assert_eq!(
        (&pull["head"]["ref"], &pull["state"]),
        (&json!(BRANCH), &json!("open"))
    );
    assert_eq!(pull["labels"][0]["name"], "promotion");
    let status = promotions[0].status.clone().unwrap();
    assert_eq!(status.url.as_deref(), pull["html_url"].as_str());
    assert_eq!(status.commit.as_deref(), pull["head"]["sha"].as_str());

    // People delete the branch when they merge.
    let is_mergeable = async || world.pull_request(1).await["mergeable"] == true;
    assert!(wait_for(is_mergeable).await, "it cannot be merged");
    let merge = json!({"Do": "merge", "delete_branch_after_merge": true});
    let path = format!("{REPOSITORY}/pulls/1/merge");
    world.administer("POST", &path, merge).await;
    world.world.expect("prod 1.1.0 Deploying").await;
    world.sync("1.1.0").await;
    world.world.expect("prod 1.1.0 Succeeded").await;

    world.release("1.2.0").await;
    let waits = "prod 1.1.0 Succeeded, prod 1.2.0 WaitingForMerge";
    world.world.expect(waits).await;
    let path = format!("{REPOSITORY}/pulls/2");
    world
        .administer("PATCH", &path, json!({"state": "closed"}))
        .await;
    let ended = "prod 1.1.0 Succeeded, prod 1.2.0 Abandoned";
    world.world.expect(ended).await;
    let path = format!("{REPOSITORY}/pulls?state=all");
    let all = world.administer("GET", &path, Value::Null).await;
    assert_eq!(all.as_array().unwrap().len(), 2);
}

#[tokio::test]
#[ignore = "needs the Gitea that `cargo xtask kube` builds"]
async fn sluice_merges_once_the_required_check_has_passed() {
    let world = GiteaWorld::new(&json!({"autoMerge": true})).await;
    let rule = json!({
        "rule_name": "main", "enable_status_check": true, "status_check_contexts": ["ci"],
    });
    let path = format!("{REPOSITORY}/branch_protections");
    world.administer("POST", &path, rule).await;
    world.release("1.1.0").await;
    let promotions = world.world.expect("prod 1.1.0 WaitingForMerge").await;
    let commit = promotions[0].status.clone().unwrap().commit.unwrap();
    let path = format!("{REPOSITORY}/statuses/{commit}");
    let pending = json!({"context": "ci", "state": "pending"});
    world.administer("POST", &path, pending).await;
    let refused = async || {
        let promotions = world.world.all_promotions().await;
        let status = promotions[0].status.clone().unwrap_or_default();
        let message = status.message.unwrap_or_default();
        message.contains("required status checks")
    };
    assert!(wait_for(refused).await, "nobody says what it waits for");
    assert_eq!(world.pull_request(1).await["state"], "open");
    let passed = json!({"context": "ci", "state": "success"});
    world.administer("POST", &path, passed).await;
    world.world.expect("prod 1.1.0 Deploying").await;
    world.sync("1.1.0").await;
    world.world.expect("prod 1.1.0 Succeeded").await;
}
