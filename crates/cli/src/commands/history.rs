//! `sluice history`: lists the promotions of a pipeline, newest first, and what each environment ran.

use std::{collections::BTreeMap, io::Write};

use api::{
    Pipeline, Promotion, Time,
    pipeline::{EnvironmentStatus, FailedRelease, StoredOverride},
};
use jiff::Timestamp;

use serde_json::{Value, json};

use super::{
    cluster::{Cluster, ClusterFlags, require_environment},
    format::{age, duration},
    get,
    message::print_message,
    output::OutputFormat,
    table::{TableCell, TableWriter},
    terminal::{self, clean, shown},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pipeline, as NAME or NAMESPACE/NAME [default: all of the namespace]
    pipeline: Option<String>,
    /// Only this environment
    environment: Option<String>,
    /// All namespaces
    #[arg(long, short = 'A', conflicts_with_all = ["pipeline", "namespace"])]
    all_namespaces: bool,
    /// Print no header
    #[arg(long)]
    no_headers: bool,
    /// Output format
    #[arg(long, short, value_enum, default_value = "text")]
    output: OutputFormat,
    #[command(flatten)]
    connection: ClusterFlags,
}

const HEADER: [&str; 9] = [
    "PIPELINE",
    "AGE",
    "ENVIRONMENT",
    "PHASE",
    "REVISION",
    "INSTEAD OF",
    "TOOK",
    "BY",
    "URL",
];
/// The first columns that terminals have no room for, from wide to narrow ones.
const URL: usize = 8;
const TOOK: usize = 6;
const INSTEAD_OF: usize = 5;

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let only = arguments.environment.as_deref();
    let (pipeline, mut promotions) = find(arguments, &cluster).await?;
    if let (Some(only), Some(pipeline)) = (only, &pipeline) {
        require_environment(pipeline, only)?;
    }
    promotions.retain(|promotion| only.is_none_or(|only| only == promotion.spec.environment));
    promotions.reverse();
    let statuses = pipeline.iter().flat_map(in_pipeline_order);
    let statuses: Vec<_> = statuses
        .filter(|(name, _)| only.is_none_or(|only| only == *name))
        .collect();
    let document = || document(&promotions, &statuses);
    let versions = KnownVersions::of(&promotions, pipeline.as_ref());
    arguments.output.write(out, document, |out| {
        let now = Timestamp::now();
        write_rows(arguments, &promotions, (&versions, now), out)?;
        let lines = statuses
            .iter()
            .flat_map(|(name, status)| environment_lines(name, status, (&versions, now)));
        for line in lines {
            writeln!(out, "{}", clean(&line))?;
        }
        Ok(())
    })
}

/// The named pipeline and its promotions, or all promotions.
async fn find(
    arguments: &Arguments,
    cluster: &Cluster,
) -> anyhow::Result<(Option<Pipeline>, Vec<Promotion>)> {
    let Some(name) = &arguments.pipeline else {
        let promotions = cluster.all_promotions(arguments.all_namespaces).await?;
        return Ok((None, promotions));
    };
    let pipeline = cluster.pipeline(name).await?;
    let promotions = cluster.promotions(&pipeline).await?;
    Ok((Some(pipeline), promotions))
}

/// Writes the table of promotions. In a terminal each URL is on a line of its own, so that it stays usable;
/// if the terminal is narrow, with how long it took, who asked for and approved it, and what it replaced.
fn write_rows(
    arguments: &Arguments,
    promotions: &[Promotion],
    (versions, now): (&KnownVersions, Timestamp),
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if promotions.is_empty() {
        print_message("no promotions yet");
        return Ok(());
    }
    let width = terminal::width();
    let first = usize::from(arguments.pipeline.is_some());
    let rows = promotions.iter();
    let rows = rows.map(|promotion| row((promotion, promotions), versions, now));
    let rows: Vec<Vec<TableCell>> = rows.collect();
    let until = |end: usize| {
        let rows = rows.iter().map(|row| row[first..end].to_vec());
        (&HEADER[first..end], rows.collect::<Vec<_>>())
    };
    let mut table = TableWriter::new(width, !arguments.no_headers);
    if width.is_none() {
        let (header, rows) = until(HEADER.len());
        return Ok(table.write(out, header, &rows)?);
    }
    let fits = |end: &usize| {
        let (header, rows) = until(*end);
        table.fits(header, &rows)
    };
    let end = [URL, TOOK].into_iter().find(fits).unwrap_or(INSTEAD_OF);
    let (header, rows) = until(end);
    table.measure(header, &rows);
    for (promotion, row) in promotions.iter().zip(rows) {
        table.write(out, header, &[row])?;
        let below = below((promotion, promotions), versions, end);
        if !below.is_empty() {
            writeln!(out, "    {}", shown(&below))?;
        }
    }
    Ok(())
}

/// What is written below a row that ends before a column: the URL and what those columns would say.
fn below(
    (promotion, promotions): (&Promotion, &[Promotion]),
    versions: &KnownVersions,
    end: usize,
) -> String {
    let status = promotion.status.clone().unwrap_or_default();
    let created = promotion.metadata.creation_timestamp.as_ref();
    let took = took(created, status.finished_at.as_ref());
    let by = decided(promotion, promotions);
    let mut parts = Vec::new();
    let replaces = promotion.spec.replaces.as_deref();
    if let Some(replaced) = replaces.filter(|_| end <= INSTEAD_OF) {
        parts.push(format!("instead of {}", versions.shown(replaced)));
    }
    if end <= TOOK && !took.is_empty() {
        parts.push(format!("took {took}"));
    }
    if end <= TOOK && !by.is_empty() {
        parts.push(by);
    }
    parts.extend(status.url);
    parts.join("  ")
}

/// The versions of digests, which people read instead.
struct KnownVersions(BTreeMap<String, String>);

impl KnownVersions {
    fn of(promotions: &[Promotion], pipeline: Option<&Pipeline>) -> Self {
        let promoted = promotions.iter().map(|it| &it.spec);
        let promoted = promoted.map(|it| (it.revision.clone(), it.version.clone()));
        let status = pipeline.and_then(|it| it.status.as_ref());
        let ran = status.into_iter().flat_map(|it| it.environments.values());
        let ran = ran.flat_map(|it| &it.ran);
        let ran = ran.filter_map(|it| Some((it.revision.clone(), it.version.clone()?)));
        Self(promoted.chain(ran).collect())
    }

    /// `6.2.0@sha256:D`, or the revision itself.
    fn shown(&self, revision: &str) -> String {
        let version = self.0.get(revision).map(String::as_str);
        api::revision::shown(revision, version)
    }
}

fn document(promotions: &[Promotion], statuses: &[(&str, &EnvironmentStatus)]) -> Value {
    let promotions = promotions.iter().map(|promotion| {
        let ended = planner::ended_because(promotion, promotions);
        let (metadata, spec) = (&promotion.metadata, &promotion.spec);
        let status = promotion.status.clone().unwrap_or_default();
        json!({
            "namespace": metadata.namespace,
            "name": metadata.name,
            "pipeline": spec.pipeline,
            "environment": spec.environment,
            "target": spec.target,
            "revision": spec.revision,
            "version": spec.version,
            "replaces": spec.replaces,
            "phase": status.phase,
            "message": status.message,
            "by": get::people(promotion),
            "endedBecause": ended,
            "url": status.url,
            "createdAt": metadata.creation_timestamp,
            "finishedAt": status.finished_at,
        })
    });
    let environments = statuses.iter().map(|(name, status)| {
        json!({
            "name": name,
            "ran": status.ran,
            "rejected": status.rejected,
            "failures": status.failures,
        })
    });
    json!({
        "promotions": promotions.collect::<Vec<_>>(),
        "environments": environments.collect::<Vec<_>>(),
    })
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

/// What an environment ran, rejected and failed to deploy, and who overrode its gates.
fn environment_lines(
    name: &str,
    status: &EnvironmentStatus,
    (versions, now): (&KnownVersions, Timestamp),
) -> Vec<String> {
    let ran = status.ran_revisions().map(|it| versions.shown(it));
    let ran = ran.collect::<Vec<_>>();
    let rejected = status.rejected.iter().map(|it| versions.shown(it));
    let rejected = rejected.collect();
    let lists = [("ran", ran), ("rejected", rejected)];
    let lists = lists.iter().filter(|(_, revisions)| !revisions.is_empty());
    let lists = lists.map(|(verb, revisions)| format!("{name} {verb} {}", revisions.join(", ")));
    let failures = status.failures.iter();
    let failures = failures.map(|failure| failed(name, failure, (versions, now)));
    let overrides = status.overrides.iter();
    let overrides = overrides.map(|it| overridden(name, it, now));
    lists.chain(failures).chain(overrides).collect()
}

fn overridden(environment: &str, it: &StoredOverride, now: Timestamp) -> String {
    let by = it.by.as_deref().unwrap_or("somebody");
    let (passes, age) = (it.passes.join(", "), age(it.at.as_ref(), now));
    let (promotion, reason) = (&it.promotion, &it.reason);
    format!("{environment}: {by} overrode {passes} for {promotion} {age} ago: {reason}")
}

/// Who requested, approved and rejected it, or why it ended without an outcome.
fn decided(promotion: &Promotion, promotions: &[Promotion]) -> String {
    let people = get::people(promotion);
    let ended = planner::ended_because(promotion, promotions);
    let parts = [Some(people).filter(|it| !it.is_empty()), ended];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn row(
    (promotion, promotions): (&Promotion, &[Promotion]),
    versions: &KnownVersions,
    now: Timestamp,
) -> Vec<TableCell> {
    let status = promotion.status.clone().unwrap_or_default();
    let metadata = &promotion.metadata;
    let spec = &promotion.spec;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    vec![
        TableCell::from(&spec.pipeline),
        TableCell::from(age(metadata.creation_timestamp.as_ref(), now)),
        TableCell::from(planner::site_of(spec, namespace).key()),
        get::phase(status.phase),
        TableCell::from(&spec.shown_revision()),
        TableCell::from(versions.shown(spec.replaces.as_deref().unwrap_or_default())),
        TableCell::from(took(
            metadata.creation_timestamp.as_ref(),
            status.finished_at.as_ref(),
        )),
        TableCell::from(decided(promotion, promotions)),
        TableCell::from(status.url.as_deref().unwrap_or_default()),
    ]
}

/// `dev failed 1.2.0 3h ago in c1/web: the app's message`
fn failed(
    environment: &str,
    failure: &FailedRelease,
    (versions, now): (&KnownVersions, Timestamp),
) -> String {
    let (revision, target) = (versions.shown(&failure.revision), &failure.target);
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
                "old": {"targets": [], "ran": [{"revision": "sha256:ab", "version": "1"}]},
                "prod": {"targets": [], "ran": ["1"], "rejected": ["2", "sha256:ab"]},
                "test": {"targets": [], "ran": ["2", "1"]},
            }},
        }))
        .unwrap();
        let ordered = in_pipeline_order(&pipeline).into_iter();
        let versions = KnownVersions::of(&[], Some(&pipeline));
        let known = (&versions, Timestamp::UNIX_EPOCH);
        let lines = ordered.flat_map(|(name, status)| environment_lines(name, status, known));
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [
                "test ran 2, 1",
                "prod ran 1",
                "prod rejected 2, 1@sha256:ab",
                "old ran 1@sha256:ab"
            ]
        );
    }
}
