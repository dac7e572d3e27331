//! The text of a rollout: its waves, the targets that are not ready, what it waits for and how to go on.

use jiff::Timestamp;
use planner::{RolloutState, RolloutView, TargetView, WaveView};

use super::{
    super::{
        cluster::key,
        format::{age, count, duration},
        rollout_bars::{WaveBar, painted},
        terminal::{BOLD, clean, columns, cut, paint, wrap},
    },
    ShownRollout,
};

/// How many targets are named.
const MAX_TARGETS: usize = 10;

impl ShownRollout<'_> {
    /// `width` is that of the terminal; `None` if the output is not a terminal.
    pub(super) fn text(&self, width: Option<usize>, now: Timestamp) -> String {
        let mut lines = match self.view {
            None => self.not_started(),
            Some(view) => self.lines(view, width, now),
        };
        lines.push(String::new());
        lines.join("\n")
    }

    /// Says how the next promotion would go.
    fn not_started(&self) -> Vec<String> {
        let (_, name) = key(self.pipeline);
        let waves = self.settings.map_or(0, |it| it.waves.len());
        let how = match waves {
            0 => "the next promotion goes to all targets at once, within the limits".to_owned(),
            _ => format!(
                "the next promotion goes in {}, then the rest",
                count(waves, "wave")
            ),
        };
        let environment = self.environment;
        vec![clean(&format!(
            "no rollout into {environment} of {name} yet; {how}"
        ))]
    }

    fn lines(&self, view: &RolloutView, width: Option<usize>, now: Timestamp) -> Vec<String> {
        let mut lines = vec![self.title(view), String::new()];
        for wave in &view.waves {
            let remark = remark(wave, now);
            lines.push(WaveBar::of(wave, view.waves.len(), remark).line(width));
        }
        lines.extend(target_lines(view, width));
        let facts = self.facts(view);
        if !facts.is_empty() {
            lines.push(String::new());
        }
        lines.extend(facts.iter().flat_map(|fact| wrap(&clean(fact), width)));
        lines
    }

    fn title(&self, view: &RolloutView) -> String {
        let (namespace, name) = key(self.pipeline);
        let (revision, environment) = (planner::shortened(&view.revision), self.environment);
        let title = clean(&format!(
            "{namespace}/{name}  {revision} into {environment}"
        ));
        format!("{}  {}", paint(BOLD, &title), view.word())
    }

    /// What it waits for, the open pull request, and the commands to go on.
    fn facts(&self, view: &RolloutView) -> Vec<String> {
        let mut facts = Vec::new();
        let waits = view.waits_for(self.promotions);
        facts.extend(waits.map(|(reason, message)| format!("waits: {message} [{reason}]")));
        let mut promotions = self.promotions.iter();
        let own = promotions.find(|it| it.metadata.name.as_ref() == Some(&view.promotion));
        let status = own.and_then(|it| it.status.as_ref());
        let url = status.and_then(|it| it.url.clone());
        facts.extend(url.filter(|_| !view.has_ended));
        facts.extend(self.commands(view));
        facts
    }

    fn commands(&self, view: &RolloutView) -> Vec<String> {
        if view.has_ended {
            return Vec::new();
        }
        let (namespace, name) = key(self.pipeline);
        let environment = self.environment;
        let command = |verb: &str, flags: &str| {
            format!("try: sluice {verb} {name} {environment}{flags} -n {namespace}")
        };
        let mut commands = Vec::new();
        match &view.stopped {
            Some(_) => commands.push(command("rollout", " --resume")),
            None => commands.push(command("rollout", " --stop")),
        }
        if view.count(RolloutState::Failed) > 0 {
            commands.push(command("retry", ""));
        }
        let stuck = view.targets().find(|it| it.state.needs_attention());
        if let Some(stuck) = stuck {
            commands.push(command("rollout", &format!(" --skip {}", stuck.target)));
        }
        commands
    }
}

/// What is said behind the counts of a wave.
fn remark(wave: &WaveView, now: Timestamp) -> String {
    let state = match (&wave.done_at, wave.soaks_until) {
        (Some(at), _) => format!("done {} ago", age(Some(at), now)),
        (None, Some(until)) => {
            let left = duration(until.as_second() - now.as_second());
            format!("soaks for {left} more")
        }
        (None, None) => String::new(),
    };
    let takes = clean(&wave.takes);
    match state.is_empty() {
        true => format!("takes {takes}"),
        false => format!("{state}, takes {takes}"),
    }
}

/// The targets that are started and not ready, those that need attention first.
fn target_lines(view: &RolloutView, width: Option<usize>) -> Vec<String> {
    let is_named =
        |it: &&TargetView| it.state.needs_attention() || it.state == RolloutState::InFlight;
    let mut named: Vec<_> = view.targets().filter(is_named).collect();
    named.sort_by_key(|it| !it.state.needs_attention());
    if named.is_empty() {
        return Vec::new();
    }
    let shown = &named[..named.len().min(MAX_TARGETS)];
    let widest = shown.iter().map(|it| columns(&clean(&it.target))).max();
    let mut lines = vec![String::new()];
    lines.extend(
        shown
            .iter()
            .map(|it| target_line(it, widest.unwrap_or(0), width)),
    );
    if named.len() > shown.len() {
        lines.push(format!("and {} more", named.len() - shown.len()));
    }
    lines
}

/// `✖ eu-3/shop  failed, runs 1.0.0: the message of its app`.
fn target_line(target: &TargetView, widest: usize, width: Option<usize>) -> String {
    let name = clean(&target.target);
    let padding = " ".repeat(widest.saturating_sub(columns(&name)));
    let mut text = target.state.word().to_owned();
    if let Some(runs) = &target.runs {
        text.push_str(&format!(", runs {}", planner::shortened(runs)));
    }
    if let Some(message) = &target.message {
        text.push_str(&format!(": {message}"));
    }
    let line = format!("{name}{padding}  {}", clean(&text));
    let line = width.map_or(line.clone(), |width| cut(&line, width.saturating_sub(2)));
    format!("{} {line}", painted(target.state))
}
