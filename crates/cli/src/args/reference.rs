//! The command reference: a Markdown section for each command, from the definition of the command line.

use std::io::Write;

use clap::{Arg, ArgAction, Command, CommandFactory};

const OPENING: &str = "\
# Command reference

All commands of `sluice`, generated from their definitions. `sluice help COMMAND` prints the same.

Commands that use a cluster accept these flags, before or after the command:

| flag | |
| --- | --- |
| `--kubeconfig FILE` | kubeconfig to use; default: `$KUBECONFIG` or `~/.kube/config` |
| `--context NAME` | context of the kubeconfig; default: the current one |
| `-n NAME`, `--namespace NAME` | namespace; default: that of the context; of `uninstall`: `pipeline-system` |
| `--as USER`, `--as-group GROUP` | act as this user and as a member of this group (impersonation); needs the verb `impersonate` |

The environment follows the pipeline, as in `sluice explain web prod`; `-e NAME` and `--environment NAME` work with
every command that takes an environment.

Exit codes: 0 success; 1 failure; 2 usage error; 3 still held or waiting (commands with `--wait`).
";

/// The flags in the opening.
const COMMON: [&str; 6] = [
    "kubeconfig",
    "context",
    "namespace",
    "as_user",
    "as_group",
    "help",
];

/// Writes the reference of all commands.
pub(crate) fn write(out: &mut dyn Write) -> std::io::Result<()> {
    let mut root = super::Arguments::command();
    root.build();
    writeln!(out, "{OPENING}")?;
    for command in visible(&root) {
        writeln!(out, "- [{0}](#sluice-{0})", command.get_name())?;
    }
    for command in visible(&root) {
        write_command(command, "sluice", out)?;
    }
    Ok(())
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    let commands = command.get_subcommands();
    commands.filter(|it| !it.is_hide_set() && it.get_name() != "help")
}

fn write_command(command: &Command, parent: &str, out: &mut dyn Write) -> std::io::Result<()> {
    let name = format!("{parent} {}", command.get_name());
    writeln!(out, "\n## {name}\n")?;
    let about = command.get_about().map(ToString::to_string);
    writeln!(out, "{}.\n", cell(&about.unwrap_or_default()))?;
    writeln!(out, "Usage: `{}`", usage(command, &name))?;
    let has_cluster = command.get_arguments().any(|it| it.get_id() == "context");
    let shown = command.get_arguments().filter(|arg| {
        let is_common = has_cluster && COMMON.contains(&arg.get_id().as_str());
        !is_common && arg.get_id() != "help" && !arg.is_hide_set()
    });
    let (words, flags): (Vec<_>, Vec<_>) = shown.partition(|arg| arg.is_positional());
    let rows: Vec<String> = words.into_iter().chain(flags).map(row).collect();
    if !rows.is_empty() {
        writeln!(out, "\n| argument | |\n| --- | --- |\n{}", rows.join("\n"))?;
    }
    visible(command).try_for_each(|it| write_command(it, &name, out))
}

/// `sluice history [PIPELINE] [ENVIRONMENT] [flags]`
fn usage(command: &Command, name: &str) -> String {
    let mut words = vec![name.to_owned()];
    if command.has_subcommands() {
        let word = match command.is_subcommand_required_set() {
            true => "COMMAND",
            false => "[COMMAND]",
        };
        words.push(word.to_owned());
    }
    for arg in command.get_positionals() {
        let is_list = matches!(arg.get_action(), ArgAction::Append);
        let word = format!("{}{}", value_name(arg), if is_list { "…" } else { "" });
        words.push(match arg.is_required_set() {
            true => word,
            false => format!("[{word}]"),
        });
    }
    if command.get_opts().next().is_some() {
        words.push("[flags]".to_owned());
    }
    words.join(" ")
}

fn value_name(arg: &Arg) -> String {
    let names = arg.get_value_names().and_then(|names| names.first());
    names.map_or_else(
        || arg.get_id().to_string().to_uppercase(),
        ToString::to_string,
    )
}

/// A flag or positional argument, and what it means.
fn row(arg: &Arg) -> String {
    let takes_value = arg.get_action().takes_values();
    let value = match takes_value && !arg.is_positional() {
        true => format!(" {}", value_name(arg)),
        false => String::new(),
    };
    let short = arg.get_short().map(|short| format!("`-{short}`, "));
    let name = match arg.get_long() {
        Some(long) => format!("{}`--{long}{value}`", short.unwrap_or_default()),
        None => format!("`{}`", value_name(arg)),
    };
    let mut text = cell(&arg.get_help().map(ToString::to_string).unwrap_or_default());
    let values: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| takes_value && !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !values.is_empty() {
        text = format!("{text}: {}", values.join(", "));
    }
    let defaults = arg.get_default_values().iter();
    let defaults: Vec<_> = defaults.map(|it| it.to_string_lossy()).collect();
    let default = defaults.join(",");
    if takes_value && !default.is_empty() {
        text = format!("{text}; default: `{default}`");
    }
    if let Some(variable) = arg.get_env() {
        text = format!("{text}; `{}`", variable.to_string_lossy());
    }
    format!("| {name} | {text} |")
}

/// The text as the content of a table cell.
pub(crate) fn cell(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ").replace('|', "\\|");
    // Inside a code span Markdown shows an entity as it is written.
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(index, part)| match index % 2 {
        0 => part.replace('<', "&lt;"),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("`")
}
