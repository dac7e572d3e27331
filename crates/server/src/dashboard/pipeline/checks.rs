//! The checks of a pipeline: what each environment checks, for which revision, and how that stands.

use api::{
    check_run::{CheckCause, CheckVerdict},
    pipeline::CheckStatus,
    revision::shown,
};
use planner::SummaryState;

use super::PipelineView;
use crate::dashboard::{
    components::{badge_with_text, timestamp},
    html::{Element, Html, tag},
    version::shortened,
};

impl PipelineView<'_> {
    /// The table of checks; hidden where the pipeline has none.
    pub(super) fn checks(&self) -> Element {
        if self.pipeline.spec.checks.is_empty() {
            return tag("div").id("checks").set("hidden", true);
        }
        let section = tag("section").id("checks").class("card");
        let status = self.pipeline.status.as_ref();
        let environments = self.pipeline.spec.environments.iter();
        let rows = environments.flat_map(|environment| {
            let status = status.and_then(|it| it.environments.get(&environment.name));
            let checks = status.into_iter().flat_map(|it| &it.checks);
            checks.map(|check| row(&environment.name, check))
        });
        let rows: Vec<_> = rows.collect();
        let none = rows.is_empty().then(|| {
            let text =
                "Nothing is checked now: checks start when a revision arrives or is to enter.";
            tag("p").class("dim").text(text)
        });
        let table = (!rows.is_empty()).then(|| {
            let heads = ["Environment", "Check", "Revision", "Verdict", "Since"];
            let heads = heads.map(|head| tag("th").with("scope", "col").text(head));
            let table = tag("table")
                .child(tag("caption").class("vh").text("Checks"))
                .child(tag("thead").child(tag("tr").children(heads)))
                .child(tag("tbody").children(rows));
            let region = tag("div").class("table").with("role", "region");
            region
                .with("aria-label", "Checks")
                .with("tabindex", 0)
                .child(table)
        });
        section
            .with("aria-labelledby", "checks-title")
            .child(tag("h2").id("checks-title").text("Checks"))
            .child(none)
            .child(table)
    }
}

fn row(environment: &str, check: &CheckStatus) -> Element {
    let when = match check.cause {
        CheckCause::Promotion => "before it enters",
        CheckCause::Verify => "after it arrived",
    };
    let attempt = (check.attempt > 0)
        .then(|| tag("small").text(format_args!("attempt {}", check.attempt + 1)));
    let name = tag("th").with("scope", "row").text(&check.check);
    let at = check.at.as_ref().map(timestamp);
    tag("tr")
        .child(tag("td").text(environment).child(tag("small").text(when)))
        .child(name.child(attempt))
        .child(tag("td").text(shortened(&shown(&check.revision, None))))
        .child(tag("td").child(verdict(check)))
        .child(tag("td").child(at))
}

/// The verdict, why, and where to read more.
fn verdict(check: &CheckStatus) -> Html {
    let state = match check.verdict {
        CheckVerdict::Pending => SummaryState::Unknown,
        CheckVerdict::Running => SummaryState::Promoting,
        CheckVerdict::Passed => SummaryState::Ready,
        CheckVerdict::Failed => SummaryState::Failed,
        CheckVerdict::Error => SummaryState::Unreadable,
    };
    let word = check.verdict.word().to_lowercase();
    let message = check.message.as_ref().map(|it| tag("small").text(it));
    let is_web = |url: &&String| url.starts_with("https://") || url.starts_with("http://");
    let link = check.url.as_ref().filter(is_web);
    let link = link.map(|url| tag("a").link(url).text("Details"));
    Html::all([Some(badge_with_text(state, &word)), message, link])
}
