//! The timeline of a pipeline: a lane for each environment with what ran when, and figures about deliveries.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use planner::{DAYS, DeliveryFigures, Deployment, DeploymentKind};

use super::PipelineView;
use crate::{
    dashboard::{
        components::counted,
        html::{Element, tag},
        version::{colour, shortened},
    },
    view,
};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// How the times below the lanes are written, by the seconds that are shown at most.
const FORMATS: [(i64, &str); 5] = [
    (8 * MINUTE, "%H:%M:%S"),
    (DAY, "%H:%M"),
    (5 * DAY, "%a %H:%M"),
    (10 * DAY, "%a %e %b"),
    (i64::MAX, "%e %b"),
];
/// The least and the most that is shown, in seconds.
const SHORTEST: i64 = MINUTE;
const LONGEST: i64 = 90 * DAY;
/// How wide a lane is on a desktop and on a phone, and a character in it, in pixels.
const LANE_WIDTHS: [f64; 2] = [1000.0, 320.0];
const CHARACTER_WIDTH: f64 = 7.4;
/// How many times are written below the lanes.
const TICKS: i64 = 5;

/// The part of time that is shown.
struct TimelineRange {
    start: Timestamp,
    now: Timestamp,
    seconds: i64,
    format: &'static str,
    /// How much is shown, in words.
    name: String,
}

impl TimelineRange {
    /// From shortly before the first deployment, so that no lane begins with a gap, or the longest range.
    fn around(first: Timestamp, now: Timestamp) -> Self {
        let age = now.as_second() - first.as_second();
        let seconds = (age + age / 50).clamp(SHORTEST, LONGEST);
        let mut formats = FORMATS.into_iter();
        let format = formats.find(|(most, _)| seconds <= *most);
        let format = format.map_or("%e %b", |(_, format)| format);
        Self {
            start: now
                .saturating_sub(SignedDuration::from_secs(seconds))
                .unwrap_or(Timestamp::MIN),
            now,
            seconds,
            format,
            name: range_name(seconds),
        }
    }

    /// How far a time is from the start, in percent with two digits.
    fn percent(&self, at: Timestamp) -> f64 {
        let seconds = (at.as_second() - self.start.as_second()).clamp(0, self.seconds);
        let share = seconds as f64 / self.seconds as f64;
        (share * 10_000.0).round() / 100.0
    }
}

/// How much of time a range shows, in its largest unit.
fn range_name(seconds: i64) -> String {
    let (unit, noun) = match seconds {
        ..5400 => (MINUTE, "minute"),
        5400..172_800 => (HOUR, "hour"),
        _ => (DAY, "day"),
    };
    match (seconds + unit / 2) / unit {
        1 => noun.to_owned(),
        count => format!("{count} {noun}s"),
    }
}

impl PipelineView<'_> {
    pub(super) fn timeline(&self) -> Element {
        let lanes = self.lanes();
        let element = tag("section")
            .id("timeline")
            .class("card")
            .with("aria-labelledby", "timeline-title");
        let all = lanes.iter().flat_map(|(_, lane)| lane);
        let title = tag("h2").id("timeline-title");
        let Some(first) = all.map(|it| it.from).min() else {
            let text = "Nothing has been deployed yet. Lanes appear with the first release.";
            let text = tag("p").class("dim").text(text);
            return element.child(title.text("Timeline")).child(text);
        };
        let window = TimelineRange::around(first, self.drawn_at);
        let rows = lanes.iter().map(|(name, lane)| {
            tag("li")
                .class("lane")
                .child(tag("span").class("lane-name").text(name))
                .child(drawing(name, lane, &window))
        });
        let model = self.pipeline.status.clone().unwrap_or_default();
        let figures =
            planner::delivery_figures(&self.pipeline, &model, &self.promotions, self.drawn_at);
        let last = planner::environment_columns(&self.pipeline.spec);
        let last = last.last().and_then(|column| column.last());
        let last = last.map_or("", |it| it.name.as_str());
        element
            .child(title.text(format_args!("Timeline, last {}", window.name)))
            .child(tag("ol").class("lanes").children(rows).child(axis(&window)))
            .child(figure_list(&figures, last))
    }

    /// The deployments of each environment.
    fn lanes(&self) -> Vec<(&str, Vec<Deployment>)> {
        let environments = self.pipeline.spec.environments.iter();
        environments
            .map(|environment| {
                let name = environment.name.as_str();
                let status = view::status_of(&self.pipeline, name);
                (name, planner::deployments(name, status, &self.promotions))
            })
            .collect()
    }
}

fn drawing(name: &str, lane: &[Deployment], window: &TimelineRange) -> Element {
    let segments = lane
        .iter()
        .filter(|it| it.until.is_none_or(|at| at >= window.start));
    tag("svg")
        .with("role", "img")
        .with("aria-label", lane_text(name, lane))
        .with("height", 28)
        .with("width", "100%")
        .children(segments.map(|it| segment(it, window)))
}

/// A lane in words.
fn lane_text(name: &str, lane: &[Deployment]) -> String {
    let newest = lane.iter().rev().take(5).map(|it| {
        let failed = match it.kind {
            DeploymentKind::Failed => " failed",
            DeploymentKind::Rollback => " rolled back to",
            DeploymentKind::Release => "",
        };
        format!("{}{failed} at {}", shortened(&it.revision), time(it.from))
    });
    let newest: Vec<_> = newest.collect();
    match newest.is_empty() {
        true => format!("{name}: nothing"),
        false => format!("{name}, newest first: {}", newest.join("; ")),
    }
}

fn segment(deployment: &Deployment, window: &TimelineRange) -> Element {
    let from = window.percent(deployment.from);
    let until = window.percent(deployment.until.unwrap_or(window.now));
    let width = (until - from).max(0.4);
    let from = from.min(100.0 - width);
    let (class, sign) = match deployment.kind {
        DeploymentKind::Failed => ("broken".to_owned(), "✖ "),
        DeploymentKind::Rollback => (format!("stay back {}", colour(&deployment.revision)), "↩ "),
        DeploymentKind::Release => (format!("stay {}", colour(&deployment.revision)), ""),
    };
    let text = shortened(&deployment.revision);
    let until = deployment.until.map_or("now".to_owned(), time);
    let title = format!("{sign}{text}: {} until {until}", time(deployment.from));
    tag("svg")
        .class(class)
        .with("x", format_args!("{from}%"))
        .with("width", format_args!("{width}%"))
        .with("height", 28)
        .child(tag("title").text(title))
        .child(
            tag("rect")
                .with("width", "100%")
                .with("height", "100%")
                .with("rx", 6),
        )
        .child(label(&format!("{sign}{text}"), width))
}

/// The text of a segment where it fits; the title has it in any case.
fn label(text: &str, percent: f64) -> Option<Element> {
    let needed = text.chars().count() as f64 * CHARACTER_WIDTH + 12.0;
    let [desktop, phone] = LANE_WIDTHS.map(|lane| lane * percent / 100.0 >= needed);
    let element = tag("text").with("x", 8).with("y", 18).text(text);
    match phone {
        true => Some(element),
        false => desktop.then(|| element.class("wide-only")),
    }
}

fn axis(window: &TimelineRange) -> Element {
    let ticks = (0..TICKS).map(|tick| {
        let seconds = SignedDuration::from_secs(window.seconds * tick / TICKS);
        let at = window.start.saturating_add(seconds).unwrap_or(window.start);
        let text = at.strftime(window.format).to_string();
        tag("text")
            .with("x", format_args!("{}%", 100 * tick / TICKS))
            .with("y", 12)
            .text(text)
    });
    let drawing = tag("svg")
        .with("aria-hidden", "true")
        .with("height", 18)
        .with("width", "100%")
        .children(ticks);
    tag("li")
        .class("lane axis")
        .child(tag("span").class("lane-name dim").text("UTC"))
        .child(drawing)
}

fn figure_list(figures: &DeliveryFigures, last: &str) -> Element {
    let item =
        |value: String, text: &str| tag("li").child(tag("b").text(value)).text(" ").text(text);
    let percent = (figures.failed * 200 + figures.all) / (2 * figures.all.max(1));
    let noun = match figures.deployments {
        1 => "deployment",
        _ => "deployments",
    };
    let deployments = format!("{noun} into {last} in {DAYS} days");
    tag("ul")
        .class("figures")
        .child(item(figures.deployments.to_string(), &deployments))
        .child(
            figures
                .lead_time
                .filter(|it| !it.is_zero())
                .map(|it| item(duration(it), "lead time, median")),
        )
        .child((figures.all > 0).then(|| {
            let all = counted(figures.all, "deployment");
            let text = format!("of {all} into any environment failed");
            item(format!("{percent} %"), &text)
        }))
        .child(
            figures
                .time_to_restore
                .map(|it| item(duration(it), "to restore, median")),
        )
}

fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// A duration with its two largest units.
fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::html::Html;

    #[test]
    fn the_window_contains_everything() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let before = |seconds: i64| Timestamp::from_second(1_800_000_000 - seconds).unwrap();
        for (age, expected) in [
            (0, "minute"),
            (200, "3 minutes"),
            (3599, "61 minutes"),
            (9 * 3600, "9 hours"),
            (5 * 86_400, "5 days"),
            (400 * 86_400, "90 days"),
        ] {
            let window = TimelineRange::around(before(age), now);
            assert_eq!(window.name, expected);
            assert!((window.percent(now) - 100.0).abs() < f64::EPSILON);
            assert!(window.percent(before(age)) >= 0.0);
            // Almost nothing is empty before the first deployment.
            assert!(age < 200 || window.percent(before(age)) < 2.5, "{age}");
        }
    }

    #[test]
    fn a_label_is_drawn_where_it_fits() {
        let drawn = |percent| label("6.2.0", percent).map(|it| Html::from(it).as_str().to_owned());
        assert_eq!(drawn(1.0), None);
        assert!(drawn(8.0).unwrap().contains("wide-only"));
        assert!(!drawn(40.0).unwrap().contains("wide-only"));
    }

    #[test]
    fn durations_have_two_units() {
        let texts = [59, 60, 7800, 200_000].map(|it| duration(Duration::from_secs(it)));
        assert_eq!(texts, ["59 s", "1 min", "2 h 10 min", "2 d 7 h"]);
    }
}
