//! Lifecycles of triggers, without a cluster: each reconcile plans, acts and writes the status.

mod conformance;
mod defects;
mod lifecycle;

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
struct Simulation {
    trigger: PipelineTrigger,
    source: Option<Value>,
    runs: Vec<Value>,
    tekton: Option<TektonVersion>,
    pipeline: PipelineState,
    credential: CredentialState,
    refuses_creation: bool,
    now: Timestamp,
    events: Vec<KubernetesEvent>,
}

impl Simulation {
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
            tekton: Some(TektonVersion::V1),
            pipeline: PipelineState::Found(DeclaredTypes::new()),
            credential: CredentialState::NotNeeded,
            refuses_creation: false,
            now: Timestamp::from_second(1_700_000_000).unwrap(),
            events: Vec::new(),
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

    fn plan(&self) -> TriggerPlan {
        let runs: Vec<ObservedRun> = self
            .runs
            .iter()
            .map(|run| ObservedRun::read(run).unwrap().1)
            .collect();
        plan(&self.observed(&runs))
    }

    fn observed<'a>(&'a self, runs: &'a [ObservedRun]) -> ObservedTrigger<'a> {
        ObservedTrigger {
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

    fn reconcile(&mut self) -> TriggerPlan {
        let (plan, status) = self.reconcile_without_status();
        self.trigger.status = Some(status);
        plan
    }

    /// Crashes before the status is written.
    fn reconcile_and_crash(&mut self) {
        self.reconcile_without_status();
    }

    fn reconcile_without_status(&mut self) -> (TriggerPlan, PipelineTriggerStatus) {
        self.now += SignedDuration::from_secs(1);
        let plan = self.plan();
        let mut failures = CreateFailures::default();
        for action in &plan.actions {
            self.carry_out(action, &mut failures);
        }
        let runs: Vec<ObservedRun> = self
            .runs
            .iter()
            .map(|run| ObservedRun::read(run).unwrap().1)
            .collect();
        let observed = self.observed(&runs);
        let status = status(&observed, &plan, &failures);
        let events = kubernetes_events(&observed, &plan, &failures, &status);
        self.events.extend(events);
        (plan, status)
    }

    fn carry_out(&mut self, action: &RunAction, failures: &mut CreateFailures) {
        match action {
            RunAction::Create { run, .. } if self.refuses_creation => {
                failures
                    .by_run
                    .insert(run.clone(), "quota exceeded".to_owned());
            }
            RunAction::Create { run, object } => {
                if self
                    .runs
                    .iter()
                    .any(|existing| existing["metadata"]["name"] == json!(run))
                {
                    return;
                }
                let mut object = object.clone();
                object["metadata"]["creationTimestamp"] = json!(self.now.to_string());
                object["metadata"]["uid"] = json!(format!("uid-{run}"));
                self.runs.push(object);
            }
            RunAction::Delete { run, .. } => {
                self.runs
                    .retain(|existing| existing["metadata"]["name"] != json!(run));
            }
            RunAction::Cancel { run } => self.finish(run, "False", "Cancelled"),
        }
    }

    /// Reconciles until nothing is left to do.
    fn settle(&mut self) -> &mut Self {
        for _ in 0..5 {
            self.reconcile();
        }
        self
    }

    fn finish(&mut self, run: &str, status: &str, reason: &str) {
        let now = self.now.to_string();
        let run = self
            .runs
            .iter_mut()
            .find(|existing| existing["metadata"]["name"] == json!(run));
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
