//! Whole lives of triggers, without a cluster: each look plans, carries out and writes the status.

mod conformance;
mod defects;
mod lives;

use api::{
    PipelineTrigger,
    conditions::{READY, find},
    trigger::PipelineTriggerStatus,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;

const COMMIT: &str = "dc0fd09d0915f47cbda5f235a8a9c30b2d8baa69";

/// A trigger, its source and its runs.
struct World {
    trigger: PipelineTrigger,
    source: Option<Value>,
    runs: Vec<Value>,
    tekton: Option<Version>,
    pipeline: PipelineState,
    credential: CredentialState,
    refuses_creation: bool,
    now: Timestamp,
    said: Vec<Announcement>,
}

impl World {
    fn new(spec: Value) -> Self {
        let trigger = serde_json::from_value(json!({
            "apiVersion": "pipeline.jquad.rocks/v1alpha1", "kind": "PipelineTrigger",
            "metadata": { "name": "shop", "namespace": "ns", "uid": "u1", "generation": 1 },
            "spec": spec
        }));
        Self {
            trigger: trigger.unwrap(),
            source: None,
            runs: Vec::new(),
            tekton: Some(Version::V1),
            pipeline: PipelineState::Found(DeclaredTypes::new()),
            credential: CredentialState::NotNeeded,
            refuses_creation: false,
            now: Timestamp::from_second(1_700_000_000).unwrap(),
            said: Vec::new(),
        }
    }

    /// A trigger for a GitRepository, in the last notation.
    fn git() -> Self {
        Self::new(json!({
            "source": { "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "name": "shop" },
            "pipelineRun": { "apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "spec": {
                "pipelineRef": { "name": "build" },
                "params": [{ "name": "commit", "value": "$.commitId" }] } }
        }))
    }

    /// A trigger in the first notation.
    fn early(pipeline: Value) -> Self {
        let mut fields = json!({
            "name": "build", "serviceAccountName": "bot",
            "workspace": { "name": "work", "size": "1Gi", "accessMode": "ReadWriteOnce" },
            "inputParams": [{ "name": "branch-name", "value": "$(branch)" }, { "name": "commit-id", "value": "$(commit)" }]
        });
        for (name, value) in pipeline.as_object().unwrap() {
            fields[name] = value.clone();
        }
        Self::new(
            json!({ "source": { "kind": "GitRepository", "name": "shop" }, "pipeline": fields }),
        )
    }

    fn pull_requests() -> Self {
        Self::new(json!({
            "source": { "apiVersion": "pipeline.jquad.rocks/v1alpha1", "kind": "PullRequest", "name": "prs" },
            "pipelineRun": { "spec": { "pipelineSpec": {}, "params": [{ "name": "id", "value": "$.id" }] } }
        }))
    }

    fn at(mut self, revision: &str) -> Self {
        self.push(revision);
        self
    }

    fn push(&mut self, revision: &str) {
        self.source = Some(json!({ "status": { "artifact": {
            "revision": revision, "path": "gitrepository/flux-system/shop/x.tar.gz",
        } } }));
    }

    /// Branches as `name@commit`, each with details `{"id": "name"}`.
    fn open(&mut self, branches: &[&str]) {
        let list: Vec<_> = branches
            .iter()
            .map(|branch| {
                let (name, commit) = branch.rsplit_once('@').unwrap();
                json!({ "name": name, "commit": commit, "details": json!({ "id": name }).to_string() })
            })
            .collect();
        self.source = Some(json!({ "status": { "sourceBranches": { "branches": list } } }));
    }

    fn plan(&self) -> Plan {
        let runs: Vec<Run> = self
            .runs
            .iter()
            .map(|run| Run::read(run).unwrap().1)
            .collect();
        plan(&self.seen(&runs))
    }

    fn seen<'a>(&'a self, runs: &'a [Run]) -> Seen<'a> {
        Seen {
            trigger: &self.trigger,
            source: match &self.source {
                Some(object) => SourceState::Found(object),
                None => SourceState::Missing,
            },
            tekton: self.tekton,
            pipeline: self.pipeline.clone(),
            credential: self.credential.clone(),
            runs,
            now: self.now,
        }
    }

    /// One look. `forgets` is a crash before the status is written.
    fn look_and(&mut self, forgets: bool) -> Plan {
        self.now += SignedDuration::from_secs(1);
        let plan = self.plan();
        let mut outcome = Outcome::default();
        for step in &plan.steps {
            self.carry_out(step, &mut outcome);
        }
        let runs: Vec<Run> = self
            .runs
            .iter()
            .map(|run| Run::read(run).unwrap().1)
            .collect();
        let seen = self.seen(&runs);
        let status = status(&seen, &plan, &outcome);
        let said = announcements(&seen, &plan, &outcome, &status);
        self.said.extend(said);
        if !forgets {
            self.trigger.status = Some(status);
        }
        plan
    }

    fn carry_out(&mut self, step: &Step, outcome: &mut Outcome) {
        match step {
            Step::Start { run, .. } if self.refuses_creation => {
                outcome
                    .failures
                    .insert(run.clone(), "quota exceeded".to_owned());
            }
            Step::Start { run, object } => {
                if self
                    .runs
                    .iter()
                    .any(|known| known["metadata"]["name"] == json!(run))
                {
                    return;
                }
                let mut object = object.clone();
                object["metadata"]["creationTimestamp"] = json!(self.now.to_string());
                object["metadata"]["uid"] = json!(format!("uid-{run}"));
                self.runs.push(object);
            }
            Step::Remove { run, .. } => {
                self.runs
                    .retain(|known| known["metadata"]["name"] != json!(run));
            }
            Step::Cancel { run } => self.finish(run, "False", "Cancelled"),
        }
    }

    fn look(&mut self) -> Plan {
        self.look_and(false)
    }

    /// Looks until nothing is left to do.
    fn settle(&mut self) -> &mut Self {
        for _ in 0..5 {
            self.look();
        }
        self
    }

    fn finish(&mut self, run: &str, status: &str, reason: &str) {
        let now = self.now.to_string();
        let run = self
            .runs
            .iter_mut()
            .find(|known| known["metadata"]["name"] == json!(run));
        run.unwrap()["status"] = json!({
            "conditions": [{ "type": "Succeeded", "status": status, "reason": reason, "message": "so it goes" }],
            "completionTime": if status == "Unknown" { Value::Null } else { json!(now) },
        });
    }

    fn finish_last(&mut self, status: &str, reason: &str) {
        let name = self.names().last().unwrap().clone();
        self.finish(&name, status, reason);
    }

    fn names(&self) -> Vec<String> {
        let names = self.runs.iter().map(|run| run["metadata"]["name"].as_str());
        names.map(|name| name.unwrap().to_owned()).collect()
    }

    fn status(&self) -> PipelineTriggerStatus {
        self.trigger.status.clone().unwrap_or_default()
    }

    fn ready(&self) -> String {
        let status = self.status();
        let ready = find(&status.conditions, READY).expect("Ready is always there");
        format!("{} {}: {}", ready.status, ready.reason, ready.message)
    }

    /// The conditions of the git block as `type/status/reason message`.
    fn git_conditions(&self) -> Vec<String> {
        shown(&self.status().git_repository.unwrap_or_default().conditions)
    }
}

fn shown(conditions: &[api::Condition]) -> Vec<String> {
    conditions
        .iter()
        .map(|c| format!("{}/{}/{} {}", c.type_, c.status, c.reason, c.message))
        .collect()
}
