//! The flag `-o` of commands that print text for people, or the same as JSON or YAML.

use std::io::Write;

use clap::ValueEnum;
use serde_json::Value;

use super::{get::write_json, line_wrapper::LineWrapper, yaml};

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    #[default]
    Text,
    Json,
    Yaml,
}

impl OutputFormat {
    /// Writes a value in this format; as text by the given function, wrapped to the width of a terminal.
    pub(super) fn write(
        self,
        out: &mut dyn Write,
        value: impl FnOnce() -> Value,
        text: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Text => {
                let mut out = LineWrapper::new(out);
                text(&mut out)?;
                Ok(out.flush()?)
            }
            Self::Json => write_json(&value(), out),
            Self::Yaml => yaml::write(out, &value()),
        }
    }
}
