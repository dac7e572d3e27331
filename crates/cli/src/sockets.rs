//! Says, where a port cannot be used, which flag chooses another.

use anyhow::anyhow;

/// What a socket is for, as errors call it, and the flag with its port or address.
pub(crate) type Flags<'a> = &'a [(&'a str, &'a str)];

/// Why the sockets for hooks or REST could not be opened.
pub(crate) fn of_server(error: server::Error, flags: Flags<'_>) -> anyhow::Error {
    match &error {
        server::Error::Listen { purpose, .. } => choose_another(&error, purpose, flags),
        server::Error::Certificate { .. } => error.into(),
    }
}

/// Why the controller ended.
pub(crate) fn of_controller(error: controller::run::Error, flags: Flags<'_>) -> anyhow::Error {
    match &error {
        controller::run::Error::Listen { purpose, .. } => choose_another(&error, purpose, flags),
        _ => error.into(),
    }
}

/// Why the embedded API is not served.
pub(crate) fn of_api(error: apiserver::ServeError, flag: &str) -> anyhow::Error {
    match &error {
        apiserver::ServeError::System { attempted, .. } if attempted.starts_with("listening") => {
            choose_another(&error, "API", &[("API", flag)])
        }
        _ => anyhow::Error::from(error).context("cannot serve the API"),
    }
}

fn choose_another(
    error: &(dyn std::error::Error + 'static),
    purpose: &str,
    flags: Flags<'_>,
) -> anyhow::Error {
    let cause = error.source().map(|cause| format!(": {cause}"));
    let cause = cause.unwrap_or_default();
    let flag = flags.iter().find(|(known, _)| *known == purpose);
    match flag {
        Some((_, flag)) => anyhow!(
            "{error}{cause}; end the program that uses the port, or choose another with {flag}"
        ),
        None => anyhow!("{error}{cause}"),
    }
}
