//! The style sheet, scripts and icon of the pages, compiled into the binary.

use std::sync::LazyLock;

use axum::{
    extract::Path,
    response::{IntoResponse, Response},
};
use http::{StatusCode, header};
use sha2::{Digest, Sha256};

/// Name, type and content.
const FILES: [(&str, &str, &str); 4] = [
    (
        "sluice.css",
        "text/css; charset=utf-8",
        include_str!("../../assets/sluice.css"),
    ),
    (
        "sluice.js",
        "text/javascript; charset=utf-8",
        include_str!("../../assets/sluice.js"),
    ),
    (
        "palette.js",
        "text/javascript; charset=utf-8",
        include_str!("../../assets/palette.js"),
    ),
    (
        "icon.svg",
        "image/svg+xml",
        include_str!("../../assets/icon.svg"),
    ),
];

/// Changes with any of the files, so that browsers may cache them for ever.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = Sha256::new();
    for (_, _, content) in FILES {
        hasher.update(content);
    }
    let bytes = hasher.finalize();
    bytes[..6]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
});

/// The address of a file.
pub(super) fn address(name: &str) -> String {
    format!("/assets/{name}?{}", *VERSION)
}

pub(super) async fn serve(Path(name): Path<String>) -> Response {
    let Some((_, kind, content)) = FILES.iter().find(|(file, _, _)| *file == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, *kind),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, *content).into_response()
}
