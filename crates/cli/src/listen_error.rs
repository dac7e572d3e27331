//! Adds to listen errors the flag that selects another address.

use anyhow::anyhow;

/// The purpose of a listener, as named in errors, and the flag that sets its address.
pub(crate) type AddressFlags<'a> = &'a [(&'a str, &'a str)];

/// The error of starting the HTTP server.
pub(crate) fn of_server(error: server::Error, flags: AddressFlags<'_>) -> anyhow::Error {
    match &error {
        server::Error::Listen { purpose, .. } => with_flag(&error, purpose, flags),
        server::Error::Certificate { .. } => error.into(),
    }
}

/// The error of the controller.
pub(crate) fn of_controller(
    error: controller::run::Error,
    flags: AddressFlags<'_>,
) -> anyhow::Error {
    match &error {
        controller::run::Error::Listen { purpose, .. } => with_flag(&error, purpose, flags),
        _ => error.into(),
    }
}

/// The error of serving the embedded Kubernetes API.
#[cfg(feature = "standalone")]
pub(crate) fn of_api(error: apiserver::ServeError, flag: &str) -> anyhow::Error {
    match &error {
        apiserver::ServeError::System { attempted, .. } if attempted.starts_with("listening") => {
            with_flag(&error, "API", &[("API", flag)])
        }
        _ => anyhow::Error::from(error).context("cannot serve the embedded Kubernetes API"),
    }
}

fn with_flag(
    error: &(dyn std::error::Error + 'static),
    purpose: &str,
    flags: AddressFlags<'_>,
) -> anyhow::Error {
    let cause = error.source().map(|cause| format!(": {cause}"));
    let cause = cause.unwrap_or_default();
    let flag = flags.iter().find(|(known, _)| *known == purpose);
    match flag {
        Some((_, flag)) => anyhow!(
            "{error}{cause}; stop the program that uses the port, or choose another with {flag}"
        ),
        None => anyhow!("{error}{cause}"),
    }
}
