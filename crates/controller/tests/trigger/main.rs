//! The trigger loop against the embedded API, under a paused clock.

#[cfg(test)]
mod cluster;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod faults;
mod installation;
#[cfg(test)]
mod metrics;
mod readme;
mod runs;
