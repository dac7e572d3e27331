//! Draws a recording as SVG: one panel for each series, with the compared quarters shaded and a line for each
//! fault.

use crate::{
    samples::Recording,
    verdict::{SERIES, Series, Verdict},
};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 70.0;
const PLOT_WIDTH: f64 = WIDTH - LEFT - 20.0;
const PANEL: f64 = 112.0;
const PLOT_HEIGHT: f64 = 70.0;
const TOP: f64 = 46.0;
/// Points of a curve; more cannot be seen.
const POINTS: usize = 400;

/// The whole picture.
pub(crate) fn svg(recording: &Recording, verdicts: &[Verdict]) -> String {
    let end = recording.last().minutes.max(f64::MIN_POSITIVE);
    let (count, last) = (
        f64::from(u32::try_from(SERIES.len()).unwrap_or(0)),
        recording.last(),
    );
    let height = TOP + PANEL * count + 10.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"18\" font-size=\"14\" font-weight=\"bold\">{:.0} releases in {:.0} minutes</text>\n\
         <text x=\"{LEFT}\" y=\"34\" fill=\"#555\">shaded: the quarters that are compared; \
         marks: <tspan fill=\"{}\">forge down</tspan>, <tspan fill=\"{}\">leaf cluster away</tspan>, \
         <tspan fill=\"{}\">controller killed</tspan></text>\n",
        last.releases,
        last.minutes,
        color("forge"),
        color("leaf"),
        color("kill"),
    );
    let mut top = TOP;
    for (series, verdict) in SERIES.iter().zip(verdicts) {
        let points = series.drawn(&recording.samples);
        text += &panel(series, verdict, &points, &recording.faults, (top, end));
        top += PANEL;
    }
    text + "</svg>\n"
}

fn panel(
    series: &Series,
    verdict: &Verdict,
    points: &[(f64, f64)],
    faults: &[(f64, &str)],
    (top, end): (f64, f64),
) -> String {
    let x = |minutes: f64| LEFT + minutes / end * PLOT_WIDTH;
    let plot = top + 26.0;
    let word = if verdict.is_flat() { "flat" } else { "GROWS" };
    let mut text = format!(
        "<text x=\"{LEFT}\" y=\"{:.0}\"><tspan font-weight=\"bold\">{}</tspan> {} \
         <tspan fill=\"#555\">{:.1} → {:.1}, limit {:.1}: {word}</tspan></text>\n",
        top + 18.0,
        series.name,
        series.unit,
        verdict.second_quarter,
        verdict.last_quarter,
        verdict.limit,
    );
    for start in [0.25, 0.75] {
        text += &format!(
            "<rect x=\"{:.1}\" y=\"{plot}\" width=\"{:.1}\" height=\"{PLOT_HEIGHT}\" fill=\"#eef3f8\"/>\n",
            x(start * end),
            PLOT_WIDTH / 4.0,
        );
    }
    for (minutes, what) in faults {
        let (x, color) = (x(*minutes), color(what));
        let bottom = plot + PLOT_HEIGHT;
        text += &format!(
            "<path d=\"M{x:.1} {:.0}V{bottom:.0}\" stroke=\"{color}\"/>\n",
            bottom - 5.0,
        );
    }
    text += &axis(points, plot);
    text + &curve(points, x, plot)
}

/// The frame, with zero and the highest value.
fn axis(points: &[(f64, f64)], plot: f64) -> String {
    let bottom = plot + PLOT_HEIGHT;
    let right = LEFT + PLOT_WIDTH;
    let label = LEFT - 6.0;
    format!(
        "<path d=\"M{LEFT} {plot}V{bottom}H{right}\" fill=\"none\" stroke=\"#999\"/>\n\
         <g text-anchor=\"end\" fill=\"#555\"><text x=\"{label}\" y=\"{:.0}\">{:.0}</text>\
         <text x=\"{label}\" y=\"{bottom}\">0</text></g>\n",
        plot + 10.0,
        highest(points),
    )
}

fn curve(points: &[(f64, f64)], x: impl Fn(f64) -> f64, plot: f64) -> String {
    let step = points.len().div_ceil(POINTS).max(1);
    let highest = highest(points);
    let drawn = points.iter().step_by(step).map(|(minutes, value)| {
        let y = plot + PLOT_HEIGHT * (1.0 - value / highest);
        format!("{:.1},{y:.1}", x(*minutes))
    });
    let drawn: Vec<_> = drawn.collect();
    format!(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#1f5fa8\" stroke-width=\"1.3\"/>\n",
        drawn.join(" "),
    )
}

fn highest(points: &[(f64, f64)]) -> f64 {
    let values = points.iter().map(|it| it.1);
    values.fold(1.0, f64::max) * 1.1
}

fn color(fault: &str) -> &'static str {
    match fault {
        "forge" => "#c47f00",
        "leaf" => "#3f8f4f",
        _ => "#b3261e",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{samples::Sample, verdict::verdicts};

    #[test]
    fn every_series_has_a_panel_with_its_curve() {
        let mut recording = Recording::default();
        for minute in 0..900 {
            let minutes = f64::from(minute);
            recording.samples.push(Sample {
                minutes,
                releases: minutes,
                resident: 50.0,
                ..Sample::default()
            });
        }
        recording.faults.push((4.0, "kill"));
        let drawn = svg(&recording, &verdicts(&recording));
        assert_eq!(drawn.matches("<polyline").count(), SERIES.len());
        assert_eq!(drawn.matches(color("kill")).count(), SERIES.len() + 1);
        assert!(drawn.len() < 100_000, "{}", drawn.len());
        // The highest value is a tenth below the top, the time goes from left to right.
        assert!(drawn.contains("points=\"70.0,78.4 "), "{drawn}");
        assert!(!drawn.contains("NaN"), "{drawn}");
    }
}
