//! The checks page: every CheckRun that the viewer may list, with its pipeline, environment, revision and
//! verdict. The filter is in the address.

use std::sync::Arc;

use api::{
    CheckRun,
    check_run::{CheckCause, CheckVerdict},
};
use kube::ResourceExt;
use planner::SummaryState;
use runtime::ObjectKey;
use serde::Deserialize;

use super::{
    components::{
        address, badge_with_text, counted, empty_state, external_link, hidden_field, page_links,
        percent_encoded, sentence, state_icon, table, timestamp,
    },
    html::{Element, Html, tag},
    page::{PagePart, PageParts},
    sign_in::Viewer,
    version::chip,
};
use crate::{
    AppState,
    access::{AccessRequest, CHECK_RUNS},
    problem::Problem,
};

/// How many rows a page has.
const PAGE_SIZE: usize = 200;
/// Every verdict, the most urgent first.
const VERDICTS: [CheckVerdict; 5] = [
    CheckVerdict::Failed,
    CheckVerdict::Error,
    CheckVerdict::Running,
    CheckVerdict::Pending,
    CheckVerdict::Passed,
];

/// Which check runs are shown.
#[derive(Deserialize, Clone, Default)]
#[serde(default)]
pub(super) struct CheckFilter {
    q: String,
    verdict: String,
    page: Option<usize>,
}

impl CheckFilter {
    fn verdict(&self) -> Option<CheckVerdict> {
        VERDICTS.into_iter().find(|it| it.word() == self.verdict)
    }

    fn matches(&self, run: &CheckRun) -> bool {
        let spec = &run.spec;
        let (namespace, revision) = (run.namespace().unwrap_or_default(), spec.shown_revision());
        let texts = [
            namespace.as_str(),
            &spec.pipeline,
            &spec.environment,
            &spec.check.name,
            &revision,
        ];
        let text = texts.join(" ").to_lowercase();
        let mut words = self.q.split_whitespace().map(str::to_lowercase);
        let has_verdict = self.verdict().is_none_or(|it| it == verdict_of(run));
        has_verdict && words.all(|word| text.contains(&word))
    }

    /// The address of a page with this search.
    fn address(&self, verdict: Option<CheckVerdict>, page: usize) -> String {
        let page = Some(page + 1).filter(|page| *page > 1);
        let parameters = [
            ("q", self.q.clone()),
            (
                "verdict",
                verdict
                    .map(CheckVerdict::word)
                    .unwrap_or_default()
                    .to_owned(),
            ),
            ("page", page.map(|it| it.to_string()).unwrap_or_default()),
        ];
        let parameters = parameters.iter().filter(|(_, value)| !value.is_empty());
        let pairs = parameters.map(|(name, value)| format!("{name}={}", percent_encoded(value)));
        let pairs: Vec<_> = pairs.collect();
        match pairs.is_empty() {
            true => "/checks".to_owned(),
            false => format!("/checks?{}", pairs.join("&")),
        }
    }

    fn form(&self) -> Element {
        let input = tag("input")
            .id("q")
            .with("name", "q")
            .with("type", "search")
            .with("value", &self.q);
        let label = "Search by pipeline, environment, check or version";
        let label = tag("label").with("for", "q").text(label);
        let verdict = self.verdict().map(|it| hidden_field("verdict", it.word()));
        tag("form")
            .class("filter")
            .with("role", "search")
            .with("method", "get")
            .set("data-live", true)
            .link("/checks")
            .child(tag("span").class("field").child(label).child(input))
            .child(verdict)
            .child(tag("button").text("Show"))
    }
}

pub(super) async fn parts(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    filter: &CheckFilter,
) -> Result<PageParts, Problem> {
    let all = app_state.objects.check_runs();
    let namespace_of = |it: &Arc<CheckRun>| it.namespace().unwrap_or_default();
    let mut runs = viewer.caller.visible(CHECK_RUNS, all, namespace_of).await?;
    runs.sort_by_cached_key(|it| (namespace_of(it), it.spec.pipeline.clone(), it.name_any()));
    let found: Vec<_> = runs.iter().filter(|it| filter.matches(it)).collect();
    let pages = found.len().div_ceil(PAGE_SIZE).max(1);
    let page = filter.page.unwrap_or(1).saturating_sub(1).min(pages - 1);
    let none = match runs.is_empty() {
        true => Some(none(app_state, viewer).await?),
        false => found.is_empty().then(no_match),
    };
    let shown = found.iter().skip(page * PAGE_SIZE).take(PAGE_SIZE);
    let mut parts = PageParts {
        rows: shown.map(|run| row(app_state, run)).collect(),
        ..PageParts::default()
    };
    parts.push("counts", counts(&runs, filter));
    parts.push("none", tag("div").id("none").child(none));
    let links = page_links(&counted(found.len(), "check run"), (page, pages), |page| {
        filter.address(filter.verdict(), page)
    });
    parts.push("pages", links);
    Ok(parts)
}

/// What the page says where there is no CheckRun that the viewer may see.
async fn none(app_state: &Arc<AppState>, viewer: &Viewer) -> Result<Element, Problem> {
    let everywhere = AccessRequest::list(CHECK_RUNS, app_state.settings.namespace.as_deref());
    if viewer.caller.may_see(&everywhere).await? {
        return Ok(empty_state(
            "No check runs",
            "Checks start when a revision arrives in an environment with verify, or is to enter one with \
             promotion.checks. They are kept for what runs and for what comes next.",
        ));
    }
    let text = format!(
        "{} needs a role with the verb list on checkruns of the group pipelines.weave.works, in one \
         namespace or in all. Pages of pipelines show their checks nevertheless.",
        viewer.caller.name()
    );
    Ok(empty_state("You may not list check runs", &text))
}

fn no_match() -> Element {
    empty_state(
        "No check run matches.",
        "Change the search, or choose another verdict.",
    )
}

/// How many check runs have each verdict, each a link that filters by it.
fn counts(runs: &[Arc<CheckRun>], filter: &CheckFilter) -> Element {
    let tile = |verdict: Option<CheckVerdict>| {
        let is_it = |run: &&Arc<CheckRun>| verdict.is_none_or(|it| it == verdict_of(run));
        let count = runs.iter().filter(is_it).count();
        let state = verdict.map(state_of);
        let word = verdict.map_or("all".to_owned(), |it| it.word().to_lowercase());
        let zero = if count == 0 { " zero" } else { "" };
        let mut link = tag("a")
            .link(&filter.address(verdict, 0))
            .class(format_args!(
                "{}{zero}",
                state.map_or("all", SummaryState::id)
            ))
            .child(tag("b").text(count))
            .child(tag("span").child(state.map(state_icon)).text(word));
        if filter.verdict() == verdict {
            link = link.with("aria-current", "true");
        }
        tag("li").child(link)
    };
    let tiles = [None].into_iter().chain(VERDICTS.map(Some)).map(tile);
    let list = tag("ul").id("counts").class("tiles");
    list.with("aria-label", "By verdict").children(tiles)
}

/// The environment, as a link to its targets on the page of the pipeline.
fn environment(app_state: &AppState, key: &ObjectKey, name: &str) -> Element {
    let pipeline = app_state.objects.cached_pipeline(key);
    let index = pipeline.and_then(|it| {
        let mut environments = it.spec.environments.iter();
        environments.position(|environment| environment.name == name)
    });
    match index {
        Some(index) => tag("a").link(&format!("{}#targets-{index}", address(key))),
        None => tag("span"),
    }
    .text(name)
}

fn row(app_state: &AppState, run: &CheckRun) -> (Arc<str>, Arc<PagePart>) {
    let (spec, status) = (&run.spec, run.status.as_ref());
    let id = format!("check-{}", run.uid().unwrap_or_default());
    let pipeline = ObjectKey::new(&run.namespace().unwrap_or_default(), &spec.pipeline);
    let kinds = spec.check.kinds().into_iter().map(|it| it.word());
    let name = tag("th")
        .with("scope", "row")
        .text(&spec.check.name)
        .child(tag("small").text(kinds.collect::<Vec<_>>().join(", ")));
    let link = tag("a").link(&address(&pipeline)).text(&pipeline.name);
    let when = tag("small").text(when(spec.cause));
    let revision = spec.shown_revision();
    let of_revision = format!("/checks?q={}", percent_encoded(&revision));
    let revision = tag("a").link(&of_revision).child(chip(&revision));
    let environment = environment(app_state, &pipeline, &spec.environment);
    let message = status.and_then(|it| it.message.as_deref());
    let url = status.and_then(|it| it.url.as_deref());
    let since = status.and_then(|it| it.decided_at.clone());
    let since = since.or_else(|| run.creation_timestamp());
    let html = tag("tr")
        .id(&id)
        .child(name)
        .child(
            tag("td")
                .child(link)
                .child(tag("small").text(&pipeline.namespace)),
        )
        .child(tag("td").child(environment).child(when))
        .child(tag("td").child(revision).child(attempt(spec.attempt)))
        .child(tag("td").child(verdict(verdict_of(run), message, url)))
        .child(tag("td").child(since.as_ref().map(timestamp)));
    (id.into(), Arc::new(PagePart::from(Html::from(html))))
}

fn verdict_of(run: &CheckRun) -> CheckVerdict {
    run.status.as_ref().map(|it| it.verdict).unwrap_or_default()
}

/// The state that has the colour and the icon of a verdict.
fn state_of(verdict: CheckVerdict) -> SummaryState {
    match verdict {
        CheckVerdict::Pending => SummaryState::Unknown,
        CheckVerdict::Running => SummaryState::Promoting,
        CheckVerdict::Passed => SummaryState::Ready,
        CheckVerdict::Failed => SummaryState::Failed,
        CheckVerdict::Error => SummaryState::Unreadable,
    }
}

/// When a check is asked, in few words.
pub(super) fn when(cause: CheckCause) -> &'static str {
    match cause {
        CheckCause::Promotion => "before it enters",
        CheckCause::Verify => "after it arrived",
    }
}

/// The number of an attempt that is not the first.
pub(super) fn attempt(attempt: i64) -> Option<Element> {
    (attempt > 0).then(|| tag("small").text(format_args!("attempt {}", attempt + 1)))
}

/// A verdict, why, and where to read more.
pub(super) fn verdict(verdict: CheckVerdict, message: Option<&str>, url: Option<&str>) -> Html {
    let badge = badge_with_text(state_of(verdict), &verdict.word().to_lowercase());
    let message = message.filter(|it| !it.is_empty());
    let message = message.map(|it| tag("small").child(sentence(it)));
    let link = url.map(|url| tag("small").child(external_link(url, "Details")));
    Html::all([Some(badge), message, link])
}

/// The page around the rows.
pub(super) fn frame(filter: &CheckFilter, parts: &PageParts) -> Html {
    let heads = [
        "Check",
        "Pipeline",
        "Environment",
        "Revision",
        "Verdict",
        "Since",
    ];
    let table = table("Check runs", &heads, parts.all_rows());
    Html::all([
        Html::from(tag("h1").text("Checks")),
        parts.html("counts"),
        filter.form().into(),
        table.into(),
        parts.html("none"),
        parts.html("pages"),
    ])
}
