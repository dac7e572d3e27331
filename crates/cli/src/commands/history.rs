//! `sluice history`: lists the promotions of a pipeline, newest first, and what each environment ran.

use std::io::Write;

use api::{
    Pipeline, Promotion, Time,
    pipeline::{EnvironmentStatus, FailedRelease},
};
use jiff::Timestamp;

use super::{
    cluster::{ClusterFlags, require_environment},
    format::{age, duration},
    get,
    table::{self, TableCell},
    terminal::clean,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pipeline, as NAME or NAMESPACE/NAME
    pipeline: String,
    /// Only this environment
    environment: Option<String>,
    #[command(flatten)]
    connection: ClusterFlags,
}

const HEADER: [&str; 8] = [
    "AGE",
    "ENVIRONMENT",
    "REVISION",
    "INSTEAD OF",
    "PHASE",
    "TOOK",
    "BY",
    "URL",
];

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let pipeline = cluster.pipeline(&arguments.pipeline).await?;
    let only = arguments.environment.as_deref();
    if let Some(only) = only {
        require_environment(&pipeline, only)?;
    }
    let mut promotions = cluster.promotions(&pipeline).await?;
    promotions.retain(|promotion| only.is_none_or(|only| only == promotion.spec.environment));
    promotions.reverse();
    let now = Timestamp::now();
    let rows: Vec<_> = promotions
        .iter()
        .map(|promotion| row(promotion, now))
        .collect();
    // Never truncated, so that URLs stay usable.
    match rows.is_empty() {
        true => anstream::eprintln!("no promotions yet"),
        false => table::write(out, &HEADER, &rows, None)?,
    }
    for (name, status) in in_pipeline_order(&pipeline) {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        for line in environment_lines(name, status, now) {
            writeln!(out, "{}", clean(&line))?;
        }
    }
    Ok(())
}

/// The statuses of environments in the order of the spec, then those of removed environments.
fn in_pipeline_order(pipeline: &Pipeline) -> Vec<(&str, &EnvironmentStatus)> {
    let position = |name: &str| {
        let mut environments = pipeline.spec.environments.iter();
        environments.position(|it| it.name == name)
    };
    let status = pipeline.status.iter();
    let statuses = status.flat_map(|status| &status.environments);
    let mut ordered: Vec<_> = statuses
        .map(|(name, status)| (name.as_str(), status))
        .collect();
    ordered.sort_by_key(|(name, _)| position(name).unwrap_or(usize::MAX));
    ordered
}

/// What an environment ran, rejected and failed to deploy.
fn environment_lines(name: &str, status: &EnvironmentStatus, now: Timestamp) -> Vec<String> {
    let lists = [("ran", &status.ran), ("rejected", &status.rejected)];
    let lists = lists.iter().filter(|(_, revisions)| !revisions.is_empty());
    let lists = lists.map(|(verb, revisions)| format!("{name} {verb} {}", revisions.join(", ")));
    let failures = status.failures.iter();
    let failures = failures.map(|failure| failed(name, failure, now));
    lists.chain(failures).collect()
}

fn row(promotion: &Promotion, now: Timestamp) -> Vec<TableCell> {
    let status = promotion.status.clone().unwrap_or_default();
    let metadata = &promotion.metadata;
    let spec = &promotion.spec;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    vec![
        TableCell::from(age(metadata.creation_timestamp.as_ref(), now)),
        TableCell::from(planner::site_of(spec, namespace).key()),
        TableCell::from(&spec.shown_revision()),
        TableCell::from(spec.replaces.as_deref().unwrap_or_default()),
        get::phase(status.phase),
        TableCell::from(took(
            metadata.creation_timestamp.as_ref(),
            status.finished_at.as_ref(),
        )),
        TableCell::from(get::people(promotion)),
        TableCell::from(status.url.as_deref().unwrap_or_default()),
    ]
}

/// `dev failed 1.2.0 3h ago in c1/web: the app's message`
fn failed(environment: &str, failure: &FailedRelease, now: Timestamp) -> String {
    let (revision, target) = (&failure.revision, &failure.target);
    let age = age(failure.at.as_ref(), now);
    let message = failure.message.as_deref();
    let because = message.map(|text| format!(": {text}")).unwrap_or_default();
    format!("{environment} failed {revision} {age} ago in {target}{because}")
}

fn took(from: Option<&Time>, to: Option<&Time>) -> String {
    let both = from.zip(to);
    let took = both.map(|(from, to)| duration(to.0.as_second() - from.0.as_second()));
    took.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments_are_listed_in_pipeline_order() {
        let pipeline: Pipeline = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "web"},
            "spec": {"environments": [
                {"name": "test", "targets": []}, {"name": "prod", "targets": []},
            ]},
            "status": {"environments": {
                "old": {"targets": [], "ran": ["1"]},
                "prod": {"targets": [], "ran": ["1"], "rejected": ["2"]},
                "test": {"targets": [], "ran": ["2", "1"]},
            }},
        }))
        .unwrap();
        let ordered = in_pipeline_order(&pipeline).into_iter();
        let lines = ordered
            .flat_map(|(name, status)| environment_lines(name, status, Timestamp::UNIX_EPOCH));
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [
                "test ran 2, 1",
                "prod ran 1",
                "prod rejected 2",
                "old ran 1"
            ]
        );
    }
}
