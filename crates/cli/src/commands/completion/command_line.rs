//! Reads an incomplete command line: which command it is, which values it has, and what comes next.

use std::{collections::BTreeMap, ffi::OsString};

use clap::{Arg, Command};

use crate::args::{LEADING_FLAGS, LEADING_SWITCHES, with_leading_flags_last};

/// What the last word of a command line can be.
pub(super) enum Expected<'a> {
    /// A subcommand.
    Subcommand,
    /// A flag.
    Flag,
    /// The value of a flag or of a positional argument.
    Value(&'a Arg),
    /// Nothing more.
    Nothing,
}

pub(super) struct CommandLine<'a> {
    pub(super) command: &'a Command,
    /// The values of flags, by the ids of their arguments.
    pub(super) flags: BTreeMap<&'a str, String>,
    pub(super) positionals: Vec<String>,
    /// The word to complete.
    pub(super) current: String,
    /// A flag that the current word is the value of.
    pending: Option<&'a Arg>,
}

impl<'a> CommandLine<'a> {
    pub(super) fn read(root: &'a Command, words: &[String]) -> Self {
        let (current, before) = match words.split_last() {
            Some((current, before)) => (current.clone(), before),
            None => (String::new(), words),
        };
        let mut line = Self {
            command: root,
            flags: BTreeMap::new(),
            positionals: Vec::new(),
            current,
            pending: None,
        };
        let before = with_program(before);
        for word in with_leading_flags_last(before).iter().skip(1) {
            line.add(&word.to_string_lossy());
        }
        line.split_current();
        line
    }

    fn add(&mut self, word: &str) {
        // bash makes `=` a word of its own.
        if word == "=" {
            return;
        }
        if let Some(flag) = self.pending.take() {
            self.flags.insert(flag.get_id().as_str(), word.to_owned());
            return;
        }
        if let Some((name, value)) = word.split_once('=').filter(|_| word.starts_with("--")) {
            if let Some(flag) = self.flag(name) {
                self.flags.insert(flag.get_id().as_str(), value.to_owned());
            }
            return;
        }
        if word.starts_with('-') {
            self.pending = self.flag(word).filter(|it| it.get_action().takes_values());
            return;
        }
        match self.command.find_subcommand(word) {
            Some(command) if self.positionals.is_empty() => self.command = command,
            _ => self.positionals.push(word.to_owned()),
        }
    }

    /// `--output=js` completes the value of `--output`.
    fn split_current(&mut self) {
        if self.current == "=" {
            self.current.clear();
            return;
        }
        let parts = self.current.split_once('=');
        let Some((name, value)) = parts.filter(|_| self.current.starts_with("--")) else {
            return;
        };
        if let Some(flag) = self.flag(name) {
            let value = value.to_owned();
            self.pending = Some(flag);
            self.current = value;
        }
    }

    /// The arguments of the command; before there is one, the flags that may stand there.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &'a Arg> {
        let of_a_command = self.command.find_subcommand("get");
        let leading = of_a_command.into_iter().flat_map(Command::get_arguments);
        let leading = leading.filter(|arg| is_leading(arg));
        self.command.get_arguments().chain(leading)
    }

    fn flag(&self, typed: &str) -> Option<&'a Arg> {
        let mut all = self.arguments();
        match typed.strip_prefix("--") {
            Some(long) => all.find(|arg| arg.get_long() == Some(long)),
            None => {
                let short = typed.chars().nth(1);
                all.find(|arg| arg.get_short().is_some() && arg.get_short() == short)
            }
        }
    }

    /// What the current word can be.
    pub(super) fn expected(&self) -> Expected<'a> {
        if let Some(flag) = self.pending {
            return Expected::Value(flag);
        }
        if self.current.starts_with('-') {
            return Expected::Flag;
        }
        if self.command.has_subcommands() && self.positionals.is_empty() {
            return Expected::Subcommand;
        }
        let positionals: Vec<_> = self.command.get_positionals().collect();
        let next = positionals.get(self.positionals.len());
        let last = positionals.last().filter(|arg| takes_several(arg));
        next.or(last)
            .map_or(Expected::Nothing, |arg| Expected::Value(arg))
    }
}

fn is_leading(arg: &Arg) -> bool {
    let flag = arg.get_long().map(|name| format!("--{name}"));
    let flag = flag.as_deref().unwrap_or_default();
    LEADING_FLAGS.contains(&flag) || LEADING_SWITCHES.contains(&flag)
}

fn takes_several(arg: &Arg) -> bool {
    let range = arg.get_num_args();
    range.is_some_and(|range| range.max_values() > 1)
}

fn with_program(words: &[String]) -> Vec<OsString> {
    let words = words.iter().map(OsString::from);
    [OsString::from("sluice")]
        .into_iter()
        .chain(words)
        .collect()
}
