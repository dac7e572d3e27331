//! Why the watch of a kind of app on a cluster ended.

use kube::{core::Status, runtime::watcher};

/// Why a watch ended.
pub(super) enum WatchEnd {
    Forbidden(String),
    /// The kind is not served.
    KindGone,
    /// The server cannot stream lists.
    NoStreaming,
    Failed(String),
}

/// What an error of a watch means.
pub(super) fn end_of(error: &watcher::Error) -> WatchEnd {
    let status = match error {
        watcher::Error::WatchError(status) => Some(&**status),
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => Some(&**status),
        _ => None,
    };
    match status {
        Some(Status {
            code: 403, message, ..
        }) => WatchEnd::Forbidden(message.clone()),
        Some(Status {
            code: 404 | 405, ..
        }) => WatchEnd::KindGone,
        Some(status) if cannot_stream(status) => WatchEnd::NoStreaming,
        _ => WatchEnd::Failed(message_of(error)),
    }
}

fn message_of(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => crate::clusters::describe(error),
        error => error.to_string(),
    }
}

/// Servers without streaming lists refuse the option with different messages.
fn cannot_stream(status: &Status) -> bool {
    matches!(status.code, 400 | 422) && status.message.contains("sendInitialEvents")
        || status.code == 422 && status.message.contains("resourceVersionMatch")
}
