//! `sluice diff`: prints what the promotion under way into an environment, or the next one, brings.

use std::io::Write;

use api::{check_run::CheckCause, promotion::SourceCommits};
use planner::{CheckProgress, PromotionDiff, SoakProgress};

use super::{
    cluster::{ClusterFlags, require_environment},
    message::print_message,
    output::OutputFormat,
    terminal::clean,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pipeline, as NAME or NAMESPACE/NAME
    pipeline: String,
    /// Environment that is promoted into
    environment: String,
    /// Output format
    #[arg(long, short, value_enum, default_value = "text")]
    output: OutputFormat,
    #[command(flatten)]
    connection: ClusterFlags,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let pipeline = cluster.pipeline(&arguments.pipeline).await?;
    let environment = arguments.environment.as_str();
    require_environment(&pipeline, environment)?;
    let promotions = cluster.promotions(&pipeline).await?;
    let diffs = planner::promotion_diff(&pipeline, environment, &promotions);
    if diffs.is_empty() && arguments.output == OutputFormat::Text {
        print_message(&format!("nothing to promote into {environment}"));
    }
    let document = || serde_json::json!({"items": diffs});
    arguments.output.write(out, document, |out| {
        for line in diffs.iter().flat_map(lines) {
            writeln!(out, "{}", clean(&line))?;
        }
        Ok(())
    })
}

fn lines(diff: &PromotionDiff) -> Vec<String> {
    let mut lines = vec![title(diff)];
    if let Some(promotion) = &diff.promotion {
        let phase = diff.phase.map(|phase| format!(", {phase:?}"));
        lines.push(format!(
            "  promotion {promotion}{}",
            phase.unwrap_or_default()
        ));
    }
    lines.extend(diff.rollback.as_ref().map(|it| format!("  {it}")));
    lines.extend(diff.caution.as_ref().map(|it| format!("  caution: {it}")));
    if !diff.edits.is_empty() {
        lines.push("  edits:".to_owned());
    }
    for edit in &diff.edits {
        let old = edit.old.as_deref().unwrap_or("nothing");
        let (file, path, new) = (&edit.file, &edit.path, &edit.new);
        lines.push(format!("    {file} {path}: {old} → {new}"));
    }
    if diff.more_edits > 0 {
        lines.push(format!("    and {} more", diff.more_edits));
    }
    if !diff.images.is_empty() {
        lines.push("  images:".to_owned());
    }
    for image in &diff.images {
        let (from, to) = (versions(&image.from), versions(&image.to));
        lines.push(format!("    {}: {from} → {to}", image.name));
    }
    lines.extend(diff.commits.iter().flat_map(commits));
    if !diff.checks.is_empty() {
        lines.push("  checks:".to_owned());
    }
    lines.extend(diff.checks.iter().map(check));
    lines.extend(diff.soak.as_ref().map(soak));
    lines.extend(diff.digest.as_ref().map(|it| format!("  digest {it}")));
    lines.extend(diff.note.as_ref().map(|it| format!("  note: {it}")));
    lines
}

fn title(diff: &PromotionDiff) -> String {
    let from = diff.from.as_deref().unwrap_or("nothing");
    let target = diff.target.as_ref().map(|it| format!(" on {it}"));
    let target = target.unwrap_or_default();
    format!("{}{target}: {from} → {}", diff.environment, diff.to)
}

fn versions(versions: &[String]) -> String {
    match versions.is_empty() {
        true => "nothing".to_owned(),
        false => versions.join(", "),
    }
}

fn commits(commits: &SourceCommits) -> Vec<String> {
    let short = |id: &str| id.chars().take(8).collect::<String>();
    let total = commits.total.map(|total| format!(" ({total})"));
    let url = commits.url.as_ref().map(|url| format!(" {url}"));
    let mut lines = vec![format!(
        "  commits {}..{}{}{}",
        short(&commits.from),
        short(&commits.to),
        total.unwrap_or_default(),
        url.unwrap_or_default()
    )];
    for commit in &commits.newest {
        let author = commit.author.as_ref().map(|it| format!(" ({it})"));
        let author = author.unwrap_or_default();
        lines.push(format!(
            "    {} {}{author}",
            short(&commit.id),
            commit.title
        ));
    }
    lines.extend(commits.note.as_ref().map(|note| format!("    {note}")));
    lines
}

fn check(check: &CheckProgress) -> String {
    let when = match check.cause {
        CheckCause::Verify => "in",
        CheckCause::Promotion => "before",
    };
    let verdict = check.verdict.word().to_lowercase();
    let because = check.message.as_ref().map(|it| format!(": {it}"));
    format!(
        "    {} {when} {}: {verdict}{}",
        check.check,
        check.environment,
        because.unwrap_or_default()
    )
}

fn soak(soak: &SoakProgress) -> String {
    let (environment, since) = (&soak.environment, soak.since.0);
    let until = soak
        .until
        .as_ref()
        .map(|at| format!(", soak until {}", at.0));
    format!(
        "  ready in {environment} since {since}{}",
        until.unwrap_or_default()
    )
}
