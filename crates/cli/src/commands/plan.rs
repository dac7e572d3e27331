//! `sluice plan`: prints the exact change that a promotion would make in a git checkout.

use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow, bail};
use api::{
    Pipeline, Promotion,
    names::PromotionSite,
    pipeline::{Environment, PromotionSettings},
};
use git::{edit::EditedFile, propose};
use similar::{ChangeTag, TextDiff};

use super::{
    checkout::ManifestCheckout,
    cluster::{ClusterFlags, key, require_environment},
    format::{closest_name, count},
    message::print_message,
    promote::RevisionArgument,
    terminal::{self, BOLD, GREEN, PLAIN, RED, clean, paint},
    yaml,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// File with the manifest of the pipeline, or its name on the cluster
    pipeline: String,
    /// Checkout of the repository that promotions change
    #[arg(long, value_name = "FOLDER")]
    checkout: PathBuf,
    /// Environment that gets the revision
    environment: String,
    #[command(flatten)]
    revision: RevisionArgument,
    #[command(flatten)]
    connection: ClusterFlags,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let revision = arguments.revision.required()?;
    let (pipeline, promotions) = find(&arguments.pipeline, &arguments.connection).await?;
    let environment = arguments.environment.as_str();
    require_environment(&pipeline, environment)?;
    let settings = pipeline.spec.promotion_into(environment);
    if !settings.is_some_and(writes_git) {
        bail!(
            "promotions into {environment} do not change git: its strategy is neither pull-request nor commit"
        );
    }
    let checkout = ManifestCheckout::read(&arguments.checkout)?;
    let version = planner::version_for(&pipeline, &promotions, revision);
    let promoted = (revision, version.as_str());
    let (mut files, mut values) = (0, 0);
    for site in planner::sites(&pipeline, environment) {
        for (path, edited) in preview(&pipeline, &site, promoted, &checkout)? {
            (files, values) = (files + 1, values + edited.changed);
            write_difference(&path, &checkout.files[&path], &edited.content, out)?;
        }
    }
    match values {
        0 => print_message(&format!(
            "nothing to change: the checkout already has {version}"
        )),
        _ => {
            let (values, files) = (count(values, "value"), count(files, "file"));
            print_message(&format!("{values} to change in {files}: {version}"));
        }
    }
    Ok(())
}

/// The files that the controller would change to promote a revision, which is written as the given
/// version.
pub(super) fn preview(
    pipeline: &Pipeline,
    site: &PromotionSite,
    promoted: (&str, &str),
    checkout: &ManifestCheckout,
) -> anyhow::Result<BTreeMap<String, EditedFile>> {
    let Some(proposal) = controller::preview_proposal(pipeline, site, promoted) else {
        return Ok(BTreeMap::new());
    };
    let (url, proposal) = proposal.map_err(|failure| anyhow!(failure.message))?;
    let edited = propose::preview(&checkout.files, &url, &proposal);
    edited.map_err(|error| match &error {
        propose::Error::NoMarker {
            marker, outside, ..
        } if outside.is_empty() => {
            let markers = checkout.markers();
            // Markers of other pipelines are right where they are.
            let (namespace, name) = key(pipeline);
            let own = format!("{namespace}:{name}:");
            let own = markers.files.keys().filter(|it| it.starts_with(&own));
            let close = closest_name(marker, own.map(String::as_str));
            let hint = close.map(|close| format!("; the checkout has {close}, did you mean that?"));
            let (hint, comment) = (hint.unwrap_or_default(), comment(marker));
            anyhow!("{error}; add {comment} after the version{hint}")
        }
        _ => error.into(),
    })
}

/// Whether the argument is a file and not the name of a pipeline.
pub(super) fn is_file(pipeline: &str) -> bool {
    pipeline == "-"
        || Path::new(pipeline).is_file()
        || [".yaml", ".yml"].iter().any(|it| pipeline.ends_with(it))
}

/// Reads the pipeline from a file, or with its promotions from the cluster.
pub(super) async fn find(
    pipeline: &str,
    connection: &ClusterFlags,
) -> anyhow::Result<(Pipeline, Vec<Promotion>)> {
    let file = Path::new(pipeline);
    if !is_file(pipeline) {
        let cluster = connection.connect().await?;
        let pipeline = cluster.pipeline(pipeline).await?;
        let promotions = cluster.promotions(&pipeline).await?;
        return Ok((pipeline, promotions));
    }
    let text = yaml::read_text(file)?;
    let documents = yaml::documents(&text).into_iter();
    let mut pipelines = documents
        .filter_map(|document| document.value.ok())
        .filter(|value| value["kind"] == "Pipeline");
    let Some(value) = pipelines.next() else {
        bail!("{pipeline} contains no Pipeline");
    };
    let mut found: Pipeline = serde_json::from_value(value).with_context(|| {
        format!("cannot parse the Pipeline in {pipeline}; run `sluice lint {pipeline}` for details")
    })?;
    let own = found.metadata.namespace.take();
    let namespace = connection.namespace.clone().or(own);
    found.metadata.namespace = Some(namespace.unwrap_or("default".to_owned()));
    Ok((found, Vec::new()))
}

/// Whether the strategy changes a git repository.
pub(super) fn writes_git(settings: &PromotionSettings) -> bool {
    settings.strategy.pull_request.is_some() || settings.strategy.commit.is_some()
}

/// A marker as a YAML comment.
pub(super) fn comment(marker: &str) -> String {
    format!("# {{\"$promotion\": {}}}", serde_json::Value::from(marker))
}

/// All targets and environments that are promoted into by a change in git.
pub(super) fn sites_in_git(pipeline: &Pipeline) -> Vec<(&Environment, PromotionSite)> {
    let spec = &pipeline.spec;
    let promoted = spec.environments.iter().filter(|environment| {
        let settings = spec.promotion_into(&environment.name);
        let is_moved = !planner::receives_nothing(spec, &environment.name);
        is_moved && !environment.targets.is_empty() && settings.is_some_and(writes_git)
    });
    promoted
        .flat_map(|environment| {
            let sites = planner::sites(pipeline, &environment.name);
            sites.into_iter().map(move |site| (environment, site))
        })
        .collect()
}

fn write_difference(
    path: &str,
    before: &[u8],
    after: &[u8],
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (before, after) = (
        String::from_utf8_lossy(before),
        String::from_utf8_lossy(after),
    );
    let difference = TextDiff::from_lines(before.as_ref(), after.as_ref());
    let path = clean(path);
    writeln!(out, "{}", paint(BOLD, &format!("--- a/{path}")))?;
    writeln!(out, "{}", paint(BOLD, &format!("+++ b/{path}")))?;
    for hunk in difference.unified_diff().context_radius(3).iter_hunks() {
        writeln!(out, "{}", hunk.header())?;
        for change in hunk.iter_changes() {
            let (sign, style) = match change.tag() {
                ChangeTag::Delete => ("-", RED),
                ChangeTag::Insert => ("+", GREEN),
                ChangeTag::Equal => (" ", PLAIN),
            };
            let line = change.value().trim_end_matches('\n');
            // Exact in a pipe; on a terminal, control characters of the file are removed.
            let line = match terminal::width() {
                Some(_) => clean(line),
                None => line.to_owned(),
            };
            writeln!(out, "{}", paint(style, &format!("{sign}{line}")))?;
        }
    }
    Ok(())
}
