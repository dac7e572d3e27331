//! A wave of a rollout as a line with a bar: `wave 2 of 3  ●●●●▶▶✖○○○  4 of 10 ready, 1 failed`.
//!
//! Each state has a character of its own, so that bars can be read without colours.

use anstyle::Style;
use api::pipeline::{EnvironmentStatus, RolloutSummary, WaveSummary};
use planner::{RolloutState, WaveView};

use super::terminal::{columns, cut, paint, severity_style};

/// The longest bar. A wave with fewer targets has one character for each.
const LONGEST_BAR: usize = 24;
/// The shortest bar for which there is room in a narrow terminal.
const SHORTEST_BAR: usize = 8;

/// A wave with the number of its targets in each state.
pub(super) struct WaveBar {
    number: usize,
    /// How many waves there are.
    of: usize,
    counts: Vec<(RolloutState, usize)>,
    /// What is said behind the counts, such as `done`.
    remark: String,
}

/// The bars of the rollout in progress into an environment; empty where there is none.
pub(super) fn environment_bars(status: &EnvironmentStatus, width: Option<usize>) -> Vec<String> {
    let rollout = status.rollout.as_ref();
    let rollout = rollout.filter(|it| it.finished_at.is_none());
    let bars = rollout.map(summary_bars).unwrap_or_default();
    bars.iter().map(|bar| bar.line(width)).collect()
}

fn summary_bars(rollout: &RolloutSummary) -> Vec<WaveBar> {
    let waves = rollout.waves.iter().enumerate();
    let bars = waves.map(|(index, wave)| WaveBar {
        number: index + 1,
        of: rollout.waves.len(),
        counts: summary_counts(wave),
        remark: match &wave.done_at {
            Some(_) => "done".to_owned(),
            None => String::new(),
        },
    });
    bars.collect()
}

fn summary_counts(wave: &WaveSummary) -> Vec<(RolloutState, usize)> {
    let known = [
        (RolloutState::Ready, wave.ready),
        (RolloutState::InFlight, wave.in_flight),
        (RolloutState::Failed, wave.failed),
        (RolloutState::Unreachable, wave.unreachable),
        (RolloutState::Skipped, wave.skipped),
    ];
    let waiting = wave.targets - known.iter().map(|(_, count)| count).sum::<i64>();
    let all = known.into_iter().chain([(RolloutState::Waiting, waiting)]);
    let all = all.map(|(state, count)| (state, usize::try_from(count).unwrap_or_default()));
    let mut counts: Vec<_> = all.filter(|(_, count)| *count > 0).collect();
    counts.sort_by_key(|(state, _)| RolloutState::ALL.iter().position(|it| it == state));
    counts
}

impl WaveBar {
    /// A wave with its targets.
    pub(super) fn of(wave: &WaveView, waves: usize, remark: String) -> Self {
        Self {
            number: wave.number,
            of: waves,
            counts: wave.counts(),
            remark,
        }
    }

    /// The line, in at most this many columns if it is for a terminal.
    pub(super) fn line(&self, width: Option<usize>) -> String {
        let title = format!("wave {} of {}", self.number, self.of);
        let text = self.text();
        let used = columns(&title) + columns(&text) + 4;
        let room = width.map_or(LONGEST_BAR, |width| width.saturating_sub(used));
        let room = room.clamp(SHORTEST_BAR, LONGEST_BAR);
        let cells = cells(&self.counts, room);
        let drawn: usize = cells.iter().map(|(_, length)| length).sum();
        let padding = " ".repeat(room.saturating_sub(drawn));
        let bar = cells.iter().map(|(state, length)| {
            let style = severity_style(state.severity());
            paint(style, &state.glyph().repeat(*length))
        });
        let bar: String = bar.collect();
        let left = width.map(|width| width.saturating_sub(columns(&title) + room + 4));
        let text = left.map_or(text.clone(), |left| cut(&text, left.max(1)));
        format!("{title}  {bar}{padding}  {text}")
    }

    /// `4 of 10 ready, 1 failed, done`.
    fn text(&self) -> String {
        let count = |wanted: RolloutState| {
            let found = self.counts.iter().find(|(state, _)| *state == wanted);
            found.map_or(0, |(_, count)| *count)
        };
        let total: usize = self.counts.iter().map(|(_, count)| count).sum();
        let mut parts = vec![match total {
            0 => "no targets".to_owned(),
            _ => format!("{} of {total} ready", count(RolloutState::Ready)),
        }];
        let further = self.counts.iter().filter(|(state, _)| {
            !matches!(
                state,
                RolloutState::Ready | RolloutState::Waiting | RolloutState::Removed
            )
        });
        parts.extend(further.map(|(state, count)| format!("{count} {}", state.word())));
        parts.extend((!self.remark.is_empty()).then(|| self.remark.clone()));
        parts.join(", ")
    }
}

/// How many characters each state gets: one for each target, or one and its share of the rest.
fn cells(counts: &[(RolloutState, usize)], room: usize) -> Vec<(RolloutState, usize)> {
    let total: usize = counts.iter().map(|(_, count)| count).sum();
    if total <= room {
        return counts.to_vec();
    }
    let left = room.saturating_sub(counts.len());
    let mut cells: Vec<_> = counts
        .iter()
        .map(|(state, count)| (*state, 1 + count * left / total))
        .collect();
    // The longest part takes what rounding left over.
    let used: usize = cells.iter().map(|(_, length)| length).sum();
    if let Some((_, longest)) = cells.iter_mut().max_by_key(|(_, length)| *length) {
        *longest += room.saturating_sub(used);
    }
    cells
}

/// The glyph of a state in its colour.
pub(super) fn painted(state: RolloutState) -> String {
    paint(style(state), state.glyph())
}

pub(super) fn style(state: RolloutState) -> Style {
    severity_style(state.severity())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(counts: &[(RolloutState, usize)], remark: &str) -> WaveBar {
        WaveBar {
            number: 2,
            of: 3,
            counts: counts.to_vec(),
            remark: remark.to_owned(),
        }
    }

    #[track_caller]
    fn check(bar: &WaveBar, width: Option<usize>, expected: &str) {
        let line = anstream::adapter::strip_str(&bar.line(width)).to_string();
        assert_eq!(line, expected);
        let limit = width.unwrap_or(usize::MAX);
        assert!(columns(&line) <= limit, "{line}");
    }

    #[test]
    fn a_wave_is_one_line_that_fits_the_terminal() {
        use RolloutState::{Failed, InFlight, Ready, Unreachable, Waiting};
        let few = bar(&[(Ready, 3)], "done");
        let gap = " ".repeat(LONGEST_BAR - 3);
        let line = format!("wave 2 of 3  ●●●{gap}  3 of 3 ready, done");
        check(&few, None, &line);
        check(&few, Some(60), &line);
        let many = bar(
            &[(Ready, 500), (InFlight, 10), (Failed, 1), (Waiting, 489)],
            "",
        );
        let line =
            "wave 2 of 3  ●●●●●●●●●●●●▶✖○○○○○○○○○○  500 of 1000 ready, 10 in flight, 1 failed";
        check(&many, None, line);
        check(&many, Some(80), line);
        let worst = bar(
            &[
                (Ready, 900),
                (InFlight, 40),
                (Failed, 20),
                (Unreachable, 40),
            ],
            "",
        );
        check(
            &worst,
            Some(60),
            "wave 2 of 3  ●●●●●▶✖▲  900 of 1000 ready, 40 in flight, 20 …",
        );
        let gap = " ".repeat(LONGEST_BAR);
        let line = format!("wave 2 of 3  {gap}  no targets, done");
        check(&bar(&[], "done"), Some(60), &line);
    }

    #[test]
    fn every_state_is_seen_however_few_targets_are_in_it() {
        let all: Vec<_> = RolloutState::ALL.map(|state| (state, 1)).to_vec();
        let mut counts = all.clone();
        counts[0].1 = 1000;
        assert_eq!(cells(&counts, SHORTEST_BAR), all);
        counts[1].1 = 1000;
        let lengths: usize = cells(&counts, SHORTEST_BAR).iter().map(|it| it.1).sum();
        assert_eq!(lengths, SHORTEST_BAR);
    }
}
