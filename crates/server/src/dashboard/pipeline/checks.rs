//! The checks of a pipeline: what each environment checks, for which revision, and how that stands.

use api::{pipeline::CheckStatus, revision::shown};

use super::PipelineView;
use crate::dashboard::{
    checks::{attempt, verdict, when},
    components::timestamp,
    html::{Element, tag},
    version::chip,
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
                .with("aria-label", "Verdicts of checks")
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
    let name = tag("th").with("scope", "row").text(&check.check);
    let (message, url) = (check.message.as_deref(), check.url.as_deref());
    let when = tag("small").text(when(check.cause));
    let at = check.at.as_ref().map(timestamp);
    tag("tr")
        .child(tag("td").text(environment).child(when))
        .child(name.child(attempt(check.attempt)))
        .child(tag("td").child(chip(&shown(&check.revision, None))))
        .child(tag("td").child(verdict(check.verdict, message, url)))
        .child(tag("td").child(at))
}
