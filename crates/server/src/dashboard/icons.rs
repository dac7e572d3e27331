//! The drawings of the pages: the signs of gates and actions, as lines in a square of 24.

use super::html::{Element, tag};

const CHECK: &str = "M6 12.5l4 4 8-9";
const CROSS: &str = "M7 7l10 10M17 7L7 17";
const DOTS: &str = "M6.5 12h.01M12 12h.01M17.5 12h.01";
const LOCK: &str = "M6.5 11h11v8h-11zM8.7 11V8.3a3.3 3.3 0 0 1 6.6 0V11";
const CLOCK: &str = "M12 4.5a7.5 7.5 0 1 1 0 15 7.5 7.5 0 0 1 0-15zM12 8v4.2l3 1.8";
const SNOWFLAKE: &str = "M12 4v16M5.1 8l13.8 8M5.1 16l13.8-8M9.8 5.3 12 7.5l2.2-2.2M9.8 18.7 12 16.5l2.2 \
     2.2M5 11.2l3-.8-.8-3M19 12.8l-3 .8.8 3M7.2 16.6l.8-3-3-.8M16.8 7.4l-.8 3 3 .8";
const BARS: &str = "M9 6.5v11M15 6.5v11";
const QUEUE: &str = "M6 8h12M6 12h12M6 16h7";
const ARROWS: &str = "M8 18V6M5 9l3-3 3 3M16 6v12M13 15l3 3 3-3";
const TARGET: &str =
    "M12 4.5a7.5 7.5 0 1 1 0 15 7.5 7.5 0 0 1 0-15zM12 9.5a2.5 2.5 0 1 1 0 5 2.5 2.5 0 0 1 0-5z";
const DOCUMENT: &str = "M8 4.5h6l3.5 3.5v11.5H8zM14 4.5V8h3.5M10.5 12.5h4.5M10.5 15.5h4.5";
const SEAL: &str = "M12 4l6.5 2.5v5c0 4-2.7 7-6.5 8.5-3.8-1.5-6.5-4.5-6.5-8.5v-5zM9.3 12l2 2 3.5-4";
const FLASK: &str =
    "M10 4.5h4M11 4.5v5l-4.5 8.2a1.3 1.3 0 0 0 1.1 1.8h8.8a1.3 1.3 0 0 0 1.1-1.8L13 9.5v-5";
const WAVES: &str = "M4 9c2.7-2.7 5.3-2.7 8 0s5.3 2.7 8 0M4 15c2.7-2.7 5.3-2.7 8 0s5.3 2.7 8 0";

/// A drawing, hidden from screen readers.
fn drawing(lines: &'static str) -> Element {
    tag("svg")
        .class("icon")
        .with("viewBox", "0 0 24 24")
        .with("aria-hidden", "true")
        .with("focusable", "false")
        .child(tag("path").with("d", lines))
}

/// The sign of a gate, by its name.
pub(super) fn gate(name: &str) -> Element {
    drawing(match name {
        "valid" => DOCUMENT,
        "suspended" => BARS,
        "targets" => TARGET,
        "turn" => QUEUE,
        "readiness" => CHECK,
        "verified" | "checks" => FLASK,
        "soak" => CLOCK,
        "order" => ARROWS,
        "signature" => SEAL,
        "freeze" => SNOWFLAKE,
        "rollout" => WAVES,
        _ => LOCK,
    })
}

/// The sign of a gate that waits: a check mark would say that it is done.
pub(super) fn waiting_gate(name: &str) -> Element {
    match name {
        "readiness" => drawing(DOTS),
        _ => gate(name),
    }
}

/// The sign of what failed.
pub(super) fn failed() -> Element {
    drawing(CROSS)
}
