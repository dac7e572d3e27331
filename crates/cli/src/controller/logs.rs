//! Logging to stderr: JSON with the keys that Flux's controllers use, or text.

use std::{
    fmt,
    io::{self, IsTerminal},
};

use serde_json::{Map, Value, json};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter,
    fmt::{
        FmtContext, FormatEvent, FormatFields, FormattedFields,
        format::{JsonFields, Writer},
        time::{FormatTime, SystemTime},
    },
    registry::LookupSpan,
};

use crate::args::controller::{LogEncoding, LogLevel};

/// The crates whose log level the flags set.
const OUR_CRATES: [&str; 9] = [
    "sluice",
    "controller",
    "runtime",
    "planner",
    "trigger",
    "git",
    "net",
    "server",
    "listener",
];

/// How to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Logging {
    pub(crate) encoding: LogEncoding,
    pub(crate) level: LogLevel,
}

/// Starts logging.
pub(crate) fn start(logging: Logging) {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter(logging.level))
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr);
    match logging.encoding {
        LogEncoding::Text => lines.init(),
        LogEncoding::Json => lines
            .fmt_fields(JsonFields::new())
            .event_format(Json)
            .init(),
    }
}

/// Our crates log at the requested level, libraries at a higher one.
fn filter(level: LogLevel) -> EnvFilter {
    let (ours, libraries) = match level {
        LogLevel::Trace => ("trace", "debug"),
        LogLevel::Debug => ("debug", "info"),
        LogLevel::Info => ("info", "warn"),
        LogLevel::Warn => ("warn", "warn"),
        LogLevel::Error => ("error", "error"),
    };
    let ours: String = OUR_CRATES
        .map(|target| format!(",{target}={ours}"))
        .concat();
    EnvFilter::new(format!("{libraries}{ours}"))
}

/// One JSON object per line: `level`, `ts`, `logger`, `msg`, then the fields of the event and of the
/// spans around it.
struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = LogFields::default();
        for span in context
            .event_scope()
            .into_iter()
            .flat_map(|scope| scope.from_root())
        {
            let extensions = span.extensions();
            let of_span = extensions.get::<FormattedFields<N>>();
            let of_span = of_span.and_then(|of_span| serde_json::from_str(of_span).ok());
            fields.0.append(&mut of_span.unwrap_or_default());
        }
        event.record(&mut fields);
        let metadata = event.metadata();
        let message = fields.0.remove("message").unwrap_or_default();
        let level = metadata.level().as_str().to_ascii_lowercase();
        let (logger, now) = (metadata.target(), now());
        // Written by hand so that the common keys come first; a map would sort them.
        write!(
            writer,
            r#"{{"level":{},"ts":{},"logger":{},"msg":{}"#,
            json!(level),
            json!(now),
            json!(logger),
            message
        )?;
        for (name, value) in fields.0 {
            write!(writer, ",{}:{value}", json!(name))?;
        }
        writeln!(writer, "}}")
    }
}

fn now() -> String {
    let mut now = String::new();
    match SystemTime.format_time(&mut Writer::new(&mut now)) {
        Ok(()) => now,
        Err(_) => String::new(),
    }
}

#[derive(Default)]
struct LogFields(Map<String, Value>);

impl LogFields {
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for LogFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_json_line_has_the_keys_of_flux_controllers() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .fmt_fields(JsonFields::new())
            .event_format(Json)
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("pass", pipeline = "default/podinfo");
            let _entered = span.enter();
            tracing::warn!(count = 3, quoted = "a \"b\"\n", shown = %"text", "said\ttwice");
        });
        let written = lines.0.lock().unwrap().clone();
        let text = String::from_utf8(written).unwrap();
        assert!(text.starts_with(r#"{"level":"warn","ts":"2"#) && text.ends_with("}\n"));
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["msg"], "said\ttwice");
        assert_eq!(line["pipeline"], "default/podinfo");
        assert_eq!(line["count"], 3);
        assert_eq!(line["quoted"], "a \"b\"\n");
        assert_eq!(line["shown"], "text");
        assert!(line["logger"].as_str().unwrap().contains("logs"));
    }
}
