//! The controller of PipelineTriggers against the embedded API, under a paused clock; the examples of the operator's
//! README also on a real kube-apiserver (`cargo xtask test --real`).

#[cfg(test)]
mod cluster;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod installation;
#[cfg(test)]
mod leading;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod readme;
#[cfg(test)]
mod runs;
