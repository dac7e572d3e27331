//! What the double of Gitea answers to single requests, compared with what a real Gitea answers.
//!
//! The answers must be the same but for those in [`DIFFERENCES`], which must differ exactly as written
//! there.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use git::forge::ForgeProduct;
use net::{AddressPolicy, HttpClient, HttpRequest, OutboundHttp};
use serde_json::{Value, json};
use testbed::forge_doubles::gitea;

use crate::double::{BRANCH, ForgeDouble, LATER};
use crate::real::PATIENCE;

/// A request, the answer of the double, that of the real server, and why they may differ.
const DIFFERENCES: &[(&str, &str, &str, &str)] = &[
    (
        "label by name",
        r#"422 {"message":"invalid label id"}"#,
        r#"200 [{"name":"promotion"}]"#,
        "older versions take numbers only, so Sluice sends numbers",
    ),
    (
        "set no state",
        r#"422 {"message":"invalid commit status state"}"#,
        "201 {}",
        "Gitea stores any word, which then counts as no result; Sluice must not send one",
    ),
];

/// Answers by the name of the request.
type Answers = BTreeMap<&'static str, String>;

/// Sends single requests and collects the answers.
struct Script {
    double: ForgeDouble,
    client: HttpClient,
    answers: Answers,
}

impl Script {
    fn new(double: ForgeDouble) -> Self {
        let http = OutboundHttp::new(AddressPolicy::UNRESTRICTED);
        let client = http.client("127.0.0.1", None).expect("a client");
        Self {
            double,
            client,
            answers: Answers::new(),
        }
    }

    /// Sends a request to the API of the repository with the usual token.
    async fn send(&mut self, name: &'static str, request: &str, body: Value) {
        let (project, token) = (self.double.project(), self.double.token());
        let (project, token) = (project.to_owned(), token.to_owned());
        self.send_to(name, &project, &token, (request, body)).await;
    }

    /// Tries to merge the first one, as soon as Gitea has looked for conflicts in the background.
    async fn merge_first(&mut self, name: &'static str, body: Value) {
        let began = Instant::now();
        loop {
            self.send(name, "POST /pulls/1/merge", body.clone()).await;
            if !self.answers[name].contains(LATER) || began.elapsed() > PATIENCE {
                return;
            }
            self.answers.remove(name);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn send_to(
        &mut self,
        name: &'static str,
        project: &str,
        token: &str,
        (request, body): (&str, Value),
    ) {
        let (method, path) = request.split_once(' ').expect("a method and a path");
        let url = format!("{}/api/v1/repos/{project}{path}", self.double.address);
        let method = method.parse().expect("a method");
        let mut request = HttpRequest::new(method, url.parse().expect("a URL"));
        if !body.is_null() {
            request = request.json(&body).expect("JSON");
        }
        let token = format!("token {token}").parse().expect("a header");
        let request = request.header(http::header::AUTHORIZATION, token);
        let response = self.client.send(request).await.expect("a response");
        let status = response.status.as_u16();
        let body = response.read_body(8 << 20).await.expect("a body");
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let shown = format!("{status} {}", self.essence(&body));
        let replaced = self.answers.insert(name, shown);
        assert_eq!(replaced, None, "{name} is sent once");
    }

    /// The parts of an answer that the client reads.
    fn essence(&self, body: &Value) -> Value {
        if let Some(items) = body.as_array() {
            return items.iter().map(|item| self.essence(item)).collect();
        }
        if body["head"].is_object() {
            return self.pull_request(body);
        }
        let kept = ["message", "name", "body", "total_commits"];
        let kept = kept.iter().filter(|name| !body[**name].is_null());
        let fields = kept.map(|name| ((*name).to_owned(), without_ids(&body[*name])));
        Value::Object(fields.collect())
    }

    fn pull_request(&self, body: &Value) -> Value {
        let branch = |branch: &Value| {
            let is_ours = branch["repo"]["full_name"] == self.double.project();
            json!([
                branch["label"],
                branch["ref"],
                is_ours,
                branch["sha"].is_string()
            ])
        };
        json!({
            "number": body["number"], "title": body["title"], "body": body["body"],
            "state": body["state"], "draft": body["draft"], "merged": body["merged"],
            "merged at": body["merged_at"].is_string(),
            "merge commit": body["merge_commit_sha"].is_string(),
            "head": branch(&body["head"]), "base": branch(&body["base"]),
        })
    }

    async fn run(mut self) -> Answers {
        self.open().await;
        self.ask_without_rights().await;
        self.annotate().await;
        self.edit_and_fail_to_merge().await;
        self.merge().await;
        self.answers
    }

    async fn open(&mut self) {
        let new = |head: &str, base: &str, title: &str| json!({"head": head, "base": base, "title": title, "body": "b"});
        self.send("list none", "GET /pulls?state=open&limit=50", Value::Null)
            .await;
        self.send("open", "POST /pulls", new(BRANCH, "main", "first"))
            .await;
        self.send("open again", "POST /pulls", new(BRANCH, "main", "again"))
            .await;
        let untitled = json!({"head": BRANCH, "base": "main"});
        self.send("open without a title", "POST /pulls", untitled)
            .await;
        self.send("open from no branch", "POST /pulls", new("no", "main", "x"))
            .await;
        self.send("open into no branch", "POST /pulls", new(BRANCH, "no", "x"))
            .await;
        self.send(
            "open main into main",
            "POST /pulls",
            new("main", "main", "x"),
        )
        .await;
        self.send("list one", "GET /pulls?state=open&limit=50", Value::Null)
            .await;
        self.send("read", "GET /pulls/1", Value::Null).await;
        self.send("read none", "GET /pulls/77", Value::Null).await;
    }

    async fn ask_without_rights(&mut self) {
        let project = self.double.project().to_owned();
        let list = || ("GET /pulls", Value::Null);
        self.send_to("wrong token", &project, "wrong", list()).await;
        let token = self.double.token().to_owned();
        self.send_to("no repository", "team/nothing", &token, list())
            .await;
        let reader = self.double.token_with(&["read:repository"]).await;
        let new = json!({"head": BRANCH, "base": "main", "title": "x"});
        self.send_to(
            "open with a reader's token",
            &project,
            &reader,
            ("POST /pulls", new),
        )
        .await;
        let writer = self.double.token_with(&["write:repository"]).await;
        let comment = ("POST /issues/1/comments", json!({"body": "x"}));
        self.send_to(
            "comment without the issue scope",
            &project,
            &writer,
            comment,
        )
        .await;
        let unread = ("GET /../../../notifications/new", Value::Null);
        self.send_to("unread without its scope", &project, &writer, unread)
            .await;
        self.send_to(
            "list labels without the issue scope",
            &project,
            &writer,
            ("GET /labels", Value::Null),
        )
        .await;
    }

    async fn annotate(&mut self) {
        let label = json!({"name": "promotion", "color": "#ededed"});
        self.send("create a label", "POST /labels", label).await;
        self.send(
            "create a label without a colour",
            "POST /labels",
            json!({"name": "x"}),
        )
        .await;
        self.send("list labels", "GET /labels?limit=50", Value::Null)
            .await;
        let labels = "POST /issues/1/labels";
        self.send("label with no id", labels, json!({"labels": [777]}))
            .await;
        self.send(
            "comment",
            "POST /issues/1/comments",
            json!({"body": "text"}),
        )
        .await;
        self.send("label by name", labels, json!({"labels": ["promotion"]}))
            .await;
        let none = "GET /issues/77/comments";
        self.send("list comments of none", none, Value::Null).await;
        let none = "PATCH /issues/comments/4711";
        self.send("edit no comment", none, json!({"body": "x"}))
            .await;
        self.send(
            "comment nothing",
            "POST /issues/1/comments",
            json!({"body": ""}),
        )
        .await;
        self.send(
            "comment on none",
            "POST /issues/77/comments",
            json!({"body": "text"}),
        )
        .await;
        let reviewers = "POST /pulls/1/requested_reviewers";
        let nobody = json!({"reviewers": ["nobody-here"], "team_reviewers": []});
        self.send("ask nobody", reviewers, nobody).await;
        let team = json!({"reviewers": [], "team_reviewers": ["nobody-here"]});
        self.send("ask no team", reviewers, team).await;
        let none = "POST /pulls/77/requested_reviewers";
        self.send(
            "ask for a review of none",
            none,
            json!({"reviewers": ["ann"]}),
        )
        .await;
    }

    async fn edit_and_fail_to_merge(&mut self) {
        let edit = "PATCH /pulls/1";
        let texts = json!({"title": "other", "body": "new\nlines"});
        self.send("edit", edit, texts).await;
        self.send("edit into no state", edit, json!({"state": "odd"}))
            .await;
        self.send("edit none", "PATCH /pulls/77", json!({"title": "x"}))
            .await;
        self.double.until_mergeable(1).await;
        self.merge_first("merge in no way", json!({"Do": "odd"}))
            .await;
        let head = "d".repeat(40);
        let stale = json!({"Do": "merge", "head_commit_id": head});
        self.merge_first("merge another head", stale).await;
        self.send("make a draft", edit, json!({"title": "WIP: other"}))
            .await;
        let plain = || json!({"Do": "merge"});
        self.merge_first("merge a draft", plain()).await;
        self.send("make no draft", edit, json!({"title": "other"}))
            .await;
        self.double.set_protected(true).await;
        self.merge_first("merge without the right", plain()).await;
        self.double.set_protected(false).await;
        self.double.set_pending_checks(true).await;
        self.merge_first("merge before a check", plain()).await;
        self.double.set_pending_checks(false).await;
        self.double.forbid_squash().await;
        self.merge_first("squash where forbidden", json!({"Do": "squash"}))
            .await;
        self.send("close", edit, json!({"state": "closed"})).await;
        self.merge_first("merge a closed one", plain()).await;
        self.send("reopen", edit, json!({"state": "open"})).await;
        self.send("merge none", "POST /pulls/77/merge", plain())
            .await;
    }

    async fn merge(&mut self) {
        self.double.until_mergeable(1).await;
        let edit = "PATCH /pulls/1";
        let tip = self.double.tip().await;
        let wanted = json!({"Do": "merge", "head_commit_id": tip.as_str()});
        self.merge_first("merge", wanted.clone()).await;
        self.merge_first("merge again", wanted).await;
        self.send("close a merged one", edit, json!({"state": "closed"}))
            .await;
        self.send("read a merged one", "GET /pulls/1", Value::Null)
            .await;
        let reviewers = json!({"reviewers": ["ann"]});
        self.send(
            "ask for a review of a merged one",
            "POST /pulls/1/requested_reviewers",
            reviewers,
        )
        .await;
        let status = |state: &str| json!({"context": "x", "state": state});
        let on = |commit: &str| format!("POST /statuses/{commit}");
        self.send("set no state", &on(tip.as_str()), status("odd"))
            .await;
        let unknown = "d".repeat(40);
        self.send("set a state of nothing", &on(&unknown), status("success"))
            .await;
        self.double.delete_branch().await;
        self.send("read one without its branch", "GET /pulls/1", Value::Null)
            .await;
        self.send(
            "list ended ones",
            "GET /pulls?state=closed&limit=50",
            Value::Null,
        )
        .await;
        let history = self.double.commit_history().await;
        let compare = |from: &str, to: &str| format!("GET /compare/{from}...{to}");
        let (first, last) = (history[3].as_str(), history[6].as_str());
        self.send("compare", &compare(first, last), Value::Null)
            .await;
        let unknown = "0".repeat(37) + "3e7";
        self.send(
            "compare with no commit",
            &compare(first, &unknown),
            Value::Null,
        )
        .await;
    }
}

/// Messages end with the numbers of rows in the database.
fn without_ids(value: &Value) -> Value {
    let text = value.as_str().filter(|text| text.ends_with(']'));
    let text = text.and_then(|text| text.split_once(" ["));
    text.map_or_else(|| value.clone(), |(text, _)| json!(text))
}

#[tokio::test]
#[ignore = "needs the Gitea that `cargo xtask kube` builds"]
async fn the_double_answers_like_a_real_gitea() {
    let double = ForgeDouble::start(ForgeProduct::Gitea, gitea::router).await;
    let double = Script::new(double).run().await;
    let real = Script::new(ForgeDouble::start_gitea().await).run().await;
    let differing: Vec<_> = double
        .iter()
        .filter(|(name, answer)| real[*name] != **answer)
        .map(|(name, answer)| (*name, answer.as_str(), real[name].as_str()))
        .collect();
    let expected: Vec<_> = DIFFERENCES
        .iter()
        .map(|(name, double, real, _)| (*name, *double, *real))
        .collect();
    assert_eq!(differing, expected, "sorted by the name of the request");
}
