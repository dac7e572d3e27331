//! New files in git, as people ask for them: by a form in a browser, and by `sluice scaffold`. A hub,
//! a forge, real git, the door and the change loop.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test is a panic"
)]

mod form;
mod guide;
mod scaffold;
mod world;
