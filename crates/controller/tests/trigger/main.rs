//! The trigger loop against the embedded API, under a paused clock.

mod cluster;
mod faults;
mod installation;
mod metrics;
mod readme;
mod runs;
