//! Creates Changes, which the controller proposes in git, and waits until they are merged.

use std::{io::Write, pin::pin, time::Duration};

use anyhow::bail;
use api::{
    Change, Pipeline,
    change::{ChangePhase, ChangeSpec},
    names::{change_name, slug},
};
use futures::StreamExt;
use kube::{
    ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
    runtime::{WatchStreamExt, watcher},
};
use tokio::time::{Instant, timeout_at};

use super::super::{
    WaitTimeout,
    cluster::{Cluster, FIELD_MANAGER, key},
    cluster_error::cluster_error,
    message::print_message,
    terminal::clean,
    yaml,
};
use super::{Arguments, copy::NewManifest};

/// How often the Changes are read without a watch event.
const POLL_INTERVAL: Duration = Duration::from_secs(15);

/// Creates a Change for each file, and waits for them with `--wait`.
pub(super) async fn propose(
    arguments: &Arguments,
    pipeline: &Pipeline,
    manifests: &[NewManifest],
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if arguments.dry_run {
        let changes = manifests.iter().map(|it| change(pipeline, it));
        return changes.into_iter().try_for_each(|it| yaml::write(out, &it));
    }
    let cluster = arguments.connection.connect().await?;
    let by = cluster.caller().await.ok();
    let mut stored = Vec::new();
    for manifest in manifests {
        let mut change = change(pipeline, manifest);
        change.spec.by.clone_from(&by);
        store(&cluster, &change).await?;
        let (path, name) = (clean(&change.spec.path), change.name_any());
        writeln!(out, "created change {name} for {path}")?;
        stored.push(name);
    }
    out.flush()?;
    let (namespace, _) = key(pipeline);
    if arguments.wait {
        return wait(arguments, &cluster, namespace, &stored).await;
    }
    if !stored.is_empty() {
        print_message(&format!(
            "the controller opens a pull request for each change; list them with `sluice get changes -n \
             {namespace} -o wide`, or use --wait"
        ));
    }
    Ok(())
}

fn change(pipeline: &Pipeline, manifest: &NewManifest) -> Change {
    let (namespace, name) = key(pipeline);
    let environment = &manifest.environment;
    let readable = slug(&format!("{name}-{environment}"), 45, "change");
    let (path, content) = (manifest.path.clone(), manifest.content.clone());
    let spec = ChangeSpec {
        title: format!("Add {name} to {environment}"),
        by: None,
        path,
        content,
    };
    let name = change_name(&readable, &spec.path, &spec.content);
    let mut change = Change::new(&name, spec);
    change.metadata.namespace = Some(namespace.to_owned());
    change
}

/// Creates the change. An identical change that is in progress is kept, a finished one is replaced.
async fn store(cluster: &Cluster, change: &Change) -> anyhow::Result<()> {
    let changes = cluster.api::<Change>(&change.namespace().unwrap_or_default());
    let parameters = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let name = change.name_any();
    for is_last in [false, true] {
        match changes.create(&parameters, change).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() && !is_last => {}
            created => {
                let created = created.map(drop);
                return created
                    .map_err(|error| cluster_error(&format!("create change {name}"), error));
            }
        }
        let existing = changes.get_opt(&name).await;
        let existing =
            existing.map_err(|error| cluster_error(&format!("read change {name}"), error))?;
        let phase = |it: &Change| it.status.as_ref().and_then(|status| status.phase);
        let Some(finished) = existing.filter(|it| phase(it).is_some_and(ChangePhase::is_over))
        else {
            return Ok(());
        };
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: finished.uid(),
                resource_version: finished.resource_version(),
            }),
            ..DeleteParams::default()
        };
        let deleted = changes.delete(&name, &parameters).await;
        deleted.map_err(|error| {
            cluster_error(&format!("replace the finished change {name}"), error)
        })?;
    }
    Ok(())
}

/// Waits until all changes are merged, and prints their progress.
async fn wait(
    arguments: &Arguments,
    cluster: &Cluster,
    namespace: &str,
    names: &[String],
) -> anyhow::Result<()> {
    let changes = cluster.api::<Change>(namespace);
    let events = watcher(changes.clone(), watcher::Config::default()).default_backoff();
    let mut events = pin!(events);
    let deadline = Instant::now() + Duration::from(&arguments.timeout);
    let mut printed = vec![String::new(); names.len()];
    loop {
        let mut left = 0;
        for (name, printed) in names.iter().zip(&mut printed) {
            let change = changes.get_opt(name).await;
            let change =
                change.map_err(|error| cluster_error(&format!("read change {name}"), error))?;
            let Some(change) = change else {
                bail!("change {name} was deleted");
            };
            let (phase, text) = describe(&change);
            match phase {
                Some(ChangePhase::Merged) => {}
                Some(phase) if phase.is_over() => bail!("{text}"),
                _ => left += 1,
            }
            if *printed != text {
                print_message(&text);
                *printed = text;
            }
        }
        if left == 0 {
            return Ok(());
        }
        let until = deadline.min(Instant::now() + POLL_INTERVAL);
        if timeout_at(until, events.next()).await.is_err() && Instant::now() >= deadline {
            let waits = printed.into_iter().find(|it| !it.contains(" Merged"));
            return Err(WaitTimeout(waits.unwrap_or_default()).into());
        }
    }
}

fn describe(change: &Change) -> (Option<ChangePhase>, String) {
    let status = change.status.clone().unwrap_or_default();
    let phase = status.phase.unwrap_or(ChangePhase::Pending);
    let url = status.url.map(|url| format!(" {url}")).unwrap_or_default();
    let message = status
        .message
        .unwrap_or("the controller has not processed it yet".to_owned());
    let path = &change.spec.path;
    let text = format!("{path}: {phase:?}: {message}{url}");
    (status.phase, clean(&text))
}
