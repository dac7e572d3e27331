//! The few fields Sluice reads of Deployments, StatefulSets and DaemonSets.
//!
//! A workload is rolled out when every pod it should have runs its newest
//! template; a StatefulSet that keeps some pods back is not.

use crate::{
    image::Image,
    third_party::{Object, StatusCondition, lenient_structs},
};

/// API group of the workloads.
pub const GROUP: &str = "apps";

/// A Deployment, StatefulSet or DaemonSet.
pub type Workload = Object<WorkloadSpec, WorkloadStatus>;

/// The kinds of workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    /// A Deployment.
    Deployment,
    /// A StatefulSet.
    StatefulSet,
    /// A DaemonSet.
    DaemonSet,
}

lenient_structs! {
    /// What a workload asks for.
    pub struct WorkloadSpec {
        /// How many pods; one if absent.
        replicas: Option<i64>,
        /// Changes are not rolled out.
        paused: bool,
        /// What each pod is made from.
        template: PodTemplate,
    }

    /// What each pod is made from.
    pub struct PodTemplate {
        /// Its fields.
        spec: PodSpec,
    }

    /// What runs in each pod.
    pub struct PodSpec {
        /// Containers that run before the others.
        init_containers: Vec<Container>,
        /// Containers.
        containers: Vec<Container>,
    }

    /// A container.
    pub struct Container {
        /// Its name.
        name: String,
        /// Its image.
        image: Option<String>,
    }

    /// What became of a workload.
    pub struct WorkloadStatus {
        /// The generation last dealt with.
        observed_generation: Option<i64>,
        /// Conditions.
        conditions: Vec<StatusCondition>,
        /// Pods there are.
        replicas: i64,
        /// Pods made from the newest template.
        updated_replicas: i64,
        /// Pods that are ready.
        ready_replicas: i64,
        /// Pods that have been ready for long enough.
        available_replicas: i64,
        /// Pods a DaemonSet should have.
        desired_number_scheduled: i64,
        /// Pods of a DaemonSet made from the newest template.
        updated_number_scheduled: i64,
        /// Pods of a DaemonSet that have been ready for long enough.
        number_available: i64,
    }
}

impl Workload {
    /// The images of all containers, in order, those of init containers last.
    pub fn images(&self) -> Vec<Image> {
        let pod = &self.spec.template.spec;
        let containers = pod.containers.iter().chain(&pod.init_containers);
        containers
            .filter_map(|container| Image::parse(container.image.as_deref()?))
            .collect()
    }

    /// What the rollout waits for; nothing when it is done.
    pub fn waits_for(&self, kind: WorkloadKind) -> Option<String> {
        match kind {
            WorkloadKind::Deployment => self.deployment_waits_for(),
            WorkloadKind::StatefulSet => self.stateful_set_waits_for(),
            WorkloadKind::DaemonSet => self.daemon_set_waits_for(),
        }
    }

    /// Whether the controller gave up on the rollout, and what it says about that.
    pub fn failure(&self) -> Option<&StatusCondition> {
        self.status.conditions.iter().find(|condition| {
            condition.type_ == "Progressing"
                && condition.status == "False"
                && condition.reason.as_deref() == Some("ProgressDeadlineExceeded")
        })
    }

    fn wanted(&self) -> i64 {
        self.spec.replicas.unwrap_or(1)
    }

    fn deployment_waits_for(&self) -> Option<String> {
        let (wanted, status) = (self.wanted(), &self.status);
        let old = status.replicas - status.updated_replicas;
        if status.updated_replicas < wanted {
            return Some(format!(
                "{} of {wanted} replicas updated",
                status.updated_replicas
            ));
        }
        if old > 0 {
            return Some(format!("{old} old replicas still running"));
        }
        let missing = status.available_replicas < status.updated_replicas;
        missing.then(|| {
            format!(
                "{} of {wanted} replicas available",
                status.available_replicas
            )
        })
    }

    fn stateful_set_waits_for(&self) -> Option<String> {
        let (wanted, status) = (self.wanted(), &self.status);
        if status.updated_replicas < wanted {
            return Some(format!(
                "{} of {wanted} replicas updated",
                status.updated_replicas
            ));
        }
        let missing = status.ready_replicas < wanted;
        missing.then(|| format!("{} of {wanted} replicas ready", status.ready_replicas))
    }

    fn daemon_set_waits_for(&self) -> Option<String> {
        let (status, wanted) = (&self.status, self.status.desired_number_scheduled);
        if status.updated_number_scheduled < wanted {
            return Some(format!(
                "{} of {wanted} pods updated",
                status.updated_number_scheduled
            ));
        }
        let missing = status.number_available < wanted;
        missing.then(|| format!("{} of {wanted} pods available", status.number_available))
    }
}
