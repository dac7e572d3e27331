//! `-e NAME` and `--environment NAME` for commands that take the environment after the pipeline: people are used
//! to either.

use std::ffi::OsString;

use clap::Command;

/// Moves the value of `-e` or `--environment` behind the pipeline, where the command has its environment.
pub(crate) fn with_environment_after_pipeline(
    root: &Command,
    typed: Vec<OsString>,
) -> Vec<OsString> {
    let name = typed.get(1).and_then(|it| it.to_str());
    let Some(command) = name.and_then(|name| root.find_subcommand(name)) else {
        return typed;
    };
    let mut positionals = command.get_positionals().map(|it| it.get_id().as_str());
    if positionals.next() != Some("pipeline") || positionals.next() != Some("environment") {
        return typed;
    }
    moved(command, &typed).unwrap_or(typed)
}

/// The words with the environment after the first positional argument, if there are both.
fn moved(command: &Command, typed: &[OsString]) -> Option<Vec<OsString>> {
    let (mut words, mut environment, mut pipeline_end) = (typed[..2].to_vec(), None, None);
    let mut rest = typed[2..].iter();
    while let Some(word) = rest.next() {
        let text = word.to_str().unwrap_or_default();
        if text == "--" {
            words.push(word.clone());
            words.extend(rest.by_ref().cloned());
        } else if let Some(value) = text.strip_prefix("--environment=") {
            environment = Some(OsString::from(value));
        } else if ["-e", "--environment"].contains(&text) {
            environment = Some(rest.next()?.clone());
        } else if text.starts_with('-') && text.len() > 1 {
            words.push(word.clone());
            if takes_next_word(command, text) {
                words.extend(rest.next().cloned());
            }
        } else {
            words.push(word.clone());
            pipeline_end = pipeline_end.or(Some(words.len()));
        }
    }
    words.insert(pipeline_end?, environment?);
    Some(words)
}

/// Whether the word after a flag is its value.
fn takes_next_word(command: &Command, flag: &str) -> bool {
    let mut flags = command.get_opts();
    let known = match flag.strip_prefix("--") {
        Some(long) => flags.find(|it| it.get_long() == Some(long)),
        None if flag.chars().count() == 2 => flags.find(|it| it.get_short() == flag.chars().nth(1)),
        // `-nshop` has its value.
        None => None,
    };
    known.is_some_and(|it| it.get_action().takes_values())
}
