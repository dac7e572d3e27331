//! Calls to the API server with a timeout, and the messages of their errors.

use std::time::Duration;

use runtime::status::StatusError;

/// No call takes longer, so that none outlives the margin of a lease.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiCallError {
    /// The API server's own message where it has one.
    #[error("{}", message(.0))]
    Api(#[source] kube::Error),
    #[error("this replica may not be the leader any more")]
    NotLeading,
    #[error("the API server did not answer in time")]
    Timeout,
}

impl From<kube::Error> for ApiCallError {
    fn from(error: kube::Error) -> Self {
        Self::Api(error)
    }
}

impl From<StatusError> for ApiCallError {
    fn from(error: StatusError) -> Self {
        match error {
            StatusError::NotLeading => Self::NotLeading,
            StatusError::Hub(error) => Self::Api(error),
        }
    }
}

fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

/// Waits for a call until [`CALL_TIMEOUT`].
pub(super) async fn with_timeout<T, E: Into<ApiCallError>>(
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, ApiCallError> {
    let response = tokio::time::timeout(CALL_TIMEOUT, call).await;
    response.map_or(Err(ApiCallError::Timeout), |response| {
        response.map_err(Into::into)
    })
}
