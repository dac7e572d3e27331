//! The loops: each observes, lets `planner` plan, acts, and reports. Empty so far.
