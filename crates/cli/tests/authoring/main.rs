//! New files in git, as people ask for them: by a form in a browser, and by `sluice scaffold`. A hub,
//! a forge, real git, the door and the change loop.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test is a panic"
)]

#[expect(
    dead_code,
    reason = "this suite needs less of it than the dashboard's own"
)]
#[path = "../../../server/tests/browser/chromium.rs"]
mod chromium;
mod form;
mod guide;
mod scaffold;
mod world;
